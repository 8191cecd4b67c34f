"""A class of a thousand, simulated: its pages stay small and are made in seconds, in little memory."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from grader.reports import exports, feedback, report
from tests.grader.simulated import simulated

ROOT = Path(__file__).resolve().parents[3]
SOURCE = """
import sys
from pathlib import Path
from grader.reports import report
from tests.grader.simulated import simulated


def peak():
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))


results = simulated(int(sys.argv[1]))
before = peak()
report.write(results, Path(sys.argv[2]))
print(peak() - before)
"""


@pytest.mark.slow
def test_a_thousand_students_have_their_pages_in_seconds(tmp_path):
    results = simulated(1000)
    begin = time.perf_counter()
    report.write(results, tmp_path)
    seconds = time.perf_counter() - begin
    sizes = [p.stat().st_size for p in (tmp_path / "feedback").iterdir()]
    assert len(sizes) == 1000 and max(sizes) <= feedback.MOST_BYTES
    page = (tmp_path / "report.html").stat().st_size
    print(f"{seconds:.1f} s, report {page / 1e6:.1f} MB, largest page {max(sizes) / 1e3:.0f} kB")
    assert seconds < 120 and page < 4_000_000
    begin = time.perf_counter()
    again = report.read(tmp_path)
    assert len(exports.table(again, exports.finals(again, tmp_path / "no course"))) == 1001
    assert time.perf_counter() - begin < 30


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads /proc")
def test_writing_needs_memory_for_one_page_at_a_time(tmp_path):
    """What a class of a thousand needs beyond its results is the report's text and the JSON's, not its pages."""
    grown = {}
    for students in (100, 1000):
        command = [sys.executable, "-c", SOURCE, str(students), str(tmp_path / str(students))]
        done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT, timeout=280)
        grown[students] = int(done.stdout) / 1024
    print(f"MB beyond the results: {grown}")
    assert grown[1000] < 400
