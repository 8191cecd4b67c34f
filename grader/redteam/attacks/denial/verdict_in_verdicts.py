# tries: forges a verdict of lists in lists
# stopped by: forged answers count for nothing, however they are formed
# exercise: 04_benchmarking/honest
# where: both
# expect: harmless

import json
import os


def honest(machine, call):
    """A verdict that holds lists in lists: too deep to be shown, and not too deep to be read."""
    deep = "[" * 700 + "]" * 700
    line = '{"task": "04_benchmarking/honest", "case": 0, "verdict": {"results": ' + deep + "}}\n"
    for fd in range(3, 500):
        try:
            os.write(fd, line.encode())
        except OSError:
            pass
    os._exit(0)
