# expect: accepted
# Blocks of the busiest SM, then its waves: rounding twice gives the same.


def waves(blocks, sms, blocks_per_sm):
    busiest = -(-blocks // sms)
    return -(-busiest // blocks_per_sm)
