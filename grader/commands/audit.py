"""Check every exercise on its solution and on its mutants: common mistakes and correct variants.

A mistake must get the diagnosis that its mutant expects (`grader/course/mutants.py`); the solution and every correct
variant must be accepted.
"""

import argparse
import multiprocessing
import os
import queue
import re
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from time import perf_counter

from grader.course.mutants import ACCEPTED, Mutant, mutants
from grader.course.self_check import extent
from grader.course.solutions import load_text, solution_text
from labutils import exercises
from labutils.backends.interpreter import Interpreter
from labutils.check.diagnose import KINDS
from labutils.check.evaluate import evaluate
from labutils.cuda.kernel import CompileError
from labutils.cuda.signature import signatures
from labutils.gpu import device
from labutils.spec.exercise import NOT_WRITTEN, Case, Exercise

SEED, HIDDEN = 7, 4

REFUSED = "refused"
"""Expectation of a trial that any diagnosis satisfies."""

MUTATION_LIMIT = 5.0
"""Seconds of CPU time for one case of such a trial: a small mistake may make a loop endless."""

CHILD_LIMIT = 600.0
"""Seconds for one trial in its own process; only a hung GPU comes close."""


@dataclass(frozen=True)
class Trial(Mutant):
    """A mutant to check, or the solution. `solution` is the text of the unit's solution as a module."""

    solution: str = ""


@dataclass(frozen=True)
class Attempt:
    """The result of a trial: "accepted" or the kind of diagnosis, with its message."""

    trial: Trial
    kind: str
    message: str
    seconds: float

    @property
    def agrees(self) -> bool:
        return _as_expected(self.kind, self.trial.expect)


def trials(exercise_id: str, solution: str) -> list[Trial]:
    """The mutants of an exercise as trials. Raises ValueError as `mutants` does."""
    return [Trial(**vars(mutant), solution=solution) for mutant in mutants(exercise_id)]


def solution_trial(exercise_id: str, solution: str) -> Trial:
    """The solution as a trial."""
    return Trial(exercise_id, "solution", ACCEPTED, "The solution.", solution, solution=solution)


def attempt(trial: Trial, quick: bool = False) -> Attempt:
    """Evaluate one trial in this process."""
    begin = perf_counter()
    try:
        with tempfile.TemporaryDirectory(prefix="grader-audit-") as folder:
            kind, message = _attempt(trial, quick, folder)
    except Exception as problem:  # a text that breaks on import, or a check that breaks on it: the audit goes on
        kind, message = "broken", f"{type(problem).__name__}: {problem}"
    return Attempt(trial, kind, message, perf_counter() - begin)


def _attempt(trial: Trial, quick: bool, folder: str) -> tuple[str, str]:
    task = exercises.get(trial.exercise)
    texts = (trial.solution, trial.text) if trial.language == "cuda" else (trial.text, "")
    try:
        fn = getattr(load_text(texts[0], folder, kernels=texts[1]), task.entry, None)
    except CompileError as refusal:  # the cell would not have run
        return ("unfilled" if NOT_WRITTEN in str(refusal) else "does-not-compile"), str(refusal)
    # Workers share the machine with each other: what is slow for that is not endless.
    limit = {"timeout": 2.0, REFUSED: MUTATION_LIMIT}.get(trial.expect, 60.0)
    options = {"seed": SEED, "hidden": 0 if quick else HIDDEN, "time_limit": limit}
    verdict = None
    if quick and trial.expect != ACCEPTED:
        verdict = evaluate(replace(task, cases=smallest(task)), fn, backend=_without_compiler(task, trial), **options)
    if verdict is None or not _as_expected(_kind(verdict), trial.expect):
        verdict = evaluate(task, fn, **options)
    if verdict.passed and verdict.marks != _marks(trial, task):
        return f"{verdict.marks:g} marks", "; ".join(verdict.notes)
    return _kind(verdict), verdict.headline.symptom if verdict.headline else "; ".join(verdict.notes)


def judged(trial: Trial, judge) -> Attempt:
    """Judge one trial like a submission: its code runs in a sandbox, the verdict is reached outside."""
    begin = perf_counter()
    try:
        verdict = judge.judge(_submission(trial), [trial.exercise])[trial.exercise]
        kind, message = _kind(verdict), verdict.headline.symptom if verdict.headline else "; ".join(verdict.notes)
        task = exercises.get(trial.exercise)
        # where time earns points, those for a slower variant are not known beforehand
        if verdict.passed and not verdict.timing and verdict.marks != _marks(trial, task):
            kind = f"{verdict.marks:g} marks"
    except Exception as problem:
        kind, message = "broken", f"{type(problem).__name__}: {problem}"
    return Attempt(trial, kind, message, perf_counter() - begin)


