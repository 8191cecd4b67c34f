# expect: wrong-formula
# Rounds down: the last wave is forgotten.


def waves(blocks, sms, blocks_per_sm):
    return blocks // (sms * blocks_per_sm)
