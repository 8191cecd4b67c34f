"""Killed at any moment, of the parent, of workers, on a full disk, in a power cut: after --resume every submission is
graded exactly once, and all that the class shows is sound."""

import contextlib
import itertools
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path

import pytest

from grader.gradebook.gradebook import Course
from grader.gradebook.journal import read
from grader.grading import verify
from grader.grading.grade import grade
from grader.grading.options import GradeOptions
from grader.grading.regrade import regrade
from grader.judge.isolation import bubblewrap
from tests.grader.engines import pretend
from tests.grader.grading.pretended import Here, quick_feedback
from tests.grader.small import UNIT, right, write_unit

ROOT = Path(__file__).resolve().parents[3]
COUNT = 16
MOMENTS = int(os.environ.get("GPULAB_KILLS", 100))


@pytest.fixture(scope="module")
def unit(tmp_path_factory):
    return write_unit(tmp_path_factory.mktemp("solutions"))


@pytest.fixture
def submissions(unit, tmp_path):
    """Every third is wrong, one kills its worker once, one is torn."""
    good, folder = right(unit), tmp_path / "submissions"
    folder.mkdir()
    for n in range(COUNT):
        name = "kills once" if n == 5 else f"student {n:02}"
        text = good.replace(b"3 * n", b"2 * n") if n % 3 == 0 else good
        (folder / f"{name}.ipynb").write_bytes(good[:200] if n == 7 else text)
    return folder


def expected():
    marks = {f"student {n:02}": float(n % 3 != 0 and n != 7) for n in range(COUNT) if n != 5}
    return marks | {"kills once": 1.0}


def command(unit, submissions, out, *options):
    line = [sys.executable, "-m", "tests.grader.engines.grade_pretend", str(unit), str(submissions), str(out)]
    return [*line, *options]


@pytest.fixture
def env(tmp_path):
    for name in ("marks", "temporary"):
        (tmp_path / name).mkdir()
    own = {"TMPDIR": str(tmp_path / "temporary")}  # who is killed leaves something
    return os.environ | {"PRETEND_FOLDER": str(tmp_path / "marks"), "PRETEND_SECONDS": "0.2"} | own


def entries(out):
    return len(list(out.glob("journal/entries/*.json")))


