# expect: accepted
# Waits after each sample, which the flush makes up for.

import statistics


def honest(machine, call):
    call()
    begin = machine.now()
    while machine.now() - begin < 0.1:
        call()
        machine.synchronize()
    times = []
    for _ in range(150):
        machine.flush()
        start = machine.event()
        call()
        stop = machine.event()
        machine.synchronize()
        times.append(machine.seconds(start, stop))
    return statistics.median(times)
