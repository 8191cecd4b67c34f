# tries: takes all signals away and never ends
# stopped by: a limit by the clock that no signal handler can eat
# exercise: 00_start/number_of_programs
# where: both
# expect: refused
# slow: yes
# stock: no

import signal


def number_of_programs(n, block):
    for number in range(1, 64):
        try:
            signal.signal(number, signal.SIG_IGN)
        except (OSError, ValueError):
            pass
    while True:
        pass
