# expect: accepted
# Waves before rounding over waves after it.


def tail_efficiency(blocks, sms, blocks_per_sm):
    waves = -(-blocks // (sms * blocks_per_sm))
    return blocks / (sms * blocks_per_sm) / waves
