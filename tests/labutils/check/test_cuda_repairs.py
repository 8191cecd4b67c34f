"""Small changes of CUDA C++: what is tried, all of them in one program, and the place of one that is right."""

import ctypes
from dataclasses import replace

import pytest

from grader.course.mutants import answer
from grader.course.solutions import load_text, solution_text
from labutils import exercises
from labutils.backends import simt
from labutils.check import choices, cuda_edits, cuda_repairs, evidence, repairs
from labutils.check.evaluate import PUBLIC_SEED
from labutils.spec.inputs import make_run, shared_bytes
from labutils.spec.verdict import Diagnosis

SUM = """\
__global__ void sums(const float *x, float *out, int n) {
    __shared__ float tile[64];
    int t = threadIdx.x, i = blockIdx.x + threadIdx.x;
    float sum = 0.0f;
    for (int k = 0; k <= n; k++) { sum = x[k + 1]; }
    tile[t] = i < n ? expf(sum) / (t + 1) : 1.0f;
    if (t < 32) { __syncwarp(); out[i] = tile[t]; }
    out[i] = fmaxf(tile[t], -INFINITY);
}
"""


def test_common_slips_are_among_the_changes():
    texts = [c.applied(SUM) for c in cuda_edits.changes(SUM)]
    assert len(texts) == len(set(texts)) and SUM not in texts
    for wanted in ("k < n", "x[k + 1 - 1]", "sum += x[k + 1]", "exp2f(sum)", "fminf(", ": 0.0f;",
                   "blockIdx.x * blockDim.x + threadIdx.x", "tile[i] =", "t < 31", "if (t < 32) out[i]",
                   "{ __syncthreads();sum", "sum = 0.0f;sum = x"):  # fmt: skip
        assert any(wanted in text for text in texts), wanted


def test_named_lines_come_first_and_barriers_only_where_threads_did_not_wait():
    first = [c.line for c in cuda_edits.changes(SUM, {6})]
    assert set(first[:20]) == {6} and set(first) > {3, 5, 6}
    assert not any("__syncthreads" in c.new for c in cuda_edits.changes(SUM, waits=False))


def test_changes_begin_near_what_the_message_names():
    assert cuda_repairs.near([(1, SUM)], "thread 0 reads out[3] (line 7)") == {3, 5, 6, 7, 8}
    assert cuda_repairs.near([(1, SUM)], "2 elements of out are wrong") == set()


@pytest.mark.parametrize(
    ("kind", "what", "advice"),
    [
        (
            "wrong-values",
            "the operator",
            "Look at line 5, first at the operator, `a + b`.",
        ),  # in place of a general one
        (
            "race",
            "the operator",
            "As before. One change of the operator on line 5 makes the kernel right: `c[i] = a + b;`.",
        ),
        ("missing-syncthreads", cuda_edits.BARRIER, "As before."),  # the finding has named both lines
    ],
)
def test_the_place_stands_beside_what_is_certain(kind, what, advice):
    found = Diagnosis(kind, "c[0] is wrong (line 5)", "As before.")
    placed = evidence._at(found, repairs.Place(what, "a + b", 5, "c[i] = a + b;"))
    assert placed.advice.startswith(advice) and placed.symptom == found.symptom


def test_one_program_holds_all_changes():
    """Each choice does what the text with that change does."""
    text = "__global__ void k(int *out, int a) {\n    int b = a + 2;\n    out[0] = b;\n    out[1] = a * b;\n}\n"
    kinds = ("the operator", "the number", "the order of the statements", "the name", "the term (one may be missing)")
    wanted = [c for c in cuda_edits.changes(text, waits=False) if c.what in kinds and "Idx" not in c.new]
    assert {c.what for c in wanted} == set(kinds)
    together, places = choices.program(text, dict(enumerate(wanted, 1)))
    program = simt.compile_once(together, ["k"])
    choice, place = (program.variable(name)[0] for name in (choices.CHOICE, choices.PLACE))

    def result(kernel: simt.HostKernel) -> list[int]:
        out = (ctypes.c_int * 2)()
        where = ctypes.addressof(out)
        kernel.launch(1, 1, 0, [where, 5], arrays={"out": simt.MemoryRange(where, 2, 4)})
        return list(out)

    for number, change in list(enumerate(wanted, 1))[::9]:
        ctypes.c_int.from_address(choice).value = number
        ctypes.c_int.from_address(place).value = places.get(number, 0)
        alone = change.applied(text) if ";" in change.new else replace(change, new=f"({change.new})").applied(text)
        assert result(program.kernels["k"]) == result(simt.compile(alone, ["k"]).kernels["k"]), change


@pytest.mark.parametrize(
    ("exercise_id", "old", "new", "place"),
    [
        ("07_elementwise_cuda/vector_add", "x[i] + y[i];", "x[i] - y[i];", ("the operator", "x[i] - y[i]")),
        ("15_matmul_cuda/naive", "m >= M ||", "m >= M &&", ("the comparison", "m >= M && n >= N")),
        (
            "10_reduction/sum_v3",
            "if (t < s) tile",
            "tile",
            ("the statement (a condition may be missing)", "tile[t] +="),
        ),
    ],
)
def test_the_place_of_a_slip_is_named(exercise_id, old, new, place, tmp_path):
    exercise = exercises.get(exercise_id)
    text = answer(exercise_id).replace(old, new, 1)
    fn = getattr(load_text(solution_text(exercise_id.split("/")[0]), tmp_path, kernels=text), exercise.entry)
    cases = [c for c in exercise.cases if 2 <= max(c.sizes.values()) <= 100][:2]
    runs = [(make_run(exercise, case, PUBLIC_SEED, "cpu", shared_bytes), 10.0) for case in cases]
    line = answer(exercise_id).partition(old)[0].count("\n") + 1
    found = cuda_repairs.find(fn, runs, {line}, False, 300.0)
    assert (found.line, found.what, found.text[: len(place[1])]) == (line, *place)
