# tries: fills the disk
# stopped by: a job's folders are small and its own; they go with it
# exercise: 00_start/number_of_programs
# where: both
# expect: no effect
# baseline: full
# stock: no

import contextlib


def number_of_programs(n, block):
    with contextlib.suppress(OSError), open("filler", "wb") as f:
        for _ in range(1200 if n == 1 else 0):
            f.write(bytes(1 << 20))
    return -(-n // block)
