# expect: wrong-formula
# Takes the most of one block for all there is.

from labutils import device


def blocks_by_shared(shared_bytes, capability):
    limits = device.limits_for(divmod(capability, 10))
    total, unit = limits.shared_per_sm_kb * 1024, limits.shared_unit_bytes
    reserved = limits.shared_reserved_kb * 1024
    if shared_bytes > limits.shared_per_block_kb * 1024:
        return 0
    taken = -(-(shared_bytes + reserved) // unit) * unit
    return min(limits.max_blocks, limits.shared_per_block_kb * 1024 // taken) if taken else limits.max_blocks
