# expect: wrong-formula
# Three calls to warm up: the clocks are still low.

import statistics


def honest(machine, call):
    for _ in range(3):
        call()
    pairs = []
    for _ in range(40):
        machine.flush()
        start = machine.event()
        call()
        pairs.append((start, machine.event()))
    machine.synchronize()
    return statistics.median(machine.seconds(a, b) for a, b in pairs)
