# expect: accepted
# No warm-up of its own: so many samples that most are at full clocks.

import statistics


def honest(machine, call):
    pairs = []
    for _ in range(4000):
        machine.flush()
        start = machine.event()
        call()
        pairs.append((start, machine.event()))
    machine.synchronize()
    return statistics.median(machine.seconds(a, b) for a, b in pairs)
