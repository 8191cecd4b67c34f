# tries: ends its process before a wrong answer can be told
# stopped by: a process that ends early has told nothing
# exercise: 00_start/number_of_programs
# where: both
# expect: refused

import os


def number_of_programs(n, block):
    os._exit(0)
