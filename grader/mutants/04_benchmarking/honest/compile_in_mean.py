# expect: wrong-formula
# The first call is a sample, and the mean spreads it over all.

import statistics


def honest(machine, call):
    pairs = []
    for _ in range(200):
        machine.flush()
        start = machine.event()
        call()
        pairs.append((start, machine.event()))
    machine.synchronize()
    return statistics.fmean(machine.seconds(a, b) for a, b in pairs)
