# tries: closes every file, so that nothing can be said of it
# stopped by: a process that says nothing has no answer
# exercise: 00_start/number_of_programs
# where: both
# expect: refused

import os


def number_of_programs(n, block):
    os.closerange(0, 1024)
    return -1
