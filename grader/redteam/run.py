"""Try the red team on the judge: every attack must be refused or without effect, every control accepted."""

from __future__ import annotations

import argparse
import contextlib
import copy
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

from grader.redteam import corpus
from grader.redteam.corpus import Trial
from labutils import exercises
from labutils.gpu import device

SEED = 20_240_229
"""Drawn once: the red team's results are to be the same tomorrow."""

STOCK_LIMIT, ALONE_LIMIT = 120.0, 240.0
"""Seconds until stock checking, or a trial in a process of its own, is ended."""

NOTEBOOK_UNIT = "00_start"


@dataclass(frozen=True)
class AttackResult:
    """What came of a trial. `fine`: as it should; None: not tried here, `said` tells why. `stock`: points that checking
    in the submission's own process gave."""

    trial: Trial
    fine: bool | None
    marks: float = 0.0
    points: float = 0.0
    kind: str = ""
    message: str = ""
    seconds: float = 0.0
    stock: float | str | None = None

    def to_json(self) -> dict:
        payload = asdict(self)
        payload["trial"] = self.trial.id
        return payload


@cache
def judge():
    """One for all: what it has compiled it keeps, and a GPU times one submission after the other."""
    from grader.judge.gpulock import GpuLock, visible_gpus
    from grader.judge.judge import Judge

    return Judge(SEED, gpu_lock=GpuLock(next(iter(visible_gpus()), None)))


def attempt(trial: Trial) -> AttackResult:
    """Judge one file."""
    from grader.judge import sandbox

    if trial.where == "gpu" and not device.has_gpu():
        return AttackResult(trial, None, message="needs a GPU")
    if not trial.plain_child and not sandbox.bubblewrap():
        return AttackResult(trial, None, message="needs bubblewrap")
    begin = time.perf_counter()
    if trial.is_alone:
        return _alone(trial)
    try:
        verdict = judge().judge(submission(trial), [trial.exercise])[trial.exercise]
    except Exception as e:  # whatever stops the judge has stopped it for everybody
        return AttackResult(trial, False, kind="judge stopped", message=f"{type(e).__name__}: {e}"[:300])
    seconds, message = time.perf_counter() - begin, verdict.headline
    if trial.expect == "known limit" and verdict.marks:
        return AttackResult(trial, None, verdict.marks, verdict.points, message="known limit", seconds=seconds)
    return AttackResult(
        trial,
        _fine(trial, verdict),
        verdict.marks,
        verdict.points,
        message.kind if message else "",
        message.symptom if message else "",
        seconds,
    )


def _alone(trial: Trial) -> AttackResult:
    """Judge one file in a process of its own."""
    begin = time.perf_counter()
    command = [sys.executable, "-m", "grader.redteam.alone", str(trial.path)]
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            command, cwd=corpus.HERE.parents[1], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors,
            start_new_session=True, env=os.environ | {"OMP_NUM_THREADS": "1"},  # as in a grading worker
        )  # fmt: skip
        try:
            lines = process.communicate(timeout=ALONE_LIMIT)[0].splitlines()
            report = json.loads(lines[-1]) if lines else {}
            errors.seek(0)
            harm = report.get("harm", f"the judge's process died: {errors.read()[-200:].decode(errors='replace')}")
        except subprocess.TimeoutExpired:
            report, harm = {}, f"no end within {ALONE_LIMIT:.0f} s"
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    marks, points, seconds = report.get("marks", 0.0), report.get("points", 0.0), time.perf_counter() - begin
    if harm:
        return AttackResult(trial, False, marks, points, "harm", harm, seconds)
    most = {"harmless": points, "no effect": points, "no undue points": trial.due}.get(trial.expect, 0.0)
    least = points if trial.expect == "no effect" and trial.baseline == "full" else 0.0
    return AttackResult(trial, least <= marks <= most, marks, points, report["kind"], report["message"], seconds)


