"""Where programs store, and what threads wait for: the lines that explain it."""

from dataclasses import replace

import pytest
import torch

from labutils.check import placement, statements
from labutils.check.accesses import Access, Recording
from labutils.spec.inputs import make_run
from tests.labutils.check.small_exercises import COPY, MATMUL, ROW_SUM

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


def waiting(threads, parity, lacks, bytes_=0, after=""):
    """A part of what the emulator says of a deadlock at mbarriers."""
    return (
        f"{threads} threads wait at mbarrier_wait for the end of a phase of parity {parity}, while its barrier is in "
        f"one of parity {parity} that lacks {lacks} arrival{'s' * (lacks > 1)} and {bytes_} bytes{after}"
    )


@pytest.mark.parametrize(
    "message, line, cause, advice",
    [
        (waiting(32, 0, 0, 1024), 5, "a phase still expects 1024 bytes", "line 4"),
        (waiting(32, 1, 32), 6, "96 of the 128 arrivals at empty have come", "line 3"),
        (f"{waiting(32, 0, 1)}; {waiting(1, 1, 128)}", 5, "each side waits for the other", "line 3"),
        (
            f"{waiting(32, 0, 1, 0, ', after 1 phase')}; {waiting(1, 1, 128, 0, ', after 32 phases')}",
            5,
            "empty has ended 32 phases and full only 1, so more threads arrive at empty than it was made for",
            "line 7",
        ),
        (
            f"{waiting(32, 0, 1, 0, ', after 1 phase')}; {waiting(1, 1, 128, 0, ', after 0 phases')}",
            5,
            "no phase of empty has ended since the start",
            "line 7",
        ),
        (
            f"{waiting(32, 0, 1, 0, ', after 3 phases')}; {waiting(1, 1, 128, 0, ', after 2 phases')}",
            5,
            "each side waits for the other",
            "line 7",
        ),
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
    assert f"both line {3 + shared}" in found.cause and f"line {4 + shared}" in found.cause
    assert "stored once" in found.advice
    if shared:  # of two iterations the later one may store again
        in_a_loop = source.replace("out[2", "for (int k = 0; k < n; k++) {\n out[2").replace("x[i];\n", "x[i];\n}\n")
        assert placement.conflict(5, message.replace("line 5", "line 6"), [in_a_loop]) is None


def test_programs_that_never_reach_the_store_are_counted():
    run = make_run(ROW_SUM, ROW_SUM.cases[0], 5)
    rows = run.outputs["out"].view.numel()
    stored = [Access("store", "out", (0, 0, 0), "k.py", 4, (0,), ())]
    missing = torch.arange(rows) > 0
    found = placement.unwritten(run, "out", missing, Shown(stored, [((rows, 1, 1), (1, 1, 1))]))
    assert f"{rows - 1} of {rows} programs execute no store to out" in found.advice and "line 4" in found.advice


TILES = """\
__global__ void product(const float* x, float* out, int n) {
    __shared__ float tile[2][64];
    for (int k = 0; k < n; k += 64) {
        tile[0][threadIdx.x] = x[k + threadIdx.x];
        __syncthreads();
        out[threadIdx.x] += tile[0][63 - threadIdx.x];
    }
}
"""


def conflicting(verb, did, line):
    return f"thread 1 {verb} tile[0][5], which thread 2 {did} (line {line}), with no __syncthreads() in between"


@pytest.mark.parametrize(
    "message, line",
    [(conflicting("overwrites", "read", 6), 4), (conflicting("reads", "wrote", 4), 6)],
)
def test_a_barrier_that_stands_there_is_not_asked_for(message, line):
    found = placement.conflict(line, message, [TILES])
    assert "line 5: `__syncthreads();` stands between the two lines in one iteration" in found.cause
    assert "the next iteration's line 4" in found.cause and "separates the iterations" in found.advice


HALVING = """\
__global__ void tree(float* out) {
    __shared__ float tile[64];
    int t = threadIdx.x;
    for (int s = 32; s > 0; s /= 2) {
        if (t < s) tile[t] += tile[t + s];
        if (s > 32) __syncthreads();
    }
}
"""


def test_a_barrier_under_a_condition_is_named_with_it():
    message = "thread 0 reads tile[16], which thread 16 wrote, with no __syncwarp() in between"
    found = placement.conflict(5, message, [HALVING])
    assert "the condition of line 6: `if (s > 32) __syncthreads();` is false" in found.cause
    everywhere = placement.conflict(5, message, [HALVING.replace("if (s > 32) ", "")])
    assert "separates only iterations" in everywhere.cause


def test_a_builtin_in_an_index_is_no_variable_to_test():
    line = statements.Line(4, "tile[t] = x[i] + x[i + blockDim.x];")
    advice = placement._guard_advice("x", line.text, [statements.Line(4, "if (i < n)")], "if (i < n)", "")
    assert "Work out the index [i + blockDim.x]" in advice
    advice = placement._guard_advice("x", "x[k + threadIdx.x]", [statements.Line(4, "if (i < n)")], "if (i < n)", "")
    assert "No condition bounds k of the index" in advice


def test_without_a_barrier_nothing_else_is_said():
    source = TILES.replace("__syncthreads();", ";")
    assert placement.conflict(4, conflicting("overwrites", "read", 6), [source]) is None


SMOOTHED = """\
__global__ void smooth(float* out, int steps) {
    __shared__ float tile[64];
    tile[threadIdx.x] = out[threadIdx.x];
    __syncthreads();
    for (int step = 0; step < steps; step++) {
        float next = tile[threadIdx.x] + tile[63 - threadIdx.x];
        // first
        tile[threadIdx.x] = next;
        // second
    }
}
"""


@pytest.mark.parametrize(
    "barriers, cause, advice",
    [
        (["// second"], "in one iteration line 6", "put __syncthreads() between the two lines"),
        (["// first"], "between line 8: `tile[threadIdx.x] = next;` and the next iteration's line 6", "separates"),
        ([], "no barrier stands in the loop of line 5", "Two are needed"),
    ],
)
def test_of_a_loop_that_reads_before_it_writes_the_missing_barrier_is_told(barriers, cause, advice):
    source = SMOOTHED
    for place in barriers:
        source = source.replace(place, "__syncthreads();")
    found = placement.conflict(6, "thread 32 reads tile[31], which thread 31 wrote (line 8)", [source])
    assert cause in found.cause and advice in found.advice


@pytest.mark.parametrize("barrier, advice", [("", "in front of the loop of line 4"), ("__syncthreads();", "too late")])
def test_before_a_loop_a_barrier_is_asked_for_where_it_lacks(barrier, advice):
    source = SMOOTHED.replace("    __syncthreads();\n", "").replace("// second", barrier)
    found = placement.conflict(5, "thread 32 reads tile[31], which thread 31 wrote (line 3)", [source])
    assert advice in found.advice


@pytest.mark.parametrize("length, said", [("BLOCK + 1", "tile has 65 elements, and index 65 needs 66"), ("N", "under")])
def test_a_shared_array_may_be_too_short(length, said):
    source = f"""\
constexpr int BLOCK = 64, TWICE = 2 * BLOCK;
__global__ void k(float* out, int n) {{
    __shared__ float tile[{length}];
    int t = threadIdx.x;
    if (t < n)
        tile[t + 2] = out[t];
}}
"""
    run = make_run(replace(MATMUL, language="cuda"), MATMUL.cases[0], 5)
    found = placement.outside(run, "tile", 65, "store", 6, Recording(sources=[source]))
    assert said in found.cause


def test_a_barrier_of_the_iteration_leaves_the_wrong_buffer():
    source = TILES.replace("        __syncthreads();\n", "").replace("    }\n}", "        __syncthreads();\n    }\n}")
    found = placement.conflict(4, conflicting("overwrites", "read", 5), [source])
    assert "the same one of the two buffers of tile" in found.cause
    single = source.replace("[2][64]", "[64]")
    assert placement.conflict(4, conflicting("overwrites", "read", 5), [single]) is None


COPIED = """\
__global__ void scale(float* out) {
    __shared__ float tile[64];
    if (t == 0) {
        tma_load(tile, &x, &full, 0, 0);
        mbarrier_wait(&full, 0);
    }
    tile[t] = 2 * tile[t];
}
"""


def test_what_a_copy_fills_needs_a_wait_of_each_reader():
    found = placement.not_initialised("tile", [COPIED])
    assert "filled by the copy of line 4" in found.cause and "which threads reach line 5" in found.advice
    found = placement.not_initialised("tile", [COPIED.replace("tma_load(tile", "tma_load(other")])
    assert "tile is written on line 7" in found.cause and "row length" in found.advice


def read_of(index, guard="if (m >= M || n >= N) return;"):
    return f"""\
__global__ void product(const float* a, const float* b, float* c, int M, int N, int K) {{
    int n = threadIdx.x, m = threadIdx.y;
    {guard}
    float sum = 0.0f;
    for (int k = 0; k < K; k++) sum += a[m * K + k] * b[{index}];
}}
"""


@pytest.mark.parametrize(
    "source, advice",
    [
        (read_of("k * K + n"), "steps by K from row to row, but a row of b has N elements"),
        (read_of("k * N + n", "if (m > M || n > N) return;"), "`n > N` lets n = N through"),
        (read_of("k * N + n", "if (m >= M) return;"), "No condition bounds n"),
        (read_of("k * N + n", "if (threadIdx.x < N && m < M)"), "test n itself"),
        (
            read_of("k * N + n", "if (m >= M && n >= N) return;"),
            "outside in each direction; one direction must be enough",
        ),
        (read_of("k * N + n", "if (m < M || n < N)"), "inside in one direction alone; both must be true"),
        (read_of("k * N + n"), "a term of it is wrong"),
    ],
)
def test_of_an_index_outside_the_condition_is_read(source, advice):
    run = make_run(replace(MATMUL, language="cuda"), MATMUL.cases[0], 5)
    found = placement.outside(run, "b", 10**6, "load", 5, Recording(sources=[source]))
    assert advice in found.advice


BY_HELPERS = """\
__global__ void product(float* out) {
    __shared__ float tile[2][64];
    auto put = [&](int buffer) {
        tile[buffer][threadIdx.x] = 1;
    };
    auto multiply = [&](int buffer) {
        sum += tile[buffer][63 - threadIdx.x];
    };
    put(0);
    __syncthreads();
    for (int k = 0; k < 4; k++) {
        multiply(now);
        put(now);
        __syncthreads();
    }
}
"""


def test_lines_of_helpers_are_looked_at_where_they_are_called():
    found = placement.conflict(4, conflicting("overwrites", "read", 7), [BY_HELPERS])
    assert "in one iteration line 13: `put(now);` and line 12: `multiply(now);` use the same one" in found.cause


def test_a_write_before_a_loop_needs_a_barrier_of_its_own():
    source = BY_HELPERS.replace("put(0);\n    __syncthreads();", "put(0);")
    found = placement.conflict(7, conflicting("reads", "wrote", 4), [source])
    assert "line 9: `put(0);` writes tile before the loop and line 11: `multiply(now);` reads it" in found.cause


@pytest.mark.parametrize("stored, own", [("tile[i] = 2 * tile[i];", True), ("tile[i] += tile[i + 64];", False)])
def test_no_barrier_is_advised_inside_of_one_statement(stored, own):
    source = f"__global__ void k() {{\n    for (int i = t; i < 64; i += 16) {stored}\n}}\n"
    found = placement.conflict(2, "block 0, thread 1 reads tile[17], which thread 17 wrote, with no barrier", [source])
    assert (found is not None and "No barrier helps" in found.advice and "line 2" in found.advice) == own


COPIES = """\
__global__ void k() {
    for (int s = 0; s < 4; s++) {
        __pipeline_wait_prior(1);
        use(now);
        if (s < 2) {
            fetch(s);
            __pipeline_commit();
        }
    }
}
"""


@pytest.mark.parametrize(
    "message, source, said",
    [
        ("an asynchronous copy by thread 1 is still on its way (2 waits since it was started let it go on)", COPIES,
         "line 7: `__pipeline_commit();` stands under line 5"),
        ("an asynchronous copy by thread 1 is still on its way (2 waits since it was started let it go on)",
         COPIES.replace("if (s < 2)", ""), "Count the groups"),
        ("an asynchronous copy by thread 1 is still on its way (no wait since it was started)", COPIES,
         "which buffer is filled and which is read"),
        ("tile b of a wgmma does not lie in shared memory", "", "not n bytes"),
    ],
)  # fmt: skip
def test_a_wrong_wait_commit_buffer_and_address_are_told_apart(message, source, said):
    found = placement.unwaited(message, 4, [source])
    assert said in found.cause + found.advice


TWO_SIDES = """\
__global__ void k() {
    if (warp == 8) {
        for (int tile = begin; tile < tiles; tile++) {
            for (int k0 = 0; k0 < K; k0 += 64) {
                mbarrier_wait(&empty[stage], parity ^ 1);
                next_stage();
            }
        }
    } else {
        for (int tile = begin; tile < tiles; tile++) {
            RESET
            for (int s = 0; s < steps; s++) {
                mbarrier_wait(&full[stage], parity);
                wgmma_wait<1>();
                release(WHICH);
                next_stage();
            }
        }
    }
}
"""
WAITING = (
    "2 threads wait at mbarrier_wait for the end of a phase of parity 0, while its barrier is in one of parity 0 that "
    "lacks 1 arrival and 0 bytes, after 2 phases; 1 thread waits at mbarrier_wait for the end of a phase of parity 1, "
    "while its barrier is in one of parity 1 that lacks 1 arrival and 0 bytes, after 1 phase"
)


@pytest.mark.parametrize(
    "reset, which, said",
    [
        ("stage = 0;", "before", "line 11: `stage = 0;` sets stage back in each iteration of line 10"),
        ("", "stage", "gives stage back, the stage of the latest batch, which line 14: `wgmma_wait<1>();` lets run on"),
        ("", "before", "nobody arrives any more"),
    ],
)
def test_of_a_stuck_ring_the_text_tells_which_side_is_wrong(reset, which, said):
    source = TWO_SIDES.replace("RESET", reset).replace("WHICH", which)
    assert said in placement.stuck(WAITING, 13, [source]).cause


def test_without_an_assignment_the_lines_that_use_the_tile_are_shown():
    source = "__global__ void k() {\n    __shared__ half tile[64];\n    fill(&tile[8 * t], 40);\n}\n"
    found = placement.not_initialised("tile", [source])
    assert "tile is used on line 3" in found.cause and "row length" in found.advice


@pytest.mark.parametrize("case, between", [(0, False), (1, True)])
def test_stores_between_rows_are_named(case, between):
    run = make_run(COPY, COPY.cases[case], 5)
    rows, columns = run.outputs["out"].view.shape
    stored = [
        Access("store", "out", (row, 0, 0), "k.py", 4, tuple(range(row * columns, row * columns + columns)), ())
        for row in range(rows)
    ]
    missing = torch.ones(rows, columns, dtype=torch.bool)
    missing[0] = False
    found = placement.unwritten(run, "out", missing, Shown(stored, [((rows, 1, 1), None)]))
    assert ("program 1 stores between two rows of out" in found.cause) == between
    assert ("out's own stride" in found.advice) == between


@pytest.mark.parametrize("lanes, cause", [(96, "no store points at out[2, 6]"), (450, "its mask is False there")])
def test_a_masked_lane_behind_a_row_points_at_the_next_row(lanes, cause):
    """Two programs store a row of 90 each; the lanes behind it are masked, and point at rows that nobody stores."""
    run = make_run(COPY, COPY.cases[0], 5)
    rows = [(tuple(range(90 * k, 90 * k + 90)), tuple(range(90 * k + 90, 90 * k + lanes))) for k in range(2)]
    stored = [Access("store", "out", (k, 0, 0), "k.py", 4, *row) for k, row in enumerate(rows)]
    missing = torch.arange(6)[:, None].expand(6, 90) > 1
    assert cause in placement.unwritten(run, "out", missing, Shown(stored, [((2, 1, 1), None)])).cause


def test_counter_and_sums_may_be_parts_of_one_tensor():
    lines = [Access("atomic", "sums", (0, 0, 0), "k.py", 2, (0, 1), ()),
             Access("atomic", "sums", (0, 0, 0), "k.py", 1, (9,), ())]  # fmt: skip
    assert "one thread does so" in placement.raised_early("sums", Shown(lines)).cause
    assert "before it changes sums" in placement.raised_early("sums", Shown(lines[::-1])).cause


def loop(*body, head="while (true) {"):
    text = [
        "__global__ void k(float* y, int n) {",
        "  for (int a = 0; a < 3; a++) {",
        "    y[a] = 0;",
        "  }",
        f"  {head}",
    ]
    return "\n".join([*text, *(f"    {line}" for line in body), "  }", "}"])


@pytest.mark.parametrize(
    ("source", "line", "said"),
    [
        (loop("if (k > n) break;", "k = 0;"), 7, "`while (true) {`, which only line 6: `if (k > n) break;` can end"),
        (loop("y[0] = 1;"), 6, "line 5: `while (true) {`, and nothing in it ends it"),
        (loop("y[0] = 1;", "if (k == n)", "  return;"), 6, "which only line 8: `if (k == n) return;` can end"),
        (loop("for (;;) if (k) break;"), 5, "and nothing in it ends it"),
        (loop("if (k == 7) break;", head="for (int k = 0;; k += 2) {"), 5, "which only line 6: `if (k == 7) break;`"),
        (loop("if (k == 7) break;", "if (k > n) return;"), 6, "which line 6: `if (k == 7) break;` and line 7: `if (k"),
        (loop("k++;", head="for (int i = 0; i < n; j++) {"), 6, "it changes j, but its condition tests i, n"),
        (loop("k = k % 7;", head="do {").replace("\n  }\n}", "\n  } while (k < 8);\n}"), 6,
         "the loop is line 5: `do … while (k < 8);`"),
        (loop("k = k % 7;", head="while (k < 8) {"), 6, "the loop is line 5: `while (k < 8) {`"),
    ],
)  # fmt: skip
def test_a_loop_without_end_is_named_with_what_could_end_it(source, line, said):
    assert said in placement.endless(line, [source]).cause


def test_a_loop_after_do_while_is_not_mistaken_for_it():
    source = loop("k++;", head="do {").replace("\n  }\n}", "\n  } while (k < 8);\n  y[1] = 0;\n}")
    assert placement.endless(8, [source]) is None
