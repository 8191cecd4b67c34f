"""Try every exercise on its solution, on known wrong answers and on honest variants.

A wrong answer must be refused with the diagnosis that its first line expects; the solution and every honest variant
must be accepted. A file of `grader/mutants/UNIT/EXERCISE/` is a module that defines the exercise's function and begins
with

    # expect: tail-unmasked        (a kind of diagnosis, or "accepted")
    # One sentence on the mistake.
"""

import argparse
import ast
import importlib.util
import multiprocessing
import os
import queue
import re
import sys
import tempfile
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from time import perf_counter

import labutils  # noqa: F401  (before anything imports triton: it chooses between interpreter and GPU)
from labutils import device, exercise
from labutils.diagnose import KINDS
from labutils.evaluate import evaluate

ROOT = Path(__file__).resolve().parents[1]
MUTANTS = Path(__file__).with_name("mutants")

ACCEPTED = "accepted"
SEED, HIDDEN = 7, 4

_DEFINES = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef, ast.Assign)

CHILD_LIMIT = 600.0
"""Seconds for one file in a process of its own; only a hung GPU comes near."""


@dataclass(frozen=True)
class Trial:
    """One file to try on one exercise, and what should come of it. `name` is the file's stem, or "solution"."""

    exercise: str
    name: str
    path: str
    expect: str


@dataclass(frozen=True)
class Result:
    """What came of a trial: "accepted" or the kind of diagnosis, with its sentence."""

    trial: Trial
    kind: str
    said: str
    seconds: float

    @property
    def agrees(self) -> bool:
        return self.kind == self.trial.expect


def expectation(path: Path) -> str:
    """What the first line of a mutant expects. Raises ValueError if it expects nothing that exists."""
    first = path.read_text(encoding="utf-8").split("\n", 1)[0]
    found = re.fullmatch(r"# expect: ([a-z-]+)", first)
    if not found or found[1] not in (ACCEPTED, *KINDS):
        raise ValueError(f"{path}: the first line must be '# expect: KIND', with a kind of diagnosis or '{ACCEPTED}'")
    return found[1]


def mutants(exercise_id: str) -> list[Trial]:
    """The wrong answers and honest variants of an exercise."""
    paths = sorted((MUTANTS / exercise_id).glob("*.py"))
    return [Trial(exercise_id, path.stem, str(path), expectation(path)) for path in paths]


def solution_text(unit: str) -> str:
    """A module with the functions of a unit's solution notebook: its answers, and what its other cells define.

    Calls that show or check something are left out, so that importing the module runs nothing.
    """
    from grader.build import source_notebook
    from grader.cells import python_text

    parts = ["import labutils as lab"]
    for cell in source_notebook(ROOT / "solutions" / unit).cells:
        text = python_text(cell.source) if cell.cell_type == "code" else None
        if text is None or cell.id == "setup":
            continue
        answer = cell.metadata.get("nbgrader", {}).get("solution", False)
        lines = text.split("\n")
        for node in ast.parse(text).body:
            if answer or isinstance(node, _DEFINES):
                first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))])
                parts.append("\n".join(lines[first - 1 : node.end_lineno]))
    return "\n\n".join(parts) + "\n"


