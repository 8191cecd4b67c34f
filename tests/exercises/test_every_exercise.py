"""The exercises themselves: references against independent ones, and tolerances that let every honest way pass."""

import math
import random

import pytest
import torch

from labutils import exercises
from labutils.check.compare import magnitude, mismatches
from labutils.spec.exercise import Array, KernelExercise, PlainExercise, named
from labutils.spec.inputs import hidden_cases, make_run

KERNELS = {i: e for i, e in exercises.all_exercises().items() if isinstance(e, KernelExercise)}
ROOT, CUBIC = math.sqrt(2 / math.pi), 0.044715


def refused(exercise, case, compute, seed=3):
    """Elements of each output that the check would refuse if a kernel computed this from its stored inputs."""
    run = make_run(exercise, case, seed)
    inputs = run.inputs()
    stored = {n: run.buffers[n].view if n in run.buffers else v for n, v in inputs.items()}
    expected = exercise.expected(inputs)
    scale = magnitude(exercise, inputs, expected)
    found = {}
    for name, got in named(compute(**stored), tuple(exercise.outputs)).items():
        y, dtype = expected[name], run.buffers[name].view.dtype
        limit = exercise.contract.tolerance(y, scale[name], case.sizes, exercise.dtype(case, name))
        limit = torch.zeros_like(y) if case.exact else limit
        found[name] = mismatches(got.to(dtype).double(), y, limit, y.to(dtype).double())
    return found


def count_refused(exercise, case, compute):
    return sum(int(bad.sum()) for bad in refused(exercise, case, compute).values())


def unit06(name):
    return KERNELS[f"06_elementwise_triton/{name}"]


def sample(n=4001, dtype=torch.float64):
    return torch.linspace(-12, 12, n, dtype=dtype)


def test_gelu_is_pytorchs_tanh_form():
    x = sample()
    torch.testing.assert_close(
        unit06("gelu").reference(x), torch.nn.functional.gelu(x, approximate="tanh"), rtol=1e-12, atol=1e-14
    )


