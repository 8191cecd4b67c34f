"""The judge and bad input: a sentence for each, nothing lost, nothing left running."""

import time

import pytest

from grader.judge.judge import Judge
from grader.judge.submission import Submission
from labutils import exercises
from labutils.check.evaluate import conclude
from labutils.spec.exercise import PlainExercise

ADD, PLAIN = "06_elementwise_triton/vector_add", "00_start/number_of_programs"

KERNEL = """
import torch
import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    tl.store(out_ptr + offs, tl.load(x_ptr + offs, mask) + tl.load(y_ptr + offs, mask), mask)


def vector_add(x, y, out):
    n = x.numel()
    launch = add_kernel[(triton.cdiv(n, 1024),)]
"""
RIGHT = KERNEL + "    launch(x, y, out, n, BLOCK=1024)\n"
COUNTS = "def number_of_programs(n, block):\n    return -(-n // block)\n"


def judged(*texts, ids=(ADD,), **options):
    cells = tuple((f"cell{k}", t) for k, t in enumerate(("import labutils as lab", *texts)))
    return Judge(3, **{"hidden": 1, "time_limit": 3.0, **options}).judge(Submission(cells), ids)


def refusal(body, **options):
    """Symptom of a launcher whose last lines these are; another exercise of the same submission keeps its marks."""
    verdicts = judged(
        KERNEL + "".join(f"    {line}\n" for line in body.split("\n")), COUNTS, ids=(ADD, PLAIN), **options
    )
    assert verdicts[PLAIN].marks == 1.0
    verdict = verdicts[ADD]
    assert verdict.marks == 0 and not verdict.passed
    message = verdict.headline.symptom
    assert "\n" not in message and verdict.headline.advice and verdict.text()
    return verdict.headline.kind, message


def test_a_right_submission_gets_all_marks():
    verdicts = judged(RIGHT, COUNTS, ids=(ADD, PLAIN))
    assert [v.marks for v in verdicts.values()] == [2.0, 1.0]
    assert any(r.hidden for r in verdicts[ADD].results)


def test_the_same_seed_gives_the_same_verdict():
    one, two = (judged(RIGHT)[ADD].to_json() for _ in range(2))
    for verdict in (one, two):
        for result in verdict["results"]:
            result.pop("seconds")
    assert one == two


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ((), "there is no function called vector_add in this notebook"),
        (("x = 1",), "there is no function called vector_add in this notebook"),
        (("def vector_add(: pass",), "there is no function called vector_add"),
        (("vector_add = 5",), "this is a int, not a function"),
        (("def vector_add(x): pass",), "it is called with (x, y, out), but yours takes (x)"),
        (("raise SystemExit",), "there is no function called vector_add"),
        (("while True: pass",), "did not come to an end"),
        (("def vector_add(x, y, out): pass",), "launched no kernel"),
        (("\0",), "there is no function called vector_add"),
        (("x = '\ud800'",), "there is no function called vector_add"),
        (("x = " + "(" * 10_000,), "there is no function called vector_add"),
        (("x = 1\n" * 20_000,), "there is no function called vector_add"),
    ],
)
def test_submissions_without_a_launcher(texts, message):
    verdict = judged(*texts)[ADD]
    assert verdict.marks == 0 and message in verdict.headline.symptom


def test_too_much_memory():
    kind, message = refusal("scratch = torch.empty(1 << 38, device=x.device)\nlaunch(scratch, y, out, n, BLOCK=1024)")
    assert (kind, message) == ("error", "your launcher asks for 1,024 GB of scratch memory; at most 2 GB are given")


def test_ten_thousand_launches():
    kind, message = refusal("for _ in range(10_000):\n    launch(x, y, out, n, BLOCK=1024)")
    assert kind in ("error", "timeout")
    assert message.startswith(("your launcher makes more than 1000 launches", "the code did not come"))


def test_a_launcher_without_end():
    begin = time.monotonic()
    kind, message = refusal("while True:\n    pass", time_limit=1.0)
    assert kind == "timeout" and "did not come to an end" in message
    assert time.monotonic() - begin < 60


def test_a_launcher_that_waits():
    kind, message = refusal("import time\ntime.sleep(1000)", time_limit=0.5)
    assert kind == "timeout" and "did not come to an end" in message


def test_a_case_that_fails_hides_no_other():
    """One case has no plan: what is said is why, and not that the others were never run."""
    kind, message = refusal("if n == 1:\n    raise ValueError('one')\nlaunch(x, y, out, n, BLOCK=1024)")
    assert (kind, message.split(" (")[0]) == ("error", "ValueError: one")


def test_grids_that_no_gpu_takes():
    assert refusal("add_kernel[(1, 70_000)](x, y, out, n, BLOCK=1024)")[1] == (
        "add_kernel is launched on a grid of (1, 70000, 1), which no GPU takes"
    )
    assert "a grid has one, two or three" in refusal("add_kernel[(1, 1, 1, 1)](x, y, out, n, BLOCK=1024)")[1]


def test_a_kernel_without_end():
    endless = KERNEL.replace(
        "    mask = offs < n\n", "    mask = offs < n\n    i = tl.program_id(0)\n    while i < 9:\n        i *= 1\n"
    )
    verdict = judged(endless + "    launch(x, y, out, n, BLOCK=1024)\n", time_limit=1.0)[ADD]
    assert verdict.marks == 0 and verdict.headline.kind == "timeout"


