# tries: writes a line of sixty megabytes into the place of its answer
# stopped by: an answer has a limit, and is read once
# exercise: 00_start/number_of_programs
# where: both
# expect: harmless

import os


def number_of_programs(n, block):
    """Sixty megabytes of an answer's line, then another."""
    for fd in range(3, 500):
        try:
            os.write(fd, b"x")
        except OSError:
            continue
        for _ in range(60):
            os.write(fd, bytes(1 << 20).replace(b"\0", b"["))
    return -1
