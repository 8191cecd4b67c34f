"""The error model: an honest result passes whatever the draw, a result of lower precision or of zeros does not."""

import pytest
import torch

from labutils.check.compare import Comparison, mismatches
from labutils.spec.exercise import Case, Contract, Cost, KernelExercise, Points, array, out
from labutils.spec.inputs import make_run
from labutils.spec.precision import ROUND_OFF

F16 = Contract(dtype="float16", terms=lambda s: s["K"])


def exercise(case, arguments, reference, contract, magnitude=None):
    return KernelExercise(
        id="99_test/any",
        title="Any",
        entry="any",
        points=Points(correct=1),
        arguments=arguments,
        reference=reference,
        magnitude=magnitude,
        contract=contract,
        cost=lambda sizes, item: Cost(item, item, 1),
        cases=(case,),
        draw=lambda rng: {},
        tiny=case,
    )


def matmul(contract, K=4096, M=48, N=32, **case):
    case = Case("gemm", {"M": M, "N": N, "K": K}, **case)
    arguments = {"a": array("M", "K"), "b": array("K", "N"), "c": out("M", "N")}
    return exercise(case, arguments, lambda a, b: a @ b, contract, lambda a, b: a.abs() @ b.abs())


def softmax(M, N):
    arguments = {"x": array("M", "N"), "out": out("M", "N")}
    contract = Contract(terms=lambda s: s["N"] + 8)
    return exercise(Case("softmax", {"M": M, "N": N}), arguments, lambda x: torch.softmax(x, -1), contract)


def refused(ex, compute, seed=1):
    """How many elements of `compute`'s result are refused, and the error in units of the tolerance."""
    run = make_run(ex, ex.cases[0], seed)
    (name,) = ex.outputs
    run.buffers[name].view.copy_(compute(*(b.view for b in run.buffers.values() if not b.is_output)))
    output = Comparison(run).output(name)
    return int(output.bad.sum()), output.error


@pytest.mark.parametrize("seed", range(20))
def test_honest_fp32_gemm_is_accepted(seed):
    count, error = refused(matmul(Contract(terms=lambda s: s["K"])), torch.matmul, seed)
    assert count == 0 and error < 1


def sequentially(a, b):
    """Sums in fp32 from left to right, the least accurate of the honest orders."""
    return torch.cumsum(a[:, :, None] * b[None], 1)[:, -1]


def test_any_order_of_summation_is_accepted():
    ex = matmul(Contract(terms=lambda s: s["K"]), M=8, N=8)
    assert refused(ex, sequentially)[0] == 0
    assert refused(ex, lambda a, b: sequentially(a.flip(1), b.flip(0)))[0] == 0


def in_fp16(a, b):
    acc = torch.zeros(a.shape[0], b.shape[1], dtype=torch.float16)
    for k in range(0, a.shape[1], 16):
        acc += (a[:, k : k + 16].float() @ b[k : k + 16].float()).half()
    return acc


def test_fp16_in_fp32_accumulate_is_accepted_and_fp16_accumulate_refused():
    ex = matmul(F16, fill="normal")
    assert refused(ex, lambda a, b: (a.float() @ b.float()).half())[0] == 0
    assert refused(ex, in_fp16)[0] > 100


def rounded_to(x, mantissa):
    """fp32 with that many bits of mantissa, like the operands of a tensor core."""
    step = 2 ** (23 - mantissa)
    return ((x.view(torch.int32) + step // 2) // step * step).view(torch.float32)


def test_tf32_is_accepted_where_the_contract_allows_it_only():
    def tf32(a, b):
        return rounded_to(a, 10) @ rounded_to(b, 10)

    assert refused(matmul(Contract(operands="tf32", terms=lambda s: s["K"])), tf32)[0] == 0
    assert refused(matmul(Contract(terms=lambda s: s["K"]), K=64), tf32)[0] > 0
    bf16 = lambda a, b: rounded_to(a, 7) @ rounded_to(b, 7)  # noqa: E731
    assert refused(matmul(Contract(operands="tf32", terms=lambda s: s["K"]), K=64), bf16)[0] > 0


def test_zeros_are_no_softmax():
    ex = softmax(64, 16384)
    assert refused(ex, lambda x: torch.softmax(x, -1))[0] == 0
    assert refused(ex, torch.zeros_like)[0] == 64 * 16384
    assert refused(ex, lambda x: torch.softmax(x.half(), -1).float())[0] > 0


def test_exact_cases_compare_bits():
    ex = matmul(Contract(terms=1), K=64, exact=True)
    assert refused(ex, torch.matmul) == (0, 0.0)
    assert refused(ex, lambda a, b: torch.nextafter(a @ b, torch.tensor(torch.inf)))[0] == 48 * 32


def test_poison_counts_as_unwritten_also_beside_the_right_value():
    ex = softmax(2, 3)
    run = make_run(ex, ex.cases[0], 1)
    output = Comparison(run).output("out")
    assert output.unwritten.all() and output.bad.all()
    run.buffers["out"].view[:] = run.inputs()["x"].softmax(-1)
    assert not Comparison(run).output("out").bad.any()


def test_a_short_type_may_be_written_with_the_bits_of_the_poison():
    """An honest fp16 result is right within its tolerance, not to the bit, and one in 65536 equals the poison."""
    ex = matmul(F16)
    run = make_run(ex, ex.cases[0], 1)
    view = run.buffers["c"].view
    right = (run.inputs()["a"] @ run.inputs()["b"]).half()
    view.copy_(right)
    run.buffers["c"].before.as_strided(view.shape, view.stride(), view.storage_offset())[3, 5] = view[3, 5] = (
        torch.nextafter(right[3, 5], torch.tensor(torch.inf).half())
    )
    output = Comparison(run).output("c")
    assert output.error > 0 and not output.bad.any()
    run.buffers["c"].before.as_strided(view.shape, view.stride(), view.storage_offset()).copy_(view)
    assert Comparison(run).output("c").unwritten.any()  # one by chance, not all of them


INF, NAN = float("inf"), float("nan")


@pytest.mark.parametrize(
    "got, expected, wrong",
    [(1, 1, False), (1.1, 1, True), (NAN, 1, True), (1, NAN, True), (NAN, NAN, False), (INF, INF, False)]
    + [(INF, 1, True), (-INF, INF, True), (1, INF, True), (NAN, INF, True)],
)
def test_special_values(got, expected, wrong):
    got, expected = (torch.tensor([float(v)], dtype=torch.float64) for v in (got, expected))
    limit = torch.where(torch.isfinite(expected), 1e-6, 0.0)
    assert mismatches(got, expected, limit, expected).tolist() == [wrong]


def test_overflow_of_the_stored_type_is_expected():
    ex = matmul(F16, K=16, M=2, N=2, fill="large")
    assert refused(ex, lambda a, b: (a.float() @ b.float()).half())[0] == 0


def test_without_a_magnitude_perturbations_give_one():
    """x² − y² cancels: an honest fp32 result is far off relatively, and must be accepted."""
    case = Case("difference", {"n": 4000}, "position")
    arguments = {"x": array("n"), "y": array("n"), "out": out("n")}
    ex = exercise(case, arguments, lambda x, y: x * x - y * y, Contract(terms=4))
    assert refused(ex, lambda x, y: x * x - y * y)[0] == 0
    assert refused(ex, lambda x, y: ((x * x).half() - (y * y).half()).float())[0] > 0


def test_round_offs_are_those_of_the_formats():
    for name in ("float64", "float32", "float16", "bfloat16"):
        assert ROUND_OFF[name] == torch.finfo(getattr(torch, name)).eps / 2