def _fine(trial: Trial, verdict) -> bool:
    if trial.expect == "no undue points":
        return verdict.marks <= trial.due
    if trial.expect in ("refused", "known limit") or trial.baseline == "none":
        return verdict.marks == 0 and not verdict.passed
    if trial.needs_gpu and not device.has_gpu():
        return (
            bool(verdict.headline)
            and verdict.headline.kind == "needs-gpu"
            and verdict.open == verdict.points
            and not verdict.marks
        )
    # measured time decides no trial: a busy machine makes honest kernels slow, and no attack faster
    speed = exercises.get(trial.exercise).points.speed if verdict.timing else 0.0
    still = verdict.open if trial.needs_gpu else 0.0  # nothing counts what only a GPU can run
    return verdict.passed and verdict.marks + still >= verdict.points - speed


def submission(trial: Trial):
    """The submission."""
    from grader.judge.submission import Submission

    if trial.family == "notebook":
        return _Notebooks.shared().submission(trial)
    if trial.path.suffix == ".cu":
        return _with_kernels(trial)
    return Submission((("setup", "import labutils as lab"), ("answer", trial.text)))


def _with_kernels(trial: Trial):
    """The solution with these kernels in place of its own."""
    from grader.course.solutions import ROOT
    from grader.course.sources import source_notebook
    from grader.judge.submission import Submission
    from labutils.cuda.signature import signatures

    solved = Submission.of(source_notebook(ROOT / "solutions" / trial.exercise.split("/")[0]))
    bound = [f"{n} = lab.cuda.compile({trial.text!r}, {n!r})" for n, s in signatures(trial.text).items()
             if not s.template]  # fmt: skip
    return Submission((*solved.cells, ("answer", "\n".join(bound))))


class _Notebooks:
    """A course of one unit: its release is damaged, repaired and sanitized like any submission."""

    def __init__(self):
        from grader.course.solutions import ROOT
        from grader.course.sources import source_notebook
        from grader.gradebook.gradebook import Course

        self._lock = threading.Lock()
        self._folder = tempfile.TemporaryDirectory(prefix="redteam-")
        self.course = Course(Path(self._folder.name, "course"), NOTEBOOK_UNIT)
        self.release = self.course.release(source_notebook(ROOT / "solutions" / NOTEBOOK_UNIT))

    @staticmethod
    @cache
    def shared() -> _Notebooks:
        return _Notebooks()

    def submission(self, trial: Trial):
        from grader.judge.submission import Submission

        collected = self.collected(lambda folder: self.damaged(trial, folder))
        if collected[0].problem:
            raise ValueError(collected[0].problem)
        return Submission.of(self.course.sanitized(collected[0].student))

    def damaged(self, trial: Trial, folder: Path) -> None:
        """Write the release into a folder as the trial damages it."""
        scope: dict = {}
        exec(compile(trial.text, str(trial.path), "exec"), scope)  # ours: it damages, the notebook is the attack
        notebook = copy.deepcopy(self.release)
        scope["damage"](notebook)
        Path(folder, f"{trial.name}.ipynb").write_text(json.dumps(notebook), encoding="utf-8")

    def collected(self, fill: Callable[[Path], None]) -> list:
        """What is collected of a folder that `fill` fills, laid out as nbgrader wants it."""
        from grader.intake.collect import collect, lay_out

        with self._lock, tempfile.TemporaryDirectory(prefix="redteam-") as folder:
            fill(Path(folder))
            found = collect(Path(folder), NOTEBOOK_UNIT, self.release)
            lay_out(found, self.course.folder, NOTEBOOK_UNIT)
            return found


