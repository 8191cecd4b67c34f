"""`python -m grader.redteam.alone FILE`: a trial in a process of its own, watched while it judges.

Grading has one such process for many submissions: what stops, stalls or bloats it costs others their
points. The last line that is printed tells in JSON what the trial earned, and what harm it did, if any.
"""

from __future__ import annotations

import contextlib
import copy
import json
import resource
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import nbformat

from grader.redteam import corpus, run
from grader.redteam.corpus import Trial
from labutils import exercises

MOST_CPU, MOST_HELD = 20.0, 3.0
"""Seconds of this process's CPU time for a trial, and at a stretch during which none of its other threads may run. Of
CPU time, so that a busy machine decides nothing; an honest submission takes about two, and a tenth."""

MOST_GROWTH = 1 << 30
"""Bytes by which a trial may let this process grow; an honest one takes less than a tenth."""

TICK = 0.02


class Watch:
    """What a trial costs this process: CPU time, memory, and how long at a stretch nobody else could run."""

    def __init__(self):
        self.held = 0.0
        self._cpu, self._size = time.process_time(), self._peak()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._tick, daemon=True)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_) -> None:
        self._ended.set()
        self._thread.join()

    @staticmethod
    def _peak() -> int:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

    def _tick(self) -> None:
        before = time.process_time()
        while not self._ended.wait(TICK):
            now = time.process_time()
            self.held, before = max(self.held, now - before), now

    def harm(self) -> str:
        """What others of the class would have felt, in a sentence, or nothing."""
        cpu, grown = time.process_time() - self._cpu, self._peak() - self._size
        if self.held > MOST_HELD:
            return f"nobody else could run for {self.held:.0f} s"
        if cpu > MOST_CPU:
            return f"it took {cpu:.0f} s of the judge's own CPU time"
        if grown > MOST_GROWTH:
            return f"the judge's process grew by {grown / 2**30:.1f} GB"
        return ""


Job = Callable[[], dict]
"""Judges one submission; returns its verdict as JSON."""


def _answers(trial: Trial, text: str) -> Job:
    from grader.judge.submission import Submission

    handed_in = Submission((("setup", "import labutils as lab"), ("answer", text)))
    return lambda: run.judge().judge(handed_in, [trial.exercise])[trial.exercise].to_json()


def _notebook(notebook, trial: Trial) -> Job:
    """As the grader judges it and makes its page: a notebook that was sanitized before."""
    from grader.gradebook.nbgrader_pages import PageExporter
    from grader.judge.judge_pool import JudgePool

    text = nbformat.writes(notebook)

    def job() -> dict:
        verdict = JudgePool().judge(text, run.SEED, [trial.exercise])["verdicts"][trial.exercise]
        PageExporter(template_name="classic").from_notebook_node(nbformat.reads(text, as_version=4))
        return verdict

    return job


def _honest(trial: Trial) -> Job:
    from grader.course.solutions import ROOT
    from grader.course.sources import source_notebook

    return _notebook(source_notebook(ROOT / "solutions" / trial.exercise.split("/")[0]), trial)


def _collected(trial: Trial) -> Iterator[tuple[str, Job | None]]:
    """The submissions of a folder by student; no job for what is set aside."""
    from grader.course.solutions import ROOT
    from grader.course.sources import source_notebook

    course = run._Notebooks.shared()

    def fill(folder: Path) -> None:
        solved = {c.id: c for c in source_notebook(ROOT / "solutions" / run.NOTEBOOK_UNIT).cells}
        honest = copy.deepcopy(course.release)
        for cell in honest.cells:
            if cell.metadata.get("nbgrader", {}).get("solution"):
                cell.source = solved[cell.id].source
        Path(folder, "alice.ipynb").write_text(json.dumps(honest), encoding="utf-8")
        if trial.submits == "notebook":
            course.damaged(trial, folder)
            return
        scope: dict = {}
        exec(compile(trial.text, str(trial.path), "exec"), scope)  # ours: what it plants is the attack
        scope["plant"](folder)

    found = course.collected(fill)
    for one in found:
        job = None if one.problem else _notebook(course.course.sanitized(one.student), trial)
        yield one.student, job
    if "alice" not in [one.student for one in found]:
        raise ValueError("alice's submission is gone")


def _jobs(trial: Trial) -> tuple[list[Job], list[Job]]:
    """What must earn nothing undue, and what must earn full points."""
    if trial.submits == "answers":
        again = trial.beside.startswith("itself")
        return [_answers(trial, trial.text)] * (1 + again), [_honest(trial)] if "honest" in trial.beside else []
    found = list(_collected(trial))
    return ([job for name, job in found if name != "alice" and job],
            [job or _set_aside for name, job in found if name == "alice"])  # fmt: skip


def _set_aside() -> dict:
    return {"marks": 0.0, "passed": False}


def _at_once(jobs: list[Job]) -> list[dict]:
    """What the jobs give, each in a thread, as workers do it. Raises what one of them raises."""
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(max(1, len(jobs))) as pool:
        return [f.result() for f in [pool.submit(job) for job in jobs]]


def report(trial: Trial) -> dict:
    """What the trial earned and did."""
    from grader.judge import sandbox

    sandbox.warm_up("launch", "replay", "compile")
    run.judge().prepare([trial.exercise])  # a GPU's context takes seconds of CPU time; the first submission pays once
    points = exercises.get(trial.exercise).points.total
    if trial.submits != "answers":
        run._Notebooks.shared()
    if trial.beside or trial.submits != "answers":
        _honest(trial)()  # so that it is warm, and later as much as before
    with Watch() as watch:
        try:
            attacks, honest = _jobs(trial)
            if trial.beside.endswith("later"):
                given = [job() for job in (*attacks, *honest)]
            else:
                given = _at_once([*attacks, *honest])
        except BaseException as e:  # in a class it would have ended other people's jobs as well
            return {"harm": f"the judge stopped: {type(e).__name__}: {str(e)[:150]}"}
    theirs, ours = given[: len(attacks)], given[len(attacks) :]
    harm = watch.harm()
    if not harm and any(v["marks"] < points for v in ours):
        harm = f"an honest neighbor earned {min(v['marks'] for v in ours):g} of {points:g} points"
    best = max(theirs, key=lambda v: v["marks"], default={})
    headline = best.get("headline") or {}
    said = {"kind": headline.get("kind", ""), "message": headline.get("symptom", "")}
    return {"harm": harm, "marks": best.get("marks", 0.0), "points": points, **said}


def main(path: str) -> None:
    result = report(corpus.read(Path(path)))
    with contextlib.suppress(BrokenPipeError):
        print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
