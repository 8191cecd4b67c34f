# tries: a simulation with a generator in place of the formula
# exercise: 04_benchmarking/finish_time
# expect: accepted

from collections import deque
from itertools import accumulate, repeat


def finish_time(count, launch, kernel):
    """Launch after launch; a kernel begins when it is launched and the one before has ended."""
    launched = accumulate(repeat(launch, count))
    ends = accumulate(launched, lambda end, ready: max(end, ready) + kernel, initial=0)
    return deque(ends, maxlen=1).pop()
