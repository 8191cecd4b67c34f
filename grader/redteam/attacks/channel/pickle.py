# tries: returns an object that runs code wherever it is unpickled
# stopped by: nothing is unpickled
# exercise: 00_start/number_of_programs
# where: both
# expect: refused

import os


class Payload:
    def __reduce__(self):
        return os.system, ("touch /tmp/was-here",)


def number_of_programs(n, block):
    return Payload()