def test_gelu_backward_is_the_derivative():
    x, dy = sample().requires_grad_(), torch.randn(4001, dtype=torch.float64)
    torch.nn.functional.gelu(x, approximate="tanh").backward(dy)
    torch.testing.assert_close(unit06("gelu_backward").reference(x.detach(), dy), x.grad, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("exercise", [e for e in KERNELS.values() if e.library], ids=lambda e: e.id)
def test_the_library_computes_the_same(exercise):
    if "dropout" in exercise.name:
        pytest.skip("the library draws another mask")
    inputs = make_run(exercise, exercise.cases[3], 5).inputs()
    found = exercise.library(**inputs)
    found = found if isinstance(found, tuple) else (found,)  # a library may leave out what only a backward pass needs
    for (_, y), library in zip(exercise.expected(inputs).items(), found, strict=False):
        exact = library.dtype == torch.float64
        library = library.reshape(y.shape).double()
        torch.testing.assert_close(library, y, rtol=1e-9 if exact else 1e-4, atol=1e-12 if exact else 1e-4)


# --- honest ways ---------------------------------------------------------------------------------------------------


def exact(v):
    return v


def sloppy(v):
    """As a GPU's fast exp and division: off by up to 2 units in the last place, exact for 0, inf and powers of two."""
    g = torch.Generator().manual_seed(v.numel())
    unit = torch.nextafter(v.abs(), torch.tensor(math.inf)) - v.abs()
    off = v + torch.nan_to_num(unit) * (torch.rand(v.shape, generator=g) * 4 - 2)
    return torch.where((v == 0) | v.isinf() | (torch.frexp(v).mantissa.abs() == 0.5), v, off)


def argument(x):
    return ROOT * (x + CUBIC * x * x * x)


TANH = {
    "library": lambda a, f: f(torch.tanh(a)),
    "sigmoid": lambda a, f: 2 * f(1 / (1 + f(torch.exp(-2 * a)))) - 1,
    "one exp": lambda a, f: 1 - f(2 / (f(torch.exp(2 * a)) + 1)),
    "absolute value": lambda a, f: torch.copysign(f((1 - (e := f(torch.exp(-2 * a.abs())))) / (1 + e)), a),
}

GELU = {
    **{n: lambda x, f, t=t: 0.5 * x * (1 + t(argument(x), f)) for n, t in TANH.items()},
    "factored": lambda x, f: f(x / (1 + f(torch.exp2(x * (-2.302208198 - 0.1029432397 * x * x))))),
    "x sigmoid": lambda x, f: x * f(1 / (1 + f(torch.exp(-2 * argument(x))))),
}


def product_rule(t, slope, x, dy):
    return dy * (0.5 * (1 + t) + 0.5 * x * (1 - t * t) * slope)


def slope(x):
    return ROOT * (1 + 3 * CUBIC * x * x)


def sigmoid_rule(x, dy, f):
    s = f(1 / (1 + f(torch.exp(-2 * argument(x)))))
    return dy * (s + 2 * x * s * (1 - s) * slope(x))


BACKWARD = {
    **{n: lambda x, dy, f, t=t: product_rule(t(argument(x), f), slope(x), x, dy) for n, t in TANH.items()},
    "s (1 - s)": sigmoid_rule,
}


def all_cases(exercise):
    return [*exercise.cases, *hidden_cases(exercise, 11, 6)]


def in_fp32(compute, finish):
    def run(**stored):
        return compute(*(v.float() if isinstance(v, torch.Tensor) else v for v in stored.values()), finish)

    return run


HONEST = {
    "gelu": GELU,
    "gelu_backward": BACKWARD,
    "bias_scale": {
        "as written": lambda x, b, s, f: (x + b) * s,
        "multiplied out": lambda x, b, s, f: x * s + b * s,
        "fused": lambda x, b, s, f: torch.addcmul(b * s, x, s),
    },
    "vector_add": {"as written": lambda x, y, f: x + y, "turned round": lambda x, y, f: y + x},
}


@pytest.mark.parametrize("finish", [exact, sloppy])
@pytest.mark.parametrize("name, form", [(n, form) for n, forms in HONEST.items() for form in forms])
def test_every_honest_form_in_fp32_is_within_tolerance(name, form, finish):
    exercise = unit06(name)
    for case in all_cases(exercise):
        assert count_refused(exercise, case, in_fp32(HONEST[name][form], finish)) == 0, case.name


@pytest.mark.parametrize("name", ["gelu", "gelu_backward"])
def test_a_dense_sweep_where_tanh_saturates_is_within_tolerance(name):
    exercise = unit06(name)
    x = torch.cat([torch.linspace(-9, 9, 400_001), torch.linspace(-1e4, 1e4, 20_001)])
    inputs = {"x": x, "dy": torch.full_like(x, 3.0)} if name == "gelu_backward" else {"x": x}
    doubles = {n: v.double() for n, v in inputs.items()}
    y = exercise.reference(**doubles)
    limit = exercise.contract.tolerance(y, exercise.magnitude(**doubles), {"n": x.numel()}, "float32")
    for form, compute in HONEST[name].items():
        for finish in (exact, sloppy):  # with room: an optimiser may round in other places
            worst = 1.3 * ((compute(*inputs.values(), finish).double() - y).abs() / limit).max()
            assert worst <= 1, (form, finish.__name__, float(worst))


# --- what must not pass --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("exercise", KERNELS.values(), ids=lambda e: e.id)
def test_zeros_and_copies_are_refused_in_every_case_of_some_size(exercise):
    for case in exercise.cases:
        run = make_run(exercise, case, 3)
        expected = exercise.expected(run.inputs())
        if math.prod(case.sizes.values()) < 3 or any((y == 0).double().mean() > 0.5 for y in expected.values()):
            continue
        zeros = refused(
            exercise, case, lambda run=run, **_: {n: torch.zeros_like(b.view) for n, b in run.outputs.items()}
        )
        assert all(bad.any() for bad in zeros.values()), case.name


@pytest.mark.parametrize("exercise", KERNELS.values(), ids=lambda e: e.id)
def test_every_known_mistake_is_refused_in_some_case(exercise):
    for mistake in exercise.known_mistakes:

        def wrong(compute=mistake.compute, **stored):
            doubles = {n: v.double() if isinstance(v, torch.Tensor) else v for n, v in stored.items()}
            return named(compute(**doubles), tuple(exercise.outputs))

        assert any(count_refused(exercise, case, wrong) for case in exercise.cases), mistake.sentence


@pytest.mark.parametrize("name", ["gelu", "gelu_backward"])
def test_the_schoolbook_tanh_overflows_in_a_public_case(name):
    exercise = unit06(name)

    def schoolbook(a, f):
        e = torch.exp(2 * a)
        return (e - 1) / (e + 1)

    def wrong(x, dy=None):
        x = x.float()
        t = schoolbook(argument(x), exact)
        return 0.5 * x * (1 + t) if dy is None else product_rule(t, slope(x), x, dy.float())

    counts = {case.name: count_refused(exercise, case, wrong) for case in exercise.cases}
    assert counts["n = 3000, values up to ten thousand"] > 1000
    assert counts["two elements"] == 0


def test_fp16_arithmetic_shows_only_in_fp16_cases():
    exercise = unit06("bias_scale")

    def in_stored_type(x, bias, scale):
        return (x + bias) * scale

    for case in exercise.cases:
        assert bool(count_refused(exercise, case, in_stored_type)) == (case.dtype == "float16"), case.name


# --- every exercise ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("exercise", KERNELS.values(), ids=lambda e: e.id)
def test_cases_hold_what_every_exercise_needs(exercise):
    dims = {d for a in exercise.arguments.values() if isinstance(a, Array) for d in a.dims}
    if exercise.unit[:2] < "17":  # heads of attention have a least width
        smallest = 1 if exercise.unit[:2] < "12" else 64  # a split has at least two parts
        assert min(math.prod(c.sizes[d] for d in dims) for c in exercise.cases) <= smallest, "no small case"
    assert any(c.layout != "contiguous" for c in exercise.cases), "every case is contiguous and aligned"
    hidden = hidden_cases(exercise, 1, 5)
    # gradients are checked at one kind of point in public: what else there is, hidden cases draw
    seen = exercise.cases if exercise.unit[:2] != "18" else [*exercise.cases, *hidden]
    assert len({c.fill for c in seen}) >= 3, "too few kinds of values"
    assert "position" in {c.fill for c in seen}, "no values that say where they came from"
    assert exercise.bench and exercise.magnitude, "sizes to time and an error model"
    assert len(hidden) == 5 and "wide" in {c.fill for c in hidden}


@pytest.mark.parametrize(
    "exercise", [e for e in exercises.all_exercises().values() if isinstance(e, PlainExercise)], ids=lambda e: e.id
)
def test_plain_exercises_explain_no_right_answer(exercise):
    rng = random.Random(0)
    sizes = [c.sizes for c in exercise.cases] + [exercise.draw(rng) for _ in range(50) if exercise.draw]
    assert {tuple(s) for s in sizes} == {tuple(exercise.cases[0].sizes)}
    assert exercise.examine or all(math.isfinite(exercise.reference(**s)) for s in sizes)


@pytest.mark.parametrize(
    "n, block, programs", [(1, 4, 1), (4, 4, 1), (5, 4, 2), (0, 4, 0), (98_432, 1024, 97), (2**40 + 1, 128, 2**33 + 1)]
)
def test_number_of_programs(n, block, programs):
    assert exercises.get("00_start/number_of_programs").reference(n, block) == programs


@pytest.mark.parametrize(
    "yours, word", [(2, "rounds down"), (2.44140625, "integer"), (2500, "one program per element")]
)
def test_wrong_numbers_of_programs_are_explained(yours, word):
    exercise = exercises.get("00_start/number_of_programs")
    assert word in exercise.explain({"n": 2500, "block": 1024}, yours, 3)


@pytest.mark.parametrize("yours, word", [(3000, "elements"), (4000, "two of three"), (12_000, "fp32 only")])
def test_wrong_bytes_are_explained(yours, word):
    exercise = exercises.get("06_elementwise_triton/add_bytes")
    assert word in exercise.explain({"n": 1000, "itemsize": 2}, yours, 6000)


@pytest.mark.parametrize("exercise", KERNELS.values(), ids=lambda e: e.id)
def test_references_stay_where_their_inputs_are(exercise):
    """A benchmark compares on the GPU. Here what a reference makes without saying where has no data, and cannot mix."""
    inputs = make_run(exercise, exercise.tiny, 3).inputs()
    with torch.device("meta"):
        expected = exercise.expected(inputs)
        found = [*expected.values(), *magnitude(exercise, inputs, expected).values()]
    assert {x.device.type for x in found} == {"cpu"}
