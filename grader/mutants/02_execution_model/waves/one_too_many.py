# expect: wrong-formula
# Adds a wave also where the last one is full.


def waves(blocks, sms, blocks_per_sm):
    return blocks // (sms * blocks_per_sm) + 1