def load(path: str):
    """The module in a file. Its functions keep their text, which the check reads."""
    spec = importlib.util.spec_from_file_location(f"audited_{abs(hash(path))}", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def attempt(trial: Trial, quick: bool = False) -> Result:
    """Evaluate one file here and now."""
    begin = perf_counter()
    try:
        kind, said = _attempt(trial, quick)
    except Exception as problem:  # a file that breaks on import, or a check that breaks on it: the audit goes on
        kind, said = "broken", f"{type(problem).__name__}: {problem}"
    return Result(trial, kind, said, perf_counter() - begin)


def _attempt(trial: Trial, quick: bool) -> tuple[str, str]:
    task = exercise.get(trial.exercise)
    fn = getattr(load(trial.path), task.entry, None)
    options = {"seed": SEED, "hidden": 0 if quick else HIDDEN}
    if trial.expect == "timeout":
        options["time_limit"] = 2.0
    verdict = None
    if quick and trial.expect != ACCEPTED:
        verdict = evaluate(replace(task, cases=smallest(task)), fn, **options)
    if verdict is None or _kind(verdict) != trial.expect:
        verdict = evaluate(task, fn, **options)
    return _kind(verdict), verdict.headline.symptom if verdict.headline else "; ".join(verdict.notes)


def smallest(task: exercise.Exercise) -> tuple[exercise.Case, ...]:
    """The smaller half of an exercise's cases: they decide most mutants."""
    order = sorted(task.cases, key=lambda case: prod(case.sizes.values()))
    return tuple(order[: -(-len(order) // 2)])


def _kind(verdict) -> str:
    return ACCEPTED if verdict.passed else verdict.headline.kind if verdict.headline else "refused without a word"


def audit(exercises: Iterable[str], quick: bool = False, jobs: int | None = None) -> Iterator[Result]:
    """Results of every file of these exercises, as they come in."""
    with tempfile.TemporaryDirectory(prefix="grader-audit-") as folder:
        trials, failed = [], []
        texts: dict[str, Path] = {}
        for exercise_id in exercises:
            unit = exercise_id.split("/")[0]
            if unit not in texts:
                texts[unit] = Path(folder, f"solution_{unit}.py")
                try:
                    texts[unit].write_text(solution_text(unit), encoding="utf-8")
                except Exception as problem:  # a missing or broken source is a finding, not the end of the audit
                    texts[unit].write_text(f"raise RuntimeError({str(problem)!r})\n", encoding="utf-8")
            trials.append(Trial(exercise_id, "solution", str(texts[unit]), ACCEPTED))
            try:
                trials += mutants(exercise_id)
            except ValueError as problem:
                failed.append(Result(Trial(exercise_id, "mutants", "", ACCEPTED), "not loaded", str(problem), 0.0))
        yield from failed
        yield from _run(trials, quick, jobs)


def _run(trials: list[Trial], quick: bool, jobs: int | None) -> Iterator[Result]:
    """Results in the order of the trials, from as many worker processes as asked for."""
    idle: queue.SimpleQueue[_Worker] = queue.SimpleQueue()
    count = min(jobs or os.cpu_count(), len(trials))
    workers = [_Worker() for _ in range(count)]
    for worker in workers:
        idle.put(worker)

    def one(trial: Trial) -> Result:
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


class _Worker:
    """A process that tries one file after another, replaced when a file may have broken it.

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

    def attempt(self, trial: Trial, quick: bool) -> Result:
        begin = perf_counter()
        self._ours.send((trial, quick))
        result, broken = None, True
        try:
            if self._ours.poll(CHILD_LIMIT):
                result = self._ours.recv()
                broken = result.kind in ("died", "timeout")
        except (EOFError, OSError):
            pass
        if broken:
            self.stop()
            self._start()
        return result or Result(trial, "no answer", "the process died or hung", perf_counter() - begin)

    def stop(self) -> None:
        self._ours.close()
        self._process.kill()
        self._process.join()


def _work(theirs) -> None:
    """In a worker: attempt what comes until the other end closes."""
    import torch

    torch.set_num_threads(1)
    while True:
        try:
            trial, quick = theirs.recv()
        except EOFError:
            return
        theirs.send(attempt(trial, quick))


@dataclass
class Tally:
    """The audit's counts, of one exercise or of all."""

    wrong: int = 0
    refused: int = 0
    diagnosed: int = 0
    honest: int = 0
    accepted: int = 0
    seconds: float = 0.0

    def add(self, result: Result) -> None:
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
            f"wrong answers refused {rate(self.refused, self.wrong)}, with the right diagnosis "
            f"{rate(self.diagnosed, self.wrong)}; honest ones accepted {rate(self.accepted, self.honest)}"
        )


def tallies(results: Iterable[Result]) -> dict[str, Tally]:
    """Counts by exercise; the honest ones include the solution."""
    found: dict[str, Tally] = {}
    for result in results:
        found.setdefault(result.trial.exercise, Tally()).add(result)
    return found


def select(names: Iterable[str]) -> list[str]:
    """Ids of the exercises that are named, by unit or by id; all without names. Raises KeyError for an unknown one."""
    known = list(exercise.all_exercises())
    chosen = []
    for name in names:
        found = [i for i in known if i == name or i.split("/")[0] == name]
        chosen += found or [exercise.get(name).id]
    return list(dict.fromkeys(chosen)) or known


def report(results: list[Result]) -> None:
    """Print the table, the rates and every disagreement."""
    from rich.console import Console
    from rich.table import Table

    table = Table("exercise", "wrong refused", "right diagnosis", "honest accepted", "solution took")
    total = Tally()
    for exercise_id, tally in tallies(results).items():
        table.add_row(exercise_id, *tally.row())
    for result in results:
        total.add(result)
    console = Console(width=None if sys.stdout.isatty() else 110, highlight=False, markup=False)
    console.print(table)
    where = device.card().splitlines()[0] if device.has_gpu() else "no GPU: Triton's interpreter"
    console.print(f"{total.rates()} ({where}).", soft_wrap=True)
    for r in results:
        if not r.agrees:
            console.print(
                f"{r.trial.exercise}/{r.trial.name}: expected {r.trial.expect}, got {r.kind}: {r.said}", soft_wrap=True
            )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("names", nargs="*", metavar="UNIT[/EXERCISE]", help="what to audit; by default everything")
    parser.add_argument(
        "--quick", action="store_true", help="no hidden cases, and wrong answers on the small cases where these decide"
    )
    parser.add_argument("--jobs", type=int, metavar="N", help="files to try at the same time")


def main(args) -> int:
    try:
        chosen = select(args.names)
    except KeyError as problem:
        print(problem.args[0], file=sys.stderr)
        return 2
    results = list(audit(chosen, args.quick, args.jobs))
    report(results)
    return 0 if all(r.agrees for r in results) else 1
