"""Predicted times beside measured ones: how far off is `lab.explain`?

    python -m bench.predictions [EXERCISE…] [--json FILE] [--no-mutants]
    python -m bench.predictions --without-gpu "H200"
    python -m bench.predictions --again FILE [--table]

The first command times the reference solution of every memory-bound exercise, and slower variants of some, at the
benchmark's size and at a quarter of it, with the course's stopwatch. The second one needs no GPU and prints predictions
for one of the catalogue. The third one prints the table of a file again, with the predictions of today's model; with
`--table` it prints the section of docs/measured.md. Hunts show kernels of other exercises, and are left out.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from bench.machine import present, versions
from grader.course.mutants import mutants
from grader.course.solutions import load_text, solution_text
from labutils import exercises
from labutils.check import figures, sidecar
from labutils.check.evaluate import PUBLIC_SEED
from labutils.check.figures import Figures
from labutils.gpu import device
from labutils.gpu.device import GPU
from labutils.gpu.roofline import units
from labutils.spec.exercise import Case, KernelExercise
from labutils.study import prediction, reference
from labutils.timing.benchmark import RING_MIN, draw, wrong
from labutils.timing.stopwatch import Stopwatch

WITHIN = 0.15

MIN_SECONDS, MAX_SECONDS = 0.1, 0.4
"""How long one kernel is sampled at one size."""

SLOWER = (
    "07_elementwise_cuda/vector_add:side_by_side", "08_coalescing/transpose:direct_load",
    "08_coalescing/transpose:direct_store", "08_coalescing/transpose:padded",
    "09_shared_memory/transpose_padded:no_padding", "09_shared_memory/transpose_padded:padded_by_two",
    "09_shared_memory/conv1d:all_from_global", "09_shared_memory/conv1d:neighboring_outputs",
    "10_warp_reduction/sum_v6:scalar_loads", "10_warp_reduction/sum_v6:tree_of_barriers",
    "11_softmax/softmax:loads_twice", "11_softmax/block_softmax:floats", "11_softmax/block_softmax:three_passes",
    "13_fusion/rms_norm:loads_twice", "25_profile/brighten:one_by_one", "25_profile/interleave:as_given",
    "25_profile/interleave:no_tile",
)  # fmt: skip
"""Correct mutants that access memory otherwise than the reference solution does, as EXERCISE:MUTANT."""


@dataclass(frozen=True)
class Row:
    """One kernel at one size. `seconds` is the measured median, None without a GPU; `parts`: those of the prediction.
    `figures` are what the prediction was made from."""

    kernel: str
    sizes: dict[str, int]
    gpu: str
    predicted: float
    seconds: float | None
    bound: str
    parts: dict[str, float]
    figures: dict
    p20: float | None = None
    p80: float | None = None
    least: str = ""

    @property
    def ratio(self) -> float:
        """Predicted over measured."""
        return self.predicted / self.seconds

    def __str__(self) -> str:
        measured = "| |" if self.seconds is None else f"{units(self.seconds, 's')} | {self.ratio:.2f} |"
        sizes = ", ".join(f"{k} = {v}" for k, v in self.sizes.items())
        least = "at least " if self.least else ""
        return (
            f"| {self.kernel} | {sizes} | {least}{units(self.predicted, 's')} | {measured} "
            f"{prediction.NAMES[self.bound]} |"
        )


HEAD = "| kernel | size | predicted | measured | ratio | bound |\n|---|---|---|---|---|---|"


def memory_bound(names: list[str], gpu: GPU) -> Iterator[KernelExercise]:
    """Exercises of these ids or units, all by default, whose arithmetic takes less time than their bytes."""
    for task in exercises.all_exercises().values():
        if not isinstance(task, KernelExercise) or not task.bench:
            continue
        if task.unit.endswith("_hunt") if not names else task.id not in names and task.unit not in names:
            continue
        found = reference.of(task.id)
        if found and prediction.work(task).intensity < prediction.roof(task, found, gpu).ridge:
            yield task


def predicted(task: KernelExercise, kernel: str, found: Figures, gpu: GPU, sizes: Mapping[str, int]) -> Row:
    """A row without a measurement."""
    made = prediction.predict(task, found, gpu, sizes)
    known = {key: found.to_json()[key] for key in ("case", "counts", "code", "work")}
    parts = dict(made.parts)
    return Row(kernel, dict(sizes), gpu.name, made.seconds, None, made.bound, parts, known, least=made.least)


Texts = tuple[str, str]
"""A module, and CUDA C++ whose kernels take the place of the module's."""