ROW_SCALE = """
__global__ void k(const float* x, const float* scale, float* out, int M, int N) {
    for (int i = threadIdx.x; i < M * N; i += blockDim.x) out[i] = scale[i / N] * x[i];
}"""

DOUBLES = """
template<class A, class B> struct P {};
template<int N> struct D { using type = P<typename D<N - 1>::type, typename D<N - 1>::type>; };
template<> struct D<0> { using type = int; };
__global__ void k(float* x) { typename D<20>::type t; t.missing(); }"""


@pytest.mark.compiler
def test_a_type_whose_name_doubles_costs_its_own_exercise_alone():
    """The compiler's message has ten megabytes, more than a whole answer may."""
    bomb = f"k = lab.cuda.compile({DOUBLES!r}, 'k')\ndef vector_add(x, y, out):\n    k[1, 32](x)\n"
    right = f"r = lab.cuda.compile({ROW_SCALE!r}, 'k')\ndef row_scale(x, scale, out):\n"
    right += "    r[1, 256](x, scale, out, *x.shape)\n"
    ids = ["07_elementwise_cuda/vector_add", "07_elementwise_cuda/row_scale"]
    refused, kept = judged(bomb, right, ids=ids, time_limit=10.0).values()
    assert refused.headline.kind == "does-not-compile" and "P<P<P<" in refused.headline.symptom
    assert len(refused.headline.symptom) < 5000 and all(r.passed for r in kept.results) and kept.results


def test_a_compiler_that_comes_to_no_end_refuses(monkeypatch):
    """The kernel may be right in an interpreter: no GPU could run it."""
    from grader.judge import compilers
    from grader.judge.sandbox import Died

    class Dead:
        def answers(self, job):
            raise Died("it took longer than 75 s")
            yield

    (problem,) = compilers.checked(Dead(), [{"kernel": "k"}], (80,))
    assert problem.kind == "does-not-compile" and "came to no end with this kernel: it took longer" in problem.message


STRANGE = [
    None, True, 0, -1, 1.5, float("nan"), float("inf"), 10**300, 10**4000, "", "1", "\x00", [], {}, (), set(), [1, "x"],
    {"a": 1}, {1: None}, [[[]]], {frozenset()}, object(), lambda: 0, b"1", 1j, range(3),
]  # fmt: skip


PLAINS = sorted(k for k, e in exercises.all_exercises().items() if isinstance(e, PlainExercise))


@pytest.mark.parametrize("name", PLAINS)
def test_no_answer_stops_the_comparison(name):
    from grader.judge.wire import compared
    from labutils.spec.verdict import CaseResult, Verdict

    task = exercises.get(name)
    for value in STRANGE:
        verdict = Verdict(task.id, "plain Python", points=task.points.total)
        verdict.results = [CaseResult(c.name, compared(task, c, value)) for c in task.cases]
        verdict.results = [r for r in verdict.results if r.diagnosis] or verdict.results
        assert conclude(task, verdict).text()


FORGED = [
    "null", "5", "[]", '"x"', "{}", "{", '{"task": 5, "case": 0}', '{"task": "nobody", "case": 0}',
    '{"task": "T", "case": "0"}', '{"task": "T", "case": true}', '{"task": "T", "case": NaN}',
    '{"task": "T", "case": Infinity}', '{"task": "T", "case": 0, "ended": "accepted"}',
    '{"task": "T", "case": 0, "ended": 5}', '{"task": "T", "case": 0, "problem": "x"}',
    '{"task": "T", "case": 0, "problem": {}}', '{"task": "T", "case": 0, "problem": {"kind": [], "message": {}}}',
    '{"task": "T", "case": 0, "missing": true, "cells": 5}', '{"task": "T", "case": 0, "missing": 1, "cells": [5, {}]}',
    '{"task": "T", "case": 0, "signature": {}}', '{"task": "T", "case": 0, "printed": 5}',
    '{"task": "T", "case": 0, "steps": 5}', '{"task": "T", "case": 0, "answer": 5}',
    '{"task": "T", "case": 0, "answer": {"value": {"set": [{"list": []}]}}}',
    '{"task": "T", "case": 0, "answer": {"value": ' + "9" * 5000 + "}}",
    '{"task": "T", "case": 0, "answer": {"type": "os; x"}}', '{"task": "T", "case": -1}', '{"task": "T", "case": 99}',
    '{"task": "T", "case": 0, "ended": "died: \\ud800\\u001b[2J"}', "[" * 100_000, "\udcff",
]  # fmt: skip


@pytest.mark.parametrize("task", [ADD, PLAIN])
@pytest.mark.parametrize("line", FORGED, ids=range(len(FORGED)))
def test_no_line_from_the_sandbox_stops_the_judge(task, line, monkeypatch):
    """What a submission can write in place of an answer."""
    text = line.replace('"T"', f'"{task}"').encode(errors="surrogateescape")

    class Says:
        def __init__(self, *_):
            pass

        def answers(self, job):
            yield text

        def close(self):
            pass

    judge = Judge(3, hidden=0, on_gpu=False)
    asked = judge._with_runs(judge._task(exercises.get(task)))
    answers = judge.answers([asked], Submission(()), Says())
    if asked.is_kernel:
        planned = judge._planned(asked, answers)
        assert planned.refusal or not any(hasattr(p, "steps") for p in planned.plans)
    else:
        verdict = conclude(asked.exercise, judge._plain_verdict(asked, answers))
        assert not verdict.passed and "\x1b" not in verdict.text()
