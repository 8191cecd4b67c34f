# tries: reads its parents' memory and environment through /proc
# stopped by: other jobs and the judge are processes of other namespaces; they know no answers either
# exercise: 00_start/number_of_programs
# where: both
# expect: refused
# stock: no

import os
import re


def number_of_programs(n, block):
    for pid in [p for p in os.listdir("/proc") if p.isdigit() and int(p) != os.getpid()]:
        try:
            for line in open(f"/proc/{pid}/maps"):
                low, high = (int(a, 16) for a in re.match(r"(\w+)-(\w+) rw", line).groups())
                memory = open(f"/proc/{pid}/mem", "rb")
                memory.seek(low)
                if found := re.search(rb"'expected': (\d+)", memory.read(high - low)):
                    return int(found[1])
        except (OSError, AttributeError, ValueError, OverflowError, MemoryError):
            continue
    return -1