def _submission(trial: Trial):
    from grader.judge.submission import Submission

    if trial.language != "cuda":
        return Submission((("setup", "import labutils as lab"), (trial.name, trial.text)))
    # the mutant's kernels take the place of the solution's
    own = signatures(trial.text)

    def replaced(match: re.Match) -> str:
        name, wanted = match[1], match[3]
        return f"{name} = lab.cuda.compile({trial.text!r}, {wanted!r})" if wanted.split("<")[0] in own else match[0]

    cells = re.sub(r"^(\w+) = lab\.cuda\.compile\(.*, (['\"])(.+?)\2\)$", replaced, trial.solution, flags=re.MULTILINE)
    return Submission((("solution", cells),))


def _marks(trial: Trial, task: Exercise) -> float:
    return task.points.total if trial.marks is None else trial.marks


def _without_compiler(task: Exercise, trial: Trial) -> Interpreter | None:
    """For wrong Triton kernels whose run decides: compiling each takes longer than all that run. None: as always."""
    decided = getattr(task, "language", "") == "triton" and trial.expect != "does-not-compile"
    return Interpreter(targets=()) if decided and not device.has_gpu() else None


def smallest(task: Exercise) -> tuple[Case, ...]:
    """The smaller half of an exercise's cases: they decide most mutants."""
    order = sorted(task.cases, key=extent)
    return tuple(order[: -(-len(order) // 2)])


def _as_expected(kind: str, expect: str) -> bool:
    return kind != ACCEPTED if expect == REFUSED else kind == expect


def _kind(verdict) -> str:
    return ACCEPTED if verdict.passed else verdict.headline.kind if verdict.headline else "rejected without a diagnosis"


def audit(
    exercises: Iterable[str],
    quick: bool = False,
    jobs: int | None = None,
    by_judge: bool = False,
    wanted: Callable[[Trial], bool] = lambda trial: True,
) -> Iterator[Attempt]:
    """Results of the solution and every mutant of these exercises, or of those `wanted`, as they come in; with
    `by_judge` through the judge."""
    chosen, failed = [], []
    texts: dict[str, str] = {}
    for exercise_id in exercises:
        unit = exercise_id.split("/")[0]
        if unit not in texts:
            try:
                texts[unit] = solution_text(unit)
            except Exception as problem:  # a missing or broken source is a finding, not the end of the audit
                texts[unit] = f"raise RuntimeError({str(problem)!r})\n"
        chosen.append(solution_trial(exercise_id, texts[unit]))
        try:
            chosen += trials(exercise_id, texts[unit])
        except ValueError as problem:
            nothing = Trial(exercise_id, "mutants", ACCEPTED, "", "")
            failed.append(Attempt(nothing, "not loaded", str(problem), 0.0))
    chosen = [trial for trial in chosen if wanted(trial)]
    yield from failed
    yield from _judge_all(chosen, quick, jobs) if by_judge else run_trials(chosen, quick, jobs)


def _judge_all(trials: list[Trial], quick: bool, jobs: int | None) -> Iterator[Attempt]:
    from grader.judge.judge import Judge

    judge = Judge(SEED, HIDDEN, race=not quick)
    with ThreadPoolExecutor(jobs or os.cpu_count()) as pool:
        yield from pool.map(lambda trial: judged(trial, judge), trials)


def run_trials(trials: list[Trial], quick: bool, jobs: int | None) -> Iterator[Attempt]:
    """Results in the order of the trials, from as many worker processes as asked for."""
    idle: queue.SimpleQueue[Worker] = queue.SimpleQueue()
    count = min(jobs or os.cpu_count(), len(trials))
    workers = [Worker() for _ in range(count)]
    for worker in workers:
        idle.put(worker)

    def one(trial: Trial) -> Attempt:
        worker = idle.get()
        try:
            return worker.attempt(trial, quick)
        finally:
            idle.put(worker)

    try:
        with ThreadPoolExecutor(max(count, 1)) as pool:
            yield from pool.map(one, trials)
    finally:
        for worker in workers:
            worker.stop()


class Worker:
    """A process that checks one trial after another, replaced when a trial may have broken it.

    A kernel that crashes or never ends breaks the GPU's context for its whole process.
    """

    def __init__(self):
        self._start()

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._ours, theirs = context.Pipe()
        self._process = context.Process(target=_work, args=(theirs,))
        self._process.start()
        theirs.close()

    def attempt(self, trial: Trial, quick: bool) -> Attempt:
        begin = perf_counter()
        self._ours.send((trial, quick))
        result, broken = None, True
        try:
            if self._ours.poll(CHILD_LIMIT):
                result, broken = self._ours.recv()
        except (EOFError, OSError):
            pass
        if broken:
            self.stop()
            self._start()
        return result or Attempt(trial, "no answer", "the process died or hung", perf_counter() - begin)

    def stop(self) -> None:
        self._ours.close()
        self._process.kill()
        self._process.join()


def _work(theirs) -> None:
    """In a worker: run trials until the other end closes."""
    import torch

    torch.set_num_threads(1)
    while True:
        try:
            trial, quick = theirs.recv()
        except EOFError:
            return
        result = attempt(trial, quick)
        theirs.send((result, result.kind in ("died", "timeout") or _gpu_is_broken()))


def _gpu_is_broken() -> bool:
    """Whether this process has lost its GPU: a diagnosis may name the mistake and not the crash it led to."""
    import torch

    if not device.has_gpu():
        return False
    try:
        torch.cuda.synchronize()
    except RuntimeError:
        return True
    return False


@dataclass
class Tally:
    """The audit's counts, of one exercise or of all."""

    wrong: int = 0
    refused: int = 0
    diagnosed: int = 0
    honest: int = 0
    accepted: int = 0
    seconds: float = 0.0

    def add(self, result: Attempt) -> None:
        if result.trial.expect == ACCEPTED:
            self.honest += 1
            self.accepted += result.kind == ACCEPTED
        else:
            self.wrong += 1
            self.refused += result.kind in KINDS
            self.diagnosed += result.agrees
        if result.trial.name == "solution":
            self.seconds += result.seconds

    def row(self) -> list[str]:
        return [
            f"{self.refused}/{self.wrong}",
            f"{self.diagnosed}/{self.wrong}",
            f"{self.accepted}/{self.honest}",
            f"{self.seconds:.1f} s",
        ]

    def rates(self) -> str:
        def rate(part, whole):
            return f"{part}/{whole} ({part / whole:.1%})" if whole else "0/0"

        return (
            f"mutants rejected {rate(self.refused, self.wrong)}, with the right diagnosis "
            f"{rate(self.diagnosed, self.wrong)}; correct variants accepted {rate(self.accepted, self.honest)}"
        )


def tallies(results: Iterable[Attempt]) -> dict[str, Tally]:
    """Counts by exercise; the correct ones include the solution."""
    found: dict[str, Tally] = {}
    for result in results:
        found.setdefault(result.trial.exercise, Tally()).add(result)
    return found


def select(names: Iterable[str]) -> list[str]:
    """Ids of the exercises that are named, by unit or by id; all without names. Raises KeyError for an unknown one."""
    known = list(exercises.all_exercises())
    chosen = []
    for name in names:
        found = [i for i in known if i == name or i.split("/")[0] == name]
        chosen += found or [exercises.get(name).id]
    return list(dict.fromkeys(chosen)) or known


def report(results: list[Attempt]) -> None:
    """Print the table, the rates and every unexpected verdict."""
    from rich.console import Console
    from rich.table import Table

    table = Table("exercise", "mutants rejected", "right diagnosis", "correct accepted", "solution took")
    total = Tally()
    for exercise_id, tally in tallies(results).items():
        table.add_row(exercise_id, *tally.row())
    for result in results:
        total.add(result)
    console = Console(width=None if sys.stdout.isatty() else 110, highlight=False, markup=False)
    console.print(table)
    where = device.card().splitlines()[0] if device.has_gpu() else "no GPU: Triton's interpreter"
    console.print(f"{total.rates()} ({where}).", soft_wrap=True)
    for r in (r for r in results if not r.agrees):
        problem = f"expected {r.trial.expect}, got {r.kind}: {r.message}"
        console.print(f"{r.trial.exercise}/{r.trial.name}: {problem}", soft_wrap=True)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("names", nargs="*", metavar="UNIT[/EXERCISE]", help="what to audit; default: everything")
    parser.add_argument(
        "--quick",
        action="store_true",
        help="no hidden cases, and only the small cases for mutants that these decide; with --judge: no timing",
    )
    parser.add_argument("--jobs", type=int, metavar="N", help="answers to check at the same time")
    parser.add_argument("--judge", action="store_true", help="use the judge instead of lab.check")


def main(args) -> int:
    try:
        chosen = select(args.names)
    except KeyError as problem:
        print(problem.args[0], file=sys.stderr)
        return 2
    results = list(audit(chosen, args.quick, args.jobs, args.judge))
    report(results)
    return 0 if all(r.agrees for r in results) else 1
