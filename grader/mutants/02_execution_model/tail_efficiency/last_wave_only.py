# expect: wrong-formula
# The share of the last wave, not of all.


def tail_efficiency(blocks, sms, blocks_per_sm):
    waves = -(-blocks // (sms * blocks_per_sm))
    return (blocks - (waves - 1) * sms * blocks_per_sm) / (sms * blocks_per_sm)
