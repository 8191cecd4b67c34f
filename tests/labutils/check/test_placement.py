"""Where programs store, and what threads wait for: the lines that explain it."""

import pytest
import torch

from labutils.check import placement
from labutils.check.accesses import Access, Recording
from labutils.spec.inputs import make_run
from tests.labutils.check.small_exercises import ROW_SUM

KERNEL = """\
ticket = tl.atomic_add(count_ptr, 1)
tl.atomic_add(sums_ptr + offs, x)
ticket = tl.atomic_add(count_ptr, 1, sem="relaxed")
y = tl.load(sums_ptr + offs)
"""


BARRIER = 5


class Shown(Recording):
    def lines(self, filename):
        return KERNEL.splitlines(keepends=True)


def program(number, *lines):
    """The accesses of a program that executes these lines of the kernel."""
    arrays = {
        1: ("atomic", "count", (0,)),
        2: ("atomic", "sums", (0, 1)),
        3: ("atomic", "count", (0,)),
        4: ("load", "sums", (0, 1)),
        BARRIER: ("barrier", "", ()),
    }
    return [Access(arrays[n][0], arrays[n][1], (number, 0, 0), "k.py", n, arrays[n][2], ()) for n in lines]


@pytest.mark.parametrize(
    "lines, cause",
    [
        (
            (1, 2),
            "raises the counter count on line 1, `ticket = tl.atomic_add(count_ptr, 1)`, before it changes sums",
        ),
        ((2, 3), "a relaxed atomic orders nothing"),
        ((1, 2, 3), "a relaxed atomic orders nothing"),
        ((2, 1), "one thread does so, while others may still have to change sums (line 2)"),
        ((2, BARRIER, 1), None),
        ((BARRIER, 2, 1), "one thread does so"),
        ((2,), None),
    ],
)
def test_of_a_race_the_counter_that_comes_too_early_is_named(lines, cause):
    found = placement.raised_early("sums", Shown([*program(0, *lines), *program(1, *lines, 4)]))
    assert found is None if cause is None else cause in found.cause


RING = """\
__global__ void ring(float* out) {
    mbarrier_init(&full, 1);
    mbarrier_init(&empty[0], 128);
    mbarrier_expect(&full, 4096);
    mbarrier_wait(&full, 0);
    mbarrier_wait(&empty[0], 1);
    mbarrier_arrive(&empty[0]);
}
"""


def waiting(threads, parity, lacks, bytes_=0):
    """A part of what the emulator says of a deadlock at mbarriers."""
    return (
        f"{threads} threads wait at mbarrier_wait for the end of a phase of parity {parity}, while its barrier is in "
        f"one of parity {parity} that lacks {lacks} arrival{'s' * (lacks > 1)} and {bytes_} bytes"
    )


@pytest.mark.parametrize(
    "message, line, cause, advice",
    [
        (waiting(32, 0, 0, 1024), 5, "a phase still expects 1024 bytes", "line 4"),
        (waiting(32, 1, 32), 6, "96 of the 128 arrivals at empty have come", "line 3"),
        (f"{waiting(32, 0, 1)}; {waiting(1, 1, 128)}", 5, "each side waits for the other", "parity"),
        (waiting(32, 0, 1), 5, "the other threads have gone on or returned", "line 7"),
    ],
)
def test_a_deadlock_at_mbarriers_says_what_is_missing(message, line, cause, advice):
    found = placement.stuck(message, line, [RING])
    assert cause in found.cause and advice in found.cause + found.advice


def test_other_deadlocks_say_nothing_about_mbarriers():
    assert placement.stuck("64 threads wait at __syncthreads", 3, [RING]) is None
    assert placement.stuck(waiting(32, 0, 1), 5, ["__global__ void k() {}"]) is None


TWO_LOOPS = """\
__global__ void twice(const float* x, float* out, int n) {
    int i = threadIdx.x;
    out[2 * i] = x[2 * i];
    out[i] = x[i];
}
"""


@pytest.mark.parametrize("shared", [False, True])
def test_two_lines_that_store_to_one_element_are_shown_both(shared):
    source = TWO_LOOPS.replace("    int i", "    __shared__ float out[64];\n    int i") if shared else TWO_LOOPS
    message = f"block 0, thread 1 writes out[2], which thread 2 wrote (line {4 + shared}), with no __syncthreads()"
    found = placement.conflict(3 + shared, message, [source])
    if shared:
        assert found is None
    else:
        assert "both line 3" in found.cause and "line 4" in found.cause and "stored once" in found.advice


def test_programs_that_never_reach_the_store_are_counted():
    run = make_run(ROW_SUM, ROW_SUM.cases[0], 5)
    rows = run.outputs["out"].view.numel()
    stored = [Access("store", "out", (0, 0, 0), "k.py", 4, (0,), ())]
    missing = torch.arange(rows) > 0
    found = placement.unwritten(run, "out", missing, Shown(stored, [((rows, 1, 1), (1, 1, 1))]))
    assert f"{rows - 1} of {rows} programs execute no store to out" in found.advice and "line 4" in found.advice
