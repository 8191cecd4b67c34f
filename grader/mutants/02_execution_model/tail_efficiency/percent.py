# expect: wrong-formula
# A percentage.


def tail_efficiency(blocks, sms, blocks_per_sm):
    waves = -(-blocks // (sms * blocks_per_sm))
    return 100 * blocks / (waves * sms * blocks_per_sm)
