"""What launchers launch at sizes that nobody runs, and what kernels of a counted case do there."""

import functools
import os
import subprocess
import sys
from collections import Counter

import pytest

from grader.course.solutions import load_text, solution_text
from labutils import exercises
from labutils.backends import child
from labutils.check import figures, planned
from labutils.check.evaluate import PUBLIC_SEED
from labutils.check.planned import Counted, Step, Work
from labutils.gpu import device
from labutils.spec.exercise import Case

TRITON, CUDA, SCAN = "06_elementwise_triton/vector_add", "08_coalescing/transpose", "10_scan/scan"


def plan(name: str, tmp_path) -> list[dict]:
    """In a child, as a card plans."""
    exercise = exercises.get(name)
    fn = getattr(load_text(solution_text(exercise.unit), tmp_path), exercise.entry)
    case = Case("planned", exercise.bench)
    (found,) = child.fork([lambda: {"launches": planned.launches(exercise, fn, case, planned.Asked())}], 30.0)
    return planned.together(found["launches"])


def test_a_triton_launcher_is_planned_at_the_benchmarks_size(tmp_path):
    pytest.importorskip("triton")
    (launch,) = plan(TRITON, tmp_path)
    n = exercises.get(TRITON).bench["n"]
    assert launch["arrays"] == {"x": 4 * n, "y": 4 * n, "out": 4 * n}
    assert launch["blocks"] * 1024 == n and launch["compile"]["kernel"] == launch["kernel"]


@pytest.mark.compiler
def test_a_cuda_launcher_is_planned_with_its_levels(tmp_path):
    (launch,) = plan(CUDA, tmp_path)
    assert launch["blocks"] == 8192 // 32 * 8192 // 32 and launch["threads"] == 256
    first, second = plan(SCAN, tmp_path)
    assert first["launches"] == 4 and second["launches"] == 3


@pytest.mark.compiler
def test_a_launcher_that_sizes_its_grid_by_the_gpu_asks_for_it(tmp_path):
    """Without a GPU both launch 64 blocks."""
    for name, asked in (("10_warp_reduction/sum_v6", True), ("09_debugging/fix_sum", False)):
        (launch,) = plan(name, tmp_path)
        assert (launch["blocks"], launch["asked"]) == (64, asked)


LOSS = "24_loss/linear_cross_entropy"


@pytest.mark.parametrize(
    "name", [TRITON, pytest.param(CUDA, marks=pytest.mark.compiler), pytest.param(LOSS, marks=pytest.mark.slow)]
)
def test_machine_code_is_made_while_the_kernels_run(name, tmp_path):
    """A plan shows what is compiled before a kernel has run, and nothing else has to be compiled after that."""
    exercise = exercises.get(name)
    fn = getattr(load_text(solution_text(exercise.unit), tmp_path), exercise.entry)
    first, last = figures.recorded(exercise, fn, PUBLIC_SEED)
    assert "figures" not in first and last["figures"]["work"]
    assert [figures._identity(row) for row in first["compile"]] == [figures._identity(row) for row in last["compile"]]


def test_a_launcher_that_comes_to_no_end_without_data_is_counted_all_the_same(tmp_path, monkeypatch):
    exercise = exercises.get(TRITON)
    fn = getattr(load_text(solution_text(exercise.unit), tmp_path), exercise.entry)
    monkeypatch.setattr(planned, "launches", lambda *_: os._exit(1))
    (only,) = figures.recorded(exercise, fn, PUBLIC_SEED)
    assert only["figures"]["counts"]["launches"] == 1 and not only["figures"]["work"] and len(only["compile"]) == 1


def test_machine_code_is_read_once_and_of_each_kernel_first(monkeypatch):
    def row(kernel: str, threads: int) -> dict:
        return {"kernel": kernel, "threads": threads, "shared": 0, "compile": {"name": kernel}}

    rows = [row("a", 32), row("a", 64), *(row(name, 32) for name in "bcdef")]
    assert [r["kernel"] for r in figures._different(rows)] == list("abcdef")
    assert figures._different(rows[:6]) == rows[:6]
    read = []
    monkeypatch.setattr(figures.CodeReader, "_cuda", lambda self, new: read.extend(new) or [r["kernel"] for r in new])
    with figures.CodeReader("cuda") as reader:
        reader.begin(rows[:2])
        assert reader.codes([*rows[1:3], rows[1]]) == ("a", "b", "a") and read == rows[:3]
        with pytest.raises(figures.offline.CompilerFailed, match="a class"):
            reader.codes(["its argument is a class"])


