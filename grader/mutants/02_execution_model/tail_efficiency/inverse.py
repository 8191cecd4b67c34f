# expect: wrong-formula
# Turned round.


def tail_efficiency(blocks, sms, blocks_per_sm):
    waves = -(-blocks // (sms * blocks_per_sm))
    return waves * sms * blocks_per_sm / blocks
