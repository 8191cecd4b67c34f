# expect: accepted
# One minus the idle share.


def tail_efficiency(blocks, sms, blocks_per_sm):
    waves = -(-blocks // (sms * blocks_per_sm))
    places = waves * sms * blocks_per_sm
    return 1 - (places - blocks) / places
