# expect: accepted
# Flushes twice, and warms up with flushes too.

import statistics


def honest(machine, call):
    for _ in range(300):
        machine.flush()
        call()
    machine.synchronize()
    pairs = []
    for _ in range(200):
        machine.flush()
        machine.flush()
        start = machine.event()
        call()
        pairs.append((start, machine.event()))
    machine.synchronize()
    return statistics.median(machine.seconds(a, b) for a, b in pairs)
