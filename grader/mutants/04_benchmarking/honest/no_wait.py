# expect: wrong-formula
# Reads the host's clock when the call returns.

import statistics


def honest(machine, call):
    call()
    begin = machine.now()
    while machine.now() - begin < 0.1:
        call()
        machine.synchronize()
    times = []
    for _ in range(200):
        machine.flush()
        start = machine.now()
        call()
        times.append(machine.now() - start)
    machine.synchronize()
    return statistics.median(times)
