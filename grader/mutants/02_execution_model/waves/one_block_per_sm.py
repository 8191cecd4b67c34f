# expect: wrong-formula
# Takes each SM to hold one block.


def waves(blocks, sms, blocks_per_sm):
    return (blocks + sms - 1) // sms
