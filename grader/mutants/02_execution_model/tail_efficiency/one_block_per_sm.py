# expect: wrong-formula
# Takes each SM to hold one block.


def tail_efficiency(blocks, sms, blocks_per_sm):
    waves = -(-blocks // (sms * blocks_per_sm))
    return blocks / (waves * sms)
