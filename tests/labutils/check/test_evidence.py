"""What caused a failure: hypotheses that give the learner's output, influence, recorded accesses, changed kernels."""

import importlib
import inspect
import re
import time
from dataclasses import replace
from types import SimpleNamespace

import pytest

from labutils.backends import Outcome, extract
from labutils.check import edits, evidence, hypotheses, influence, repairs
from labutils.check.compare import Comparison
from labutils.exercises import get
from labutils.spec.exercise import Case, Contract, array, out
from labutils.spec.inputs import make_run
from labutils.spec.verdict import CaseResult, Diagnosis
from tests.labutils.check.small_exercises import MATMUL, ROW_SUM, SCALE, small

triton = pytest.importorskip("triton")
import torch  # noqa: E402
import triton.language as tl  # noqa: E402

evaluate = importlib.import_module("labutils.check.evaluate").evaluate

BIAS = small(
    "bias",
    "bias",
    arguments={"x": array("M", "N"), "bias": array("N"), "out": out("M", "N")},
    reference=lambda x, bias: x + bias,
    magnitude=lambda x, bias: x.abs() + bias.abs(),
    contract=Contract(terms=1),
    cases=(Case("4 × 6", {"M": 4, "N": 6}), Case("6 × 20", {"M": 6, "N": 20})),
)


def gate(u):
    return u * torch.sigmoid(u)


def cubic(x):
    u = x + 0.5 * x**3
    return u * torch.sigmoid(u)


CUBIC = small(
    "cubic",
    "cubic",
    arguments={"x": array("n"), "out": out("n")},
    reference=cubic,
    magnitude=lambda x: 1 + x.abs(),
    contract=Contract(terms=4),
    cases=(Case("n = 100", {"n": 100}), Case("n = 300", {"n": 300})),
)
WINDOW = get("09_debugging/fix_window")

# --- hypotheses: outputs made by hand ------------------------------------------------------------------------------


def along(a, b, source, both=False):
    """A product in which a, or both, is read at other places along K."""
    places = source(torch.arange(len(b)))
    return (a.float()[:, places] @ (b[places] if both else b).float()).to(a.dtype)


def samples(exercise, wrong):
    found = []
    for case in exercise.cases[:2]:
        run = make_run(exercise, case, 5)
        (name,) = exercise.outputs
        run.buffers[name].view.copy_(wrong(**run.inputs()))
        comparison = Comparison(run)
        found.append((comparison, comparison.output(name)))
    return found


@pytest.mark.parametrize(
    "exercise, wrong, cause",
    [
        (BIAS, lambda x, bias: x, "bias has no effect"),
        (BIAS, lambda x, bias: x - bias, "it uses −bias"),
        (BIAS, lambda x, bias: x[:1].expand_as(x) + bias, "x[0, n] is used for every m"),
        (BIAS, lambda x, bias: x + torch.roll(bias, -1), "uses bias[n + 1] where it should use bias[n]"),
        (BIAS, lambda x, bias: 2 * (x + bias), "2 times the right result"),
        (BIAS, lambda x, bias: x + bias + 3, "the right result + 3"),
        (BIAS, lambda x, bias: (x + bias) ** 2, "the square of the right result"),
        (BIAS, lambda x, bias: (x + bias) / x.abs().sum(1, True), "each row of {name} is the right one times a factor"),
        (BIAS, lambda x, bias: torch.zeros_like(x), "every element of {name} is 0"),
        (BIAS, lambda x, bias: x + bias.trunc(), "bias is cut to whole numbers"),
        (BIAS, lambda x, bias: x * bias, "has · in place of +"),
        (WINDOW, lambda x: WINDOW.reference(x, ends=(float(x[0]), 0.0)), "beyond the beginning of n, the nearest"),
        (CUBIC, lambda x: gate(x), "the term `0.5 * x ** 3` is left out of `x + 0.5 * x ** 3`"),
        (CUBIC, lambda x: gate(x + 0.5 * x**2), "`x ** 3` has 2 in place of 3"),
        (CUBIC, lambda x: x + 0.5 * x**3, "the factor `sigmoid(x + 0.5 * x ** 3)` is left out of the formula"),
        (ROW_SUM, lambda x: x[:, :-1].sum(1), "the last element along N is missing"),
        (ROW_SUM, lambda x: x[:, :32].sum(1), "only the first 32 elements along N count"),
        (MATMUL, lambda a, b: torch.relu(a @ b), "negative values set to 0"),
        (MATMUL, lambda a, b: along(a, b, lambda k: k % 8, both=True), "the first 8 elements along K count again"),
        (MATMUL, lambda a, b: along(a, b, lambda k: k - k % 16 + k % 8), "the first 8 of every 16 elements of a along"),
        (
            MATMUL,
            lambda a, b: along(a, b, lambda k: k - k % 4 + torch.tensor([0, 2, 1, 3])[k % 4]),
            "elements 1 and 2 of every 4 along K are exchanged in a or b",
        ),
    ],
)
def test_hypotheses_that_fit_are_named(exercise, wrong, cause):
    assert cause in hypotheses.find(samples(exercise, wrong), 60.0).cause


