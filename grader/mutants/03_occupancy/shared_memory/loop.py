# expect: accepted
# Adds blocks until one does not fit.

from labutils import device


def blocks_by_shared(shared_bytes, capability):
    limits = device.limits_for(divmod(capability, 10))
    total, unit = limits.shared_per_sm_kb * 1024, limits.shared_unit_bytes
    reserved = limits.shared_reserved_kb * 1024
    blocks = 0
    if shared_bytes > limits.shared_per_block_kb * 1024:
        return 0
    taken = -(-(shared_bytes + reserved) // unit) * unit
    while blocks < limits.max_blocks and (blocks + 1) * taken <= total:
        blocks += 1
    return blocks