def workers_of(pid):
    """The children of all threads of a process."""
    return [int(p) for f in Path(f"/proc/{pid}/task").glob("*/children") for p in f.read_text().split()]


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_killed_at_ten_moments(unit, submissions, tmp_path, env):
    draw, out, torn = random.Random(20), tmp_path / "out", 0
    for moment in range(10):
        options = ["--resume"] if (out / "journal" / "header.json").exists() else []
        before, victim = entries(out), ("parent", "worker", "parent", "interrupt", "parent")[moment % 5]
        process = subprocess.Popen(command(unit, submissions, out, *options), cwd=ROOT, env=env)
        until = min(before + draw.randint(0, 2), COUNT - 1)
        deadline = time.monotonic() + 120
        while process.poll() is None and entries(out) < until and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(draw.uniform(0, 0.5))
        if victim == "worker":
            for worker in workers_of(process.pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(worker, signal.SIGKILL)
            time.sleep(draw.uniform(0.5, 2))
        process.send_signal(signal.SIGINT if victim == "interrupt" else signal.SIGKILL)
        process.wait(timeout=60)
        written = sorted(out.glob("journal/entries/*.json"))
        if moment % 3 == 2 and written:  # a power cut: what had been written lately is torn
            path = draw.choice(written)
            path.write_bytes(path.read_bytes()[: draw.randint(0, 500)])
            torn += 1
    assert torn
    done = subprocess.run(command(unit, submissions, out, "--resume"), cwd=ROOT, env=env, timeout=200)
    assert done.returncode == 0 and verify.problems(out) == []
    assert Course(out / "course", UNIT).scores() == expected()


class Worth(Here):
    """A regrade in which a right answer is worth `points`."""

    def __init__(self, points):
        super().__init__()
        self.points = points

    def run(self, jobs):
        for job in jobs:
            verdicts = pretend.do(job)["verdicts"]
            for verdict in verdicts.values():
                verdict["marks"] *= self.points
            yield job["key"], {"verdicts": verdicts, "record": {"seed": job["seed"]}}


def grading(unit, folder, out, resume):
    return lambda: grade(unit, folder, out, GradeOptions(seed=3, resume=resume), engine=Here())


def judging(unit, out, points):
    return lambda: regrade(out, solutions=unit.parent, engine=Worth(points))


def in_a_child(command):
    """Start a command in a process that shares what this one has imported; returns its id."""
    child = os.fork()
    if child == 0:
        try:
            command()
            os._exit(0)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)
    return child


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_killed_at_a_hundred_random_moments(unit, tmp_path, monkeypatch):
    """Of grading a class, of adding to it and of judging it again: the same command goes on, and all is sound."""
    monkeypatch.setattr(Course, "feedback", quick_feedback)
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))  # who is killed leaves something
    draw, good, out = random.Random(7), right(unit), tmp_path / "out"
    wrong, moments, seconds, marks = good.replace(b"3 * n", b"2 * n"), MOMENTS, {}, {}
    for number in itertools.count():
        kind = "regrade" if number % 4 == 3 else "grade"
        if kind == "grade":
            names = ["ana", "ben", "chi"] if number == 0 else [draw.choice(["ana", "ben", f"late {number % 5}"])]
            folder = tmp_path / f"submissions {number}"
            folder.mkdir()
            for name in names:
                marks[name] = float(draw.random() < 0.7)
                # no two are alike, so that each of them has to be graded
                text = (good if marks[name] else wrong).replace(b"Why three?", f"Why {number}?".encode())
                (folder / f"{name}.ipynb").write_bytes(text)
        else:
            points = draw.choice([0.25, 0.5, 0.75])
            marks = {name: points * bool(m) for name, m in marks.items()}
        begun = False
        for _ in range(draw.randrange(1, 4) if number else 0):
            child = in_a_child(grading(unit, folder, out, begun) if kind == "grade" else judging(unit, out, points))
            time.sleep(draw.uniform(0, seconds[kind]))
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            moments -= 1
            header = read(out / "journal" / "header.json")
            begun = kind == "grade" and not header["finished"]
        begin = time.monotonic()
        child = in_a_child(grading(unit, folder, out, begun) if kind == "grade" else judging(unit, out, points))
        assert os.waitpid(child, 0)[1] == 0
        seconds |= {kind: time.monotonic() - begin} if number else {"grade": 2.0, "regrade": 2.0}
        assert verify.problems(out) == []
        shown = {s["student"]: s["marks"] for s in json.loads((out / "grades.json").read_text())["students"]}
        assert shown == marks
        if moments <= 0:
            return


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.skipif(not bubblewrap(), reason="a small disk is made with bubblewrap")
def test_a_small_disk(unit, submissions, tmp_path, env):
    """A real one: journal and gradebook fill it, room is made, the same command goes on."""
    out = tmp_path / "out"
    out.mkdir()
    run = " ".join(f"'{part}'" for part in command(unit, submissions, out / "x"))
    script = f"""
        head -c 2250000 /dev/zero > {out}/ballast
        {run}; echo first $?
        rm {out}/ballast
        {run} --resume; echo second $?
        {sys.executable} -m grader verify {out}/x; echo verified $?
    """
    small = [bubblewrap(), "--dev-bind", "/", "/", "--size", "2900000", "--tmpfs", str(out), "sh", "-c", script]
    done = subprocess.run(small, cwd=ROOT, env=env, capture_output=True, text=True, timeout=300)
    assert "The disk is full" in done.stdout and "first 1" in done.stdout, done.stdout + done.stderr
    assert "second 0" in done.stdout and "verified 0" in done.stdout, done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_memory_does_not_grow_with_the_class(unit, submissions, tmp_path, env):
    """A thousand submissions, none of which runs anything."""
    good = right(unit)
    shutil.rmtree(submissions)
    submissions.mkdir()
    for n in range(1000):
        (submissions / f"student {n:04}.ipynb").write_bytes(good)
    out = tmp_path / "out"
    done = subprocess.run(
        command(unit, submissions, out), cwd=ROOT, env=env | {"PRETEND_SECONDS": "0"}, capture_output=True, text=True
    )
    early, late, _ = (int(part.split()[0]) for part in done.stdout.rpartition("memory: ")[2].split(", "))
    print(done.stdout)
    assert done.returncode == 0 and late - early < 150, done.stdout + done.stderr
    assert verify.problems(out) == [] and len(Course(out / "course", UNIT).scores()) == 1000