def _loaded(texts: Texts, folder: str):
    text, kernels_text = texts
    return load_text(text, folder, kernels_text)


def sizes_of(task: KernelExercise, found: Figures) -> list[dict[str, int]]:
    """The benchmark's size, and the smaller one that was planned."""
    return [work.sizes for work in found.work] or [dict(task.bench)]


def kernels(names: list[str], gpu: GPU, with_mutants: bool) -> Iterator[tuple[KernelExercise, str, Figures, Texts]]:
    """(exercise, name, figures, texts) of each solution, and of the slower variants."""
    tasks = {task.id: task for task in memory_bound(names, gpu)}
    for task in tasks.values():
        yield task, task.id, reference.of(task.id), (solution_text(task.unit), "")
    for name in SLOWER if with_mutants else ():
        exercise_id, _, mutant = name.partition(":")
        if task := tasks.get(exercise_id):
            found = next(m for m in mutants(exercise_id) if m.name == mutant)
            texts = (solution_text(task.unit), found.text) if found.language == "cuda" else (found.text, "")
            try:
                yield task, name, _figures(task, texts), texts
            except figures.NoFigures as e:
                print(f"{name}: no figures: {e}", flush=True)


def _figures(task: KernelExercise, texts: Texts) -> Figures:
    with tempfile.TemporaryDirectory() as folder:
        fn = getattr(_loaded(texts, folder), task.entry)
        if device.has_gpu():
            return sidecar.figures(task, fn, PUBLIC_SEED)
        return figures.figures(task, fn, PUBLIC_SEED)


