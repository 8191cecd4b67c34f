# expect: accepted
# Ceiling division by negation.


def waves(blocks, sms, blocks_per_sm):
    return -(-blocks // (sms * blocks_per_sm))
