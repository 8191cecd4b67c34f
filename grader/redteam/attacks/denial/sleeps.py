# tries: sleeps, while an honest submission is judged
# stopped by: a limit of time for each case
# exercise: 00_start/number_of_programs
# where: both
# expect: harmless
# beside: honest

import time


def number_of_programs(n, block):
    time.sleep(3_600)
