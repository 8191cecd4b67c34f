"""Memory that was put into huge pages is what it was, and a fork shares it."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]

PROGRAM = """
import os, re
from grader.judge.inside import huge_pages

mine = [bytes([n % 251]) * (1 << 20) for n in range(64)]
huge_pages.collapse()
if os.fork() == 0:
    mine[7] = b"of the child alone"
    os._exit(mine != [bytes([n % 251]) * (1 << 20) if n != 7 else mine[7] for n in range(64)])
assert os.wait()[1] == 0
assert mine == [bytes([n % 251]) * (1 << 20) for n in range(64)]
print(re.search(r"AnonHugePages:\\s+(\\d+)", open("/proc/self/smaps_rollup").read())[1])
"""


def test_collapsed_memory_keeps_its_content():
    done = subprocess.run([sys.executable, "-c", PROGRAM], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    kernel = tuple(map(int, re.findall(r"\d+", Path("/proc/sys/kernel/osrelease").read_text())[:2]))
    setting = Path("/sys/kernel/mm/transparent_hugepage/enabled")
    if kernel < (6, 1) or not setting.exists() or "[never]" in setting.read_text():
        pytest.skip("this kernel gives no huge pages when they are asked for")
    assert int(done.stdout) > 16 << 10  # kB
