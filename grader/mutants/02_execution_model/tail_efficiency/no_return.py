# expect: wrong-values
# Computes and does not return.


def tail_efficiency(blocks, sms, blocks_per_sm):
    waves = -(-blocks // (sms * blocks_per_sm))
    blocks / (waves * sms * blocks_per_sm)
