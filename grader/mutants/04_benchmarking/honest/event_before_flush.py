# expect: wrong-formula
# The first event comes before the flush, which is timed as well.

import statistics


def honest(machine, call):
    call()
    begin = machine.now()
    while machine.now() - begin < 0.1:
        call()
        machine.synchronize()
    pairs = []
    for _ in range(200):
        start = machine.event()
        machine.flush()
        call()
        pairs.append((start, machine.event()))
    machine.synchronize()
    return statistics.median(machine.seconds(a, b) for a, b in pairs)
