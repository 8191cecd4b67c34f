# expect: unfilled
# The stub as it is released.


def blocks_by_registers(threads, registers, capability):
    raise NotImplementedError("blocks_by_registers is not written yet")
