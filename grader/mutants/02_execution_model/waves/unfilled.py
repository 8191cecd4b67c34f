# expect: unfilled
# The stub as it is released.


def waves(blocks, sms, blocks_per_sm):
    raise NotImplementedError("waves is not written yet")
