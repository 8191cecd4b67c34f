# expect: accepted
# The mean of the middle half.

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
    machine.synchronize()
    times = sorted(machine.seconds(a, b) for a, b in pairs)
    return statistics.fmean(times[len(times) // 4 : -len(times) // 4])