def test_what_a_launcher_has_asked_once_counts_for_its_later_runs():
    asked = planned.Asked()
    remembered = functools.cache(lambda: device.current())
    for _ in range(2):
        with asked:
            remembered()
        assert asked.gpu and device.current.__module__ == device.__name__


def test_stores_that_fill_half_of_their_sectors_are_partial():
    seen = Counted()
    for size, sectors in ((1024, 32), (992, 32), (512, 32), (128, 32)):
        seen.store(size, sectors)
    assert seen.partial == 64


def test_a_smaller_size_is_a_quarter_of_the_bytes():
    for name in (TRITON, CUDA, "19_decode_attention/paged", "22_sub_byte/w4a16"):
        exercise = exercises.get(name)
        large, small = planned.sizes(exercise)
        cost = [exercise.cost(at, 4).bytes for at in (large, small)]
        assert 0.2 < cost[1] / cost[0] < 0.35, name
    assert planned.sizes(exercises.get("19_decode_attention/paged"))[1]["P"] == 8192


def test_a_kernel_touches_the_same_share_of_each_array_at_another_size():
    exercise = exercises.get(TRITON)
    case = figures.counted_case(exercise)
    size = 4 * case.sizes["n"]
    arrays = Counter(x=size, y=size, out=size)
    seen = Counted(4, arrays, Counter(x=size, y=size), Counter(out=size), 0, 3 * size // 32, 0, 96, 8)
    large = 4 * 1024 * case.sizes["n"]
    launch = {"kernel": "add<4>", "launches": 1, "blocks": 4096, "threads": 128,
              "arrays": {"x": large, "y": large, "out": large}}  # fmt: skip
    (step,) = planned.steps(exercise, case, {"n": large // 4}, [launch], {"add": seen})
    assert (step.read, step.written, step.blocks) == (2 * large, large, 4096)
    assert step.sectors == 3 * large // 32 and step.wavefronts == 96 * 1024 and step.barriers == 8 * 1024
    assert planned.steps(exercise, case, {"n": 4}, [launch], {"other": seen}) is None


def test_what_must_move_does_move_where_the_counted_case_was_ragged():
    exercise = exercises.get(TRITON)
    case = figures.counted_case(exercise)
    seen = Counted(1, Counter(x=100, y=100, out=100), Counter(x=60, y=60), Counter(out=100))
    launch = {"kernel": "add", "launches": 1, "blocks": 1, "threads": 32, "arrays": {"x": 400, "y": 400, "out": 400}}
    (step,) = planned.steps(exercise, case, {"n": 100}, [launch], {"add": seen})
    assert step.reads == (400, 400) and step.writes == (400,)


def test_launches_of_one_kernel_are_one_step():
    rows = [{"kernel": "k", "threads": 32, "blocks": b, "arrays": {"x": 4 * b}} for b in (8, 2)]
    (row,) = planned.together(rows)
    assert (row["launches"], row["blocks"], row["arrays"]) == (2, 10, {"x": 40})


def test_work_survives_json():
    work = Work({"n": 4}, (Step(0, 1, 2, 32, (4, 4), (4,)),))
    assert Work.from_json({"sizes": {"n": 4}, "steps": [vars(work.steps[0])]}) == work


def test_counting_fills_does_not_import_the_compiler():
    """`torch.compile` takes seconds to import, and each plan has a process of its own."""
    text = (
        "import sys, torch\n"
        "from labutils.check.planned import _Fills\n"
        "with _Fills() as fills: torch.empty(3).zero_()\n"
        "print(fills.taken(), 'torch._dynamo' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=120)
    assert done.stdout == "1 False\n", done.stderr