def measure(task: KernelExercise, fn, row: Row, watches: Mapping[bool, Stopwatch]) -> Row:
    """The row with the measured time. A kernel that writes less than the L2 holds is timed from an L2 without written
    data, whose write-back would be most of what is compared."""
    import torch

    case = Case("benchmark", row.sizes)
    cost = prediction.work(task, row.sizes)
    l2 = watches[True].l2_bytes
    runs = [draw(task, case, seed) for seed in range(max(RING_MIN, -(-4 * l2 // cost.bytes)))]
    fn(*runs[0].arguments)
    torch.cuda.synchronize()
    if problem := wrong(runs[0]):
        raise ValueError(f"the result is wrong: {problem}")
    torch.cuda.empty_cache()
    calls = [lambda r=r: fn(*r.arguments) for r in runs]
    sample = watches[cost.written < l2].take_turns({"yours": calls})["yours"]
    return Row(**{**vars(row), "seconds": sample.median, "p20": sample.quantile(0.2), "p80": sample.quantile(0.8)})


def measured(names: list[str], gpu: GPU, with_mutants: bool, limit: float) -> Iterator[Row]:
    """Every kernel at both sizes, until `limit` seconds have passed."""
    begin, watches = time.monotonic(), {}
    for clean in (False, True):
        machine = watches[False].machine if watches else None
        watches[clean] = Stopwatch(machine, min_seconds=MIN_SECONDS, max_seconds=MAX_SECONDS, clean=clean)
    with tempfile.TemporaryDirectory() as folder:
        modules = {}
        for task, name, found, texts in kernels(names, gpu, with_mutants):
            if not device.runs(task.only):
                continue
            if time.monotonic() - begin > limit:
                print(f"Stopped after {limit:.0f} s, before {name}.")
                return
            for sizes in sizes_of(task, found):
                row = predicted(task, name, found, gpu, sizes)
                try:
                    if texts not in modules:
                        modules[texts] = _loaded(texts, folder)
                    yield measure(task, getattr(modules[texts], task.entry), row, watches)
                except Exception as e:  # one kernel that does not run here leaves the others
                    print(f"{name} at {sizes}: {type(e).__name__}: {str(e)[:200]}", flush=True)


def again(path: Path) -> Iterator[Row]:
    """Rows of a file, with predictions of today's model. Solutions have today's figures where they do the same work."""
    for data in json.loads(path.read_text(encoding="utf-8"))["rows"]:
        task = exercises.get(data["kernel"].partition(":")[0])
        if task.unit.endswith("_hunt"):
            continue
        found, today = Figures.from_json({"exercise": task.id, **data["figures"]}), reference.of(task.id)
        if task.id == data["kernel"] and today and _same_work(found, today):
            found = today
        row = predicted(task, data["kernel"], found, device.find(data["gpu"]), data["sizes"])
        yield Row(**{**vars(row), "seconds": data["seconds"], "p20": data["p20"], "p80": data["p80"]})


def _same_work(one: Figures, other: Figures) -> bool:
    """Whether the kernels read and write the same arrays with the same grids."""
    return _described(one) == _described(other)


def _described(found: Figures) -> list:
    return [(w.sizes, [(s.blocks, s.threads, s.reads, s.writes) for s in w.steps]) for w in found.work]


def summary(rows: list[Row]) -> str:
    """How many predictions are near."""
    own = [row for row in rows if row.seconds is not None and ":" not in row.kernel]
    near = sum(abs(row.ratio - 1) <= WITHIN for row in own)
    return f"{near} of {len(own)} predictions for solutions are within {WITHIN:.0%} of the measured time."


def halves(rows: list[Row]) -> Iterator[tuple[str, list[Row]]]:
    """Of the solutions' rows that are no lower bounds: those on which constants were chosen, and the others."""
    own = [row for row in rows if row.seconds is not None and ":" not in row.kernel]
    number = {kernel: k for k, kernel in enumerate(dict.fromkeys(row.kernel for row in own))}
    for name, odd in (("chosen on", 0), ("not seen", 1)):
        yield name, [row for row in own if number[row.kernel] % 2 == odd and not row.least]


def table(rows: list[Row]) -> str:
    """One line for each kernel: errors in percent at both sizes, and the half that it is in."""
    of = {row.kernel: name for name, found in halves(rows) for row in found}
    kernels: dict[str, list[Row]] = {}
    for row in rows:
        if row.seconds is not None and ":" not in row.kernel:
            kernels.setdefault(row.kernel, []).append(row)
    lines = ["| kernel | measured | error | at a quarter | error | bound | half |", "|---|---|---|---|---|---|---|"]
    for kernel, found in kernels.items():
        cells = [f"{units(row.seconds, 's')} | {'≥ ' if row.least else ''}{row.ratio - 1:+.0%}" for row in found[:2]]
        cells += ["|"] * (2 - len(cells))
        bound = found[0].least or prediction.NAMES[found[0].bound]
        lines.append(f"| `{kernel}` | {' | '.join(cells)} | {bound} | {of.get(kernel, 'apart')} |")
    parts = [
        f"{sum(abs(row.ratio - 1) <= WITHIN for row in found)} of {len(found)} ({name})" for name, found in halves(rows)
    ]
    return "\n".join([*lines, "", f"Predictions within {WITHIN:.0%}: {', '.join(parts)}."])


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.predictions", description=__doc__.splitlines()[0])
    parser.add_argument("exercises", nargs="*", help="ids or units; all by default")
    parser.add_argument("--json", type=Path, help="also write the rows here")
    parser.add_argument("--no-mutants", action="store_true", help="only the solutions")
    parser.add_argument("--limit", type=float, default=220.0, help="begin no kernel after so many seconds")
    parser.add_argument("--table", action="store_true", help="with --again: one line for each kernel")
    other = parser.add_mutually_exclusive_group()
    other.add_argument("--without-gpu", metavar="GPU", help="only predict, for this GPU of the catalogue")
    other.add_argument("--again", type=Path, metavar="FILE", help="predict again what a file holds")
    arguments = parser.parse_args()
    names, with_mutants = arguments.exercises, not arguments.no_mutants
    if arguments.again:
        found = again(arguments.again)
    elif arguments.without_gpu:
        gpu = device.find(arguments.without_gpu)
        if gpu is None:
            parser.error(f"the catalogue has no {arguments.without_gpu}; it has {', '.join(device.catalogue())}")
        found = (predicted(task, name, made, gpu, sizes) for task, name, made, _ in kernels(names, gpu, with_mutants)
                 for sizes in sizes_of(task, made))  # fmt: skip
    else:
        if not present("`--without-gpu H200` prints predictions."):
            return 0
        gpu = device.current()
        if gpu.bandwidth_gbs is None:
            print("This GPU is not in the catalogue, so nothing can be predicted for it.")
            return 0
        found = measured(names, gpu, with_mutants, arguments.limit)
    if arguments.table:
        print(table(list(found)))
        return 0
    print(HEAD)
    rows = []
    for row in found:
        print(row, flush=True)
        rows.append(row)
    print(f"\n{summary(rows)}")
    if arguments.json:
        kept = {"versions": versions(), "rows": [asdict(row) for row in rows]}
        arguments.json.write_text(json.dumps(kept) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
