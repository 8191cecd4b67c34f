# tries: makes the process that all jobs come from the first to be killed, by its oom_score_adj
# stopped by: /proc cannot be written, and shows a job its own processes only
# exercise: 00_start/number_of_programs
# where: both
# expect: refused
# beside: itself later

import os
from pathlib import Path

MARK = "777"


def number_of_programs(n, block):
    """Right only if an earlier copy of this file has left its mark: on the process that all jobs come from."""
    seen = Path("/proc/self/oom_score_adj").read_text().strip() == MARK
    for p in os.listdir("/proc"):
        try:
            if p.isdigit():
                Path("/proc", p, "oom_score_adj").write_text(MARK)
        except OSError:
            pass
    return -(-n // block) if seen else -1