@pytest.mark.parametrize("wrong", [lambda x, bias: x, lambda x, bias: x[:1].expand_as(x) + bias])
def test_a_hypothesis_must_leave_right_what_passed(wrong):
    refused, passed = samples(BIAS, wrong), samples(BIAS, lambda x, bias: x + bias)
    assert hypotheses.find(refused[:1], 60.0) is not None
    assert hypotheses.find(refused[:1], 60.0, right=passed[1:]) is None


def test_noise_fits_no_hypothesis():
    assert hypotheses.find(samples(BIAS, lambda x, bias: torch.rand_like(x)), 60.0) is None


# --- influence -----------------------------------------------------------------------------------------------------


@triton.jit
def bias_kernel(x_ptr, b_ptr, out_ptr, N, sxm, som, what: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    offs = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * sxm + offs, mask=offs < N)
    if what == "by row":
        b = tl.load(b_ptr + row)
    elif what == "far":
        b = tl.load(b_ptr + offs, mask=offs < N) + tl.load(x_ptr)
    else:
        b = tl.load(b_ptr + offs, mask=offs < N)
    tl.store(out_ptr + row * som + offs, x + b, mask=offs < N)


def adding(what):
    def bias(x, bias, out):
        bias_kernel[(x.shape[0],)](x, bias, out, x.shape[1], x.stride(0), out.stride(0), what, 32)

    return bias


@pytest.mark.parametrize(
    "what, case, cause",
    [
        ("by row", 0, "out[0, 1] depends on bias[0]; it should depend on bias[1]"),
        ("far", 0, "out[0, 1] depends on x[0, 0] too, which belongs to other results"),
        ("by row", 1, "out[0, 1] depends on bias[0]; it should depend on bias[1]"),
        ("right", 0, None),
    ],
)
def test_influence_names_both_elements(what, case, cause):
    exercise_case = BIAS.cases[case]
    study = influence.study(BIAS, adding(what), exercise_case, 5, 60.0)
    everywhere = torch.ones(exercise_case.sizes["M"], exercise_case.sizes["N"], dtype=torch.bool)
    everywhere[:, 0] = False
    story = influence.story("out", study.moves["out"], everywhere, study)
    assert (story and story.cause.split(" (and")[0]) == cause


# --- the message of a check ----------------------------------------------------------------------------------------


