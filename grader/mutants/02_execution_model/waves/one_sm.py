# expect: wrong-formula
# Leaves the number of SMs out.


def waves(blocks, sms, blocks_per_sm):
    return -(-blocks // blocks_per_sm)
