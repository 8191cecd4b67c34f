# expect: accepted
# Whole waves, and one more for a rest.


def waves(blocks, sms, blocks_per_sm):
    full, rest = divmod(blocks, sms * blocks_per_sm)
    return full + (rest > 0)
