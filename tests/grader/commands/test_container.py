"""Gradescope's zip in a plain Debian: `setup.sh` installs all it needs, `run_autograder` judges the sample class.

It needs root, and a folder with a bare system, which it changes:

    debootstrap --variant=minbase --include=ca-certificates bookworm DEBIAN
    GPULAB_DEBIAN=DEBIAN python -m pytest -m slow tests/grader/commands/test_container.py
"""

import io
import json
import os
import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest

from grader.commands import autograder
from grader.course.sources import ROOT
from grader.demo.sample import read_class, write_submissions

DEBIAN = Path(os.environ.get("GPULAB_DEBIAN") or "none").absolute()
SAMPLE = read_class()

INSIDE = """
mount --bind "$0" "$0" && cd "$0"
mount -t proc proc proc && mount -t tmpfs shm dev/shm
for device in null zero full random urandom; do touch dev/$device; mount --bind /dev/$device dev/$device; done
mkdir -p before && pivot_root . before && cd / && umount -l before
exec env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 bash "$1"
"""


def inside(script: str, seconds: float) -> str:
    """Run a script of the system in DEBIAN with this as its root; returns what it prints."""
    command = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--propagation", "private", "sh", "-ec", INSIDE]
    done = subprocess.run([*command, str(DEBIAN), script], capture_output=True, text=True, timeout=seconds)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.skipif(not (DEBIAN / "etc").is_dir(), reason="GPULAB_DEBIAN names no folder with a Debian system")
@pytest.mark.skipif(os.geteuid() != 0, reason="only root enters another system")
def test_a_plain_debian_judges_the_sample_class(tmp_path):
    place = DEBIAN / "autograder"
    shutil.rmtree(place / "source", ignore_errors=True)
    for name in ("source", "submission", "results"):
        (place / name).mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(io.BytesIO(autograder.gradescope(SAMPLE.unit, 5))) as archive:
        archive.extractall(place / "source")
    shutil.copy(place / "source" / "run_autograder", place)
    if not (place / "venv").exists():
        inside("/autograder/source/setup.sh", 3600)

    write_submissions(SAMPLE, ROOT / "solutions" / SAMPLE.unit, tmp_path)
    got, expected = {}, {}
    for student in SAMPLE.students:
        shutil.rmtree(place / "submission")
        shutil.copytree(tmp_path / student.name, place / "submission")
        (place / "results" / "results.json").unlink(missing_ok=True)
        inside("/autograder/run_autograder", 600)
        results = json.loads((place / "results" / "results.json").read_text())
        got[student.name] = [t["score"] for t in results["tests"]]
        expected[student.name] = list(student.marks)
        assert results["score"] == sum(student.marks) and results["output"], student.name
    assert got == expected and len(got) >= 13
