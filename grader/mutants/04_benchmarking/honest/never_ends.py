# expect: timeout
# Warms up without calling: the simulated clock stands still.

import statistics


def honest(machine, call):
    begin = machine.now()
    while machine.now() - begin < 0.1:
        pass
    pairs = []
    for _ in range(200):
        machine.flush()
        start = machine.event()
        call()
        pairs.append((start, machine.event()))
    machine.synchronize()
    return statistics.median(machine.seconds(a, b) for a, b in pairs)