@triton.jit
def same_place_kernel(x_ptr, factor, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    tl.store(out_ptr + offs, tl.load(x_ptr + offs, mask=offs < n) * factor, mask=offs < n)


def same_place(x, factor, out):
    same_place_kernel[(triton.cdiv(x.numel(), 256),)](x, factor, out, x.numel(), 256)


@triton.jit
def wide_mask_kernel(x_ptr, factor, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs <= n
    x = tl.load(x_ptr + offs, mask=mask)
    tl.store(out_ptr + offs, x * factor, mask=offs < n)


def wide_mask(x, factor, out):
    wide_mask_kernel[(triton.cdiv(x.numel(), 256),)](x, factor, out, x.numel(), 256)


@triton.jit
def slip_kernel(x_ptr, factor, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n)
    tl.store(out_ptr + offs, x * (factor + 3), mask=offs < n)


def slip(x, factor, out):
    slip_kernel[(triton.cdiv(x.numel(), 256),)](x, factor, out, x.numel(), 256)


@triton.jit
def two_places_kernel(x_ptr, factor, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n)
    tl.store(out_ptr + offs, x * (factor * 2.0 * 1.0), mask=offs < n)


def two_places(x, factor, out):
    two_places_kernel[(triton.cdiv(x.numel(), 256),)](x, factor, out, x.numel(), 256)


@triton.jit
def halves_kernel(x_ptr, factor, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n)
    tl.store(out_ptr + offs, tl.where(n > 2000, x, x * factor), mask=offs < n)


def copied_if_large(x, factor, out):
    halves_kernel[(triton.cdiv(x.numel(), 256),)](x, factor, out, x.numel(), 256)


@triton.jit
def into_the_input_kernel(x_ptr, factor, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n)
    tl.store(x_ptr + offs, x * factor, mask=offs < n)


def into_the_input(x, factor, out):
    into_the_input_kernel[(triton.cdiv(x.numel(), 256),)](x, factor, out, x.numel(), 256)


@triton.jit
def of_whole_numbers_kernel(x_ptr, factor, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n)
    s = tl.sigmoid(offs)
    tl.store(out_ptr + offs, x * s, mask=offs < n)


def of_whole_numbers(x, factor, out):
    of_whole_numbers_kernel[(triton.cdiv(x.numel(), 256),)](x, factor, out, x.numel(), 256)


def explained(fn):
    return evaluate(SCALE, fn, explain=True).headline


def test_a_store_to_an_input_has_a_place():
    found = explained(into_the_input)
    assert found.kind == "input-overwritten" and "first at the pointer" in found.advice
    assert "`tl.store(x_ptr + offs" in found.symptom and found.symptom.endswith("makes the kernel right")


def test_an_exception_inside_of_a_called_function_names_the_kernels_line_and_what_is_unused():
    found = explained(of_whole_numbers)
    assert found.kind in ("error", "does-not-compile") and "`s = tl.sigmoid(offs)`" in found.symptom
    assert "Used nowhere: the parameter `factor`. Where does it belong?" in found.advice


PARTS = [
    extract.Part("def first(M, GROUP):\n    rows = M\n    return rows\n", line=1),
    extract.Part("def kernel(M):\n    pid = first(M, 8)\n    offs = pid * 4\n    x = 5\n    print(offs)\n", line=10),
]


def test_lines_that_compute_what_a_named_line_uses_are_near_to_it():
    distances = repairs._distances(PARTS, {14})
    assert distances == {(1, 14): 0, (1, 12): 1, (1, 11): 2, (0, 2): 3, (0, 3): 3}


def test_programs_that_store_to_the_same_elements():
    found = explained(same_place)
    assert found.kind == "first-block-only"
    assert "program 0 and program 1 both store to out[:256]" in found.symptom
    assert "tl.program_id(0)" in found.advice and "offs = tl.arange(0, BLOCK)" in found.advice


def test_a_mask_that_is_there_but_too_wide():
    found = explained(wide_mask)
    assert found.kind == "tail-unmasked" and "the mask lets that lane through" in found.symptom
    assert "`mask` (line" in found.advice and "has `<=`" in found.advice


def test_a_known_mistake_must_leave_right_what_passed():
    """In one case `out` is a copy of `x`, the known mistake, but in another the factor counts."""
    found = explained(copied_if_large)
    assert found.kind == "wrong-formula" and "is a copy of x" not in found.symptom
    assert "2048 of 2049 elements of out are wrong" in found.symptom or "line" in found.symptom
    assert "or more fail" not in found.symptom, "two cases that passed and one that failed may be a coincidence"


def test_the_place_of_a_slip_is_named_and_not_the_change():
    first, *rest = (make_run(SCALE, case, 5) for case in SCALE.cases)
    place = repairs.find(slip, [first], rest, set(), 60.0)
    assert (place.text, place.what) == ("factor + 3", "the term (one may be too many)")
    assert place.statement in inspect.getsource(slip_kernel.fn)
    assert "`factor + 3`" in place.evidence("").advice and f"line {place.line}" in place.evidence("").cause


def test_where_two_parts_of_a_line_could_be_changed_the_line_alone_is_named():
    first, *rest = (make_run(SCALE, case, 5) for case in SCALE.cases)
    place = repairs.find(two_places, [first], rest, set(), 60.0)
    assert (place.text, place.what) == (place.statement, "each part")


def test_a_change_must_be_right_in_all_cases():
    """Of zeros any change is right, so the other case decides."""
    zeros, other = (make_run(SCALE, case, 5) for case in SCALE.cases[:2])
    zeros.buffers["x"].view.zero_()
    zeros.buffers["x"].before = zeros.buffers["x"].storage.clone()
    place = repairs.find(slip, [zeros], [other], set(), 60.0)
    assert (place.text, place.what) == ("factor + 3", "the term (one may be too many)")


def test_a_sign_belongs_to_what_is_shown():
    text = '@triton.jit\ndef k(p):\n    x = tl.load(p, mask=m, other=-float("inf"))\n    y = -x - float("inf")\n'
    parts = [SimpleNamespace(text=text, line=1)]
    wanted = {'-float("inf")': "the neutral value of masked lanes", 'float("inf")': "the initial value"}
    changes = [c for c in edits.changes(text) if c.what == "the initial value" and c.new == "0.0"]
    assert {p.text: p.what for p in (repairs._place(parts, 0, c) for c in changes)} == wanted


def test_the_time_for_a_cause_is_one_for_all_steps():
    clock = evidence.Clock(time.monotonic() + 9)
    assert 2.5 < clock.left(1 / 3) <= 3 and clock.left() > 8
    assert evidence.Clock(time.monotonic() - 1).left() == evidence.BRIEF


def test_the_reference_is_computed_in_one_thread():
    before, seen = torch.get_num_threads(), []

    def reference(x, factor):
        seen.append(torch.get_num_threads())
        return SCALE.reference(x, factor)

    torch.set_num_threads(2)
    try:
        assert not evaluate(replace(SCALE, reference=reference), slip).passed
        assert set(seen) == {1} and torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_only_a_failed_check_looks_for_causes(monkeypatch):
    monkeypatch.setattr(evidence, "refine", None)
    assert evaluate(BIAS, adding("right"), explain=True).passed


# --- what one case among others shows -----------------------------------------------------------------------------


def tried(exercise, case, wrong, diagnosis=None):
    run = make_run(exercise, exercise.cases[case], 5)
    (name,) = exercise.outputs
    run.buffers[name].view.copy_(wrong(**run.inputs()))
    return evidence.Tried(run, None, CaseResult(run.case.name, diagnosis=diagnosis))


OPEN = Diagnosis("wrong-values", "3 of 9 elements of c are wrong", "Begin with the tiny case.")
LAST = Diagnosis("missing-accumulation", "c holds only the last 16 terms of each sum", "", guess=True)
OTHER = Diagnosis("transposed", "a is read with its rows and columns swapped", "", guess=True)


@pytest.mark.parametrize(
    "found, guesses, said",
    [
        (OPEN, [LAST], True),
        (OPEN, [LAST, OTHER], False),  # two that contradict each other
        (OPEN, [OTHER], False),  # no mistake of the exercise's own, in one case
        (replace(OPEN, symptom="c is 2 times the right result"), [LAST], False),  # the cause is known
    ],
)
def test_a_known_mistake_of_another_case_is_a_place_to_begin(found, guesses, said):
    cases = [tried(MATMUL, k + 1, lambda a, b: 0 * (a @ b), guess) for k, guess in enumerate(guesses)]
    refined = evidence._with_guess(found, OPEN, cases)
    assert (f'Begin in the case "{MATMUL.cases[1].name}": there c holds only' in refined.advice) == said
    assert said or refined == found


def looping(y, n): ...


@pytest.mark.parametrize("ends", [False, True])
def test_a_loop_that_ran_out_of_time_may_be_slow_if_other_cases_ended(ends, monkeypatch):
    late = "block 0, thread 0 had not come to an end when the time limit was reached (line 3)"
    found = Diagnosis("timeout", late, "Look.")
    text = "__global__ void k(float* y, int n) {\n  while (true) {\n    if (y[0] > n) break;\n  }\n}"
    monkeypatch.setattr(evidence.names, "texts", lambda fn: [(1, text)])
    others = [tried(MATMUL, 2, lambda a, b: a @ b)] if ends else []
    done = [replace(t, outcome=Outcome(None, launches=1)) for t in others]
    said = evidence._threads(looping, found, None, done).symptom
    assert "which only line 3: `if (y[0] > n) break;` can end" in said
    assert ("other cases came to an end, so the kernel may be slow, not endless" in said) == ends


@pytest.mark.parametrize("passes, said", [(lambda a, b: a @ b, False), (lambda a, b: 0 * (a @ b), True)])
def test_unless_a_case_that_passed_refutes_it(passes, said):
    cases = [tried(MATMUL, 1, lambda a, b: 0 * (a @ b), LAST), tried(MATMUL, 2, passes, None if not said else OPEN)]
    assert ("Begin in the case" in evidence._with_guess(OPEN, OPEN, cases).advice) == said


@triton.jit
def coarse_dot_kernel(x_ptr, factor, out_ptr, n, BLOCK: tl.constexpr):
    acc = tl.dot(x_ptr, out_ptr)  # noqa: F841


@triton.jit
def exact_dot_kernel(x_ptr, factor, out_ptr, n, BLOCK: tl.constexpr):
    acc = tl.dot(x_ptr, out_ptr, input_precision="ieee")  # noqa: F841


@triton.jit
def halving_kernel(x_ptr, factor, out_ptr, n, BLOCK: tl.constexpr):
    x = x_ptr.to(tl.float16)  # noqa: F841


def halves(x, factor, out):
    halving_kernel[(1,)](x, factor, out, 1, BLOCK=16)


def coarse_dot(x, factor, out):
    coarse_dot_kernel[(1,)](x, factor, out, 1, BLOCK=16)


def exact_dot(x, factor, out):
    exact_dot_kernel[(1,)](x, factor, out, 1, BLOCK=16)


@pytest.mark.parametrize(
    "fn, dtype, advice",
    [
        (
            coarse_dot,
            "float32",
            r'tl\.dot rounds fp32 operands to TF32 \(10 bits\) unless .*"ieee": line \d+: `acc = tl',
        ),
        (exact_dot, "float32", "no conversion is missing. Look for a difference of nearly equal numbers"),
        (halves, "float32", "a type of 16 bits is named on line"),
        (coarse_dot, "float16", "^Convert$"),
    ],
)
def test_where_fp32_arrays_lose_precision(fn, dtype, advice):
    run = make_run(MATMUL, replace(MATMUL.cases[0], dtype=dtype), 5)
    refused = [evidence.Tried(run, None, CaseResult(run.case.name))]
    found = evidence._coarse(fn, Diagnosis("precision", "coarse", "Convert"), refused)
    assert re.search(advice, found.advice), found.advice


def test_a_place_without_a_text_shows_its_statement():
    assert "first at where it is set, `total = 0`." in repairs.Place("where it is set", "", 3, "total = 0").look
