# expect: wrong-formula
# Lets a block ask for all of the SM.

from labutils import device


def blocks_by_shared(shared_bytes, capability):
    limits = device.limits_for(divmod(capability, 10))
    total, unit = limits.shared_per_sm_kb * 1024, limits.shared_unit_bytes
    reserved = limits.shared_reserved_kb * 1024
    taken = -(-(shared_bytes + reserved) // unit) * unit
    return min(limits.max_blocks, max(1, total // taken)) if taken else limits.max_blocks
