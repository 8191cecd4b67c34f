# tries: writes an answer that is no line in small pieces, each of which is joined to all before
# stopped by: an answer has a limit, and is read once
# exercise: 00_start/number_of_programs
# where: both
# expect: harmless

import os
import time


def number_of_programs(n, block):
    """A line that never ends, byte by byte: who joins it anew for each byte never ends either."""
    begin = time.monotonic()
    chunk = b"x" * 4096
    for fd in range(3, 500):
        try:
            os.write(fd, b"x")
        except OSError:
            continue
        while time.monotonic() < begin + 30:
            os.write(fd, chunk)
    return -1
