# expect: wrong-formula
# What idles, not what is used.


def tail_efficiency(blocks, sms, blocks_per_sm):
    waves = -(-blocks // (sms * blocks_per_sm))
    return 1 - blocks / (waves * sms * blocks_per_sm)
