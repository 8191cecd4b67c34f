"""Ten thousand submissions on an array of 64 workers, with work and nbgrader's converters pretended: little memory,
small pages, and everything agrees."""

import os
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest

from grader.gradebook.gradebook import Course
from grader.grading import verify
from grader.reports import report
from tests.grader.engines.conftest import STAND_INS
from tests.grader.small import UNIT, right, write_unit

ROOT = Path(__file__).resolve().parents[3]
COUNT = int(os.environ.get("GPULAB_CLASS", 10_000))
CASES = 60
"""Of each verdict: as many as a unit of four or five kernels has."""

MOST_MEMORY, MOST_PAGE, MOST_SECONDS = 400, 1_000_000, 3.0


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_ten_thousand_submissions(tmp_path):
    unit, out = write_unit(tmp_path / "solutions"), tmp_path / "out"
    good = right(unit)
    with zipfile.ZipFile(tmp_path / "moodle.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for n in range(COUNT):
            text = (good.replace(b"3 * n", b"2 * n") if n % 3 == 0 else good).replace(b"Why three?", f"By {n}".encode())
            archive.writestr(f"Student {n:05}_{100_000 + n}_assignsubmission_file_/{UNIT}.ipynb", text)
    command = [sys.executable, "-m", "tests.grader.engines.grade_pretend", unit, tmp_path / "moodle.zip", out, "array"]
    env = os.environ | {"PATH": f"{STAND_INS}{os.pathsep}{os.environ['PATH']}", "PRETEND_FOLDER": str(tmp_path)}
    env |= {"PRETEND_CASES": str(CASES)}
    done = subprocess.run(
        [*map(str, command), "--workers=64", "--quick"], cwd=ROOT, env=env, capture_output=True, text=True
    )
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
    most = int(done.stdout.rpartition(", ")[2].split()[0])
    assert most <= MOST_MEMORY

    assert verify.problems(out) == []
    scores = Course(out / "course", UNIT).scores()
    assert len(scores) == COUNT and sum(scores.values()) == COUNT - len(range(0, COUNT, 3))

    sizes = {path.name: path.stat().st_size for path in [*out.glob("*.html"), *(out / "feedback").glob("*.html")]}
    assert len([name for name in sizes if name.startswith("students-")]) == -(-COUNT // report.PART)
    print({name: size for name, size in sizes.items() if size == max(sizes.values())})
    assert max(sizes.values()) <= MOST_PAGE
    results, begin = report.read(out), time.perf_counter()
    report.write_pages(results, out)
    each = (time.perf_counter() - begin) / len(sizes)
    print(f"{each * 1000:.1f} ms a page")
    assert each <= MOST_SECONDS
