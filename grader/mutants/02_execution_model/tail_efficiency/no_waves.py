# expect: wrong-formula
# Blocks over the places of one wave.


def tail_efficiency(blocks, sms, blocks_per_sm):
    return blocks / (sms * blocks_per_sm)
