# expect: wrong-formula
# Does not round to the unit.

from labutils import device


def blocks_by_shared(shared_bytes, capability):
    limits = device.limits_for(divmod(capability, 10))
    if shared_bytes > limits.shared_per_block_kb * 1024:
        return 0
    taken = shared_bytes + limits.shared_reserved_kb * 1024
    return min(limits.max_blocks, limits.shared_per_sm_kb * 1024 // taken) if taken else limits.max_blocks