def stock(trial: Trial) -> float | str:
    """The points that `lab.check` gives in the submission's own process, as in a plain nbgrader course."""
    if trial.family == "notebook" or trial.is_alone or not trial.stock or trial.path.suffix == ".cu":
        return "not tried"
    with tempfile.TemporaryDirectory(prefix="redteam-") as folder:
        path = os.pathsep.join(p for p in (str(corpus.HERE.parents[1]), os.environ.get("PYTHONPATH")) if p)
        environment = os.environ | {"HOME": folder, "TMPDIR": folder, "PYTHONPATH": path}
        command = [sys.executable, "-m", "grader.redteam.stock", str(trial.path), trial.exercise]
        try:
            done = subprocess.run(
                command, cwd=folder, env=environment, capture_output=True, text=True, timeout=STOCK_LIMIT,
                stdin=subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return "no end"
        found = [x for x in done.stdout.splitlines() if x.startswith("marks: ")]
        return float(found[-1].split()[1]) if found else "died"


def attempt_all(chosen: list[Trial], jobs: int, compare: bool = False) -> Iterator[AttackResult]:
    """Results in the order of the trials."""
    from grader.judge import sandbox

    sandbox.warm_up("launch", "replay", "compile")
    # Made before threads ask for them, since `cache` would make one for each that asks at the same time. What cannot be
    # made is not kept, and each trial says so.
    for make in (judge, *([_Notebooks.shared] if any(t.family == "notebook" for t in chosen) else [])):
        with contextlib.suppress(Exception):
            make()

    def one(trial: Trial) -> AttackResult:
        result = attempt(trial)
        if compare and result.fine is not None:
            result = AttackResult(**{**vars(result), "stock": stock(trial)})
        return result

    with ThreadPoolExecutor(jobs) as pool:
        yield from pool.map(one, chosen)


# --- the table -------------------------------------------------------------------------------------------------------


def table(results: list[AttackResult], compare: bool = False) -> str:
    """Attacks stopped and controls accepted, by family."""
    rows = [("family", "stopped / tried", *(["earned marks in stock checking"] if compare else []), "left out")]
    for family, about in {**corpus.FAMILIES, corpus.CONTROLS: "honest, accepted / tried"}.items():
        mine = [r for r in results if r.trial.family == family]
        if mine:
            rows.append((f"{family}: {about}", *_counts(mine, compare)))
    attacks = [r for r in results if r.trial.family != corpus.CONTROLS]
    if attacks:
        rows.append(("all attacks", *_counts(attacks, compare)))
    widths = [max(len(r[k]) for r in rows) for k in range(len(rows[0]))]
    return "\n".join("  ".join(c.ljust(w) for c, w in zip(r, widths, strict=True)).rstrip() for r in rows)


def _counts(results: list[AttackResult], compare: bool) -> list[str]:
    tried = [r for r in results if r.fine is not None]
    left = {r.message for r in results if r.fine is None}
    cells = [f"{sum(r.fine for r in tried)} / {len(tried)}"]
    if compare:
        scored = [r for r in tried if r.stock not in (None, "not tried")]
        cells.append(f"{sum(_gained(r) for r in scored)} / {len(scored)}")
    return [*cells, f"{len(results) - len(tried)} ({', '.join(sorted(left))})" if left else ""]


def _gained(result: AttackResult) -> bool:
    """Did stock checking give points to what must be refused? (For a control: to what deserves them.)"""
    deserved = result.trial.expect == "accepted"
    return isinstance(result.stock, float) and result.stock > 0 and (deserved or result.trial.expect == "refused")


def line(result: AttackResult) -> str:
    mark = {True: "✓", False: "✗", None: "–"}[result.fine]
    message = result.kind or ("accepted" if result.points else "")
    if result.fine is not True:
        message = f"{message}  {result.message}".strip()
    return f"  {mark} {result.trial.id:<40} {message}"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("names", nargs="*", metavar="NAME", help="a family, an attack or a control; all if left out")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 2, metavar="N", help="at a time; one a core")
    parser.add_argument("--compare", action="store_true", help="try stock checking in the notebook's process as well")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every result")
    parser.add_argument(
        "--from", dest="root", type=Path, metavar="DIR", help="trials in DIR/FAMILY, not those kept here"
    )
    parser.add_argument("--quick", action="store_true", help="leave out what takes half a minute")


def main(args) -> int:
    from grader.judge import sandbox

    try:
        chosen = [t for t in corpus.trials(args.names, args.root) if not (args.quick and t.slow)]
    except ValueError as problem:
        print(problem)
        return 2
    if unknown := {t.exercise for t in chosen} - exercises.all_exercises().keys():
        print(f"There is no exercise {', '.join(sorted(unknown))}.")
        return 2
    if warning := sandbox.warning():
        print(warning)
    results = []
    for result in attempt_all(chosen, args.jobs, args.compare):
        results.append(result)
        print(line(result), flush=True)
    print("\n" + table(results, args.compare))
    if args.json:
        args.json.write_text(json.dumps([r.to_json() for r in results], indent=1), encoding="utf-8")
    return 1 if any(r.fine is False for r in results) else 0
