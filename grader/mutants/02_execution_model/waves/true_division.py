# expect: wrong-formula
# Does not round.


def waves(blocks, sms, blocks_per_sm):
    return blocks / (sms * blocks_per_sm)
