# expect: unfilled
# The stub as it is released.


def honest(machine, call):
    raise NotImplementedError("honest is not written yet")
