# expect: accepted
# Works out both times.


def verdict(work, seconds, roof):
    memory, compute = work.bytes / roof.bandwidth, work.flops / roof.flops
    if 2 * max(memory, compute) < seconds:
        return "neither"
    return "memory" if memory > compute else "compute"
