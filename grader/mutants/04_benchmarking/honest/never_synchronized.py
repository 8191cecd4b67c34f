# expect: error
# Reads events that the GPU has not come to.

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
        start = machine.event()
        call()
        pairs.append((start, machine.event()))
    return statistics.median(machine.seconds(a, b) for a, b in pairs)
