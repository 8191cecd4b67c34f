# expect: wrong-formula
# Rounds the blocks of one SM, and forgets how many it holds at a time.


def waves(blocks, sms, blocks_per_sm):
    return -(-blocks // sms) // blocks_per_sm + 1
