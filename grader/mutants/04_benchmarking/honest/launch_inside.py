# expect: wrong-formula
# Waits before each sample, so the launch lies between the events.

import statistics


def honest(machine, call):
    call()
    begin = machine.now()
    while machine.now() - begin < 0.1:
        call()
        machine.synchronize()
    pairs = []
    for _ in range(200):
        machine.flush()
        machine.synchronize()
        start = machine.event()
        call()
        pairs.append((start, machine.event()))
    machine.synchronize()
    return statistics.median(machine.seconds(a, b) for a, b in pairs)
