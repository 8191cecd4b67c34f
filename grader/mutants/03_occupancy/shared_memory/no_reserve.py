# expect: wrong-formula
# Forgets the system's share.

from labutils import device


def blocks_by_shared(shared_bytes, capability):
    limits = device.limits_for(divmod(capability, 10))
    if not shared_bytes:
        return limits.max_blocks
    if shared_bytes > limits.shared_per_block_kb * 1024:
        return 0
    return min(limits.max_blocks, limits.shared_per_sm_kb * 1024 // (-(-shared_bytes // 128) * 128))
