"""Each kind of refusal that can occur in the interpreter is produced by a kernel that deserves it."""

from dataclasses import replace

import pytest

from labutils.backends import Outcome
from labutils.check.check import evaluate
from labutils.check.diagnose import KINDS, NEEDS_GPU, diagnosis, examine, headline
from labutils.spec.inputs import make_run
from tests.labutils.check.small_exercises import COPY, MATMUL, ROW_SUM, SCALE, SOFTMAX

triton = pytest.importorskip("triton")
import torch  # noqa: E402
import triton.language as tl  # noqa: E402

# --- softmax: one program a row ------------------------------------------------------------------------------------


@triton.jit
def softmax_kernel(
    x_ptr,
    out_ptr,
    N,
    stride_xm,
    stride_om,
    BLOCK: tl.constexpr,
    other: tl.constexpr,
    shift: tl.constexpr,
    in_place: tl.constexpr,
):
    row = tl.program_id(0)
    offs = tl.arange(0, BLOCK)
    mask = offs < N
    x = tl.load(x_ptr + row * stride_xm + offs, mask=mask, other=other)
    if shift:
        x = x - tl.max(x, axis=0)
    e = tl.exp(x)
    y = e / tl.sum(e, axis=0)
    tl.store(out_ptr + row * stride_om + offs, y, mask=mask)
    if in_place:
        tl.store(x_ptr + row * stride_xm + offs, y, mask=mask)


def softmax(x, out, other=-float("inf"), shift=True, in_place=False, stride=None):
    M, N = x.shape
    softmax_kernel[(M,)](
        x, out, N, stride or x.stride(0), out.stride(0), triton.next_power_of_2(N), other, shift, in_place
    )


def softmax_padded_lanes(x, out):
    softmax(x, out, other=0.0)


def softmax_without_max(x, out):
    softmax(x, out, shift=False)


def softmax_in_place(x, out):
    softmax(x, out, in_place=True)


def softmax_wrong_stride(x, out):
    softmax(x, out, stride=x.shape[1])


# --- row sum: rows in blocks of 16 ---------------------------------------------------------------------------------


@triton.jit
def row_sum_kernel(
    x_ptr,
    out_ptr,
    M,
    N,
    stride_xm,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    half: tl.constexpr,
    mask_m: tl.constexpr,
):
    offs_m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    total = tl.zeros((BLOCK_M,), tl.float16 if half else tl.float32)
    for start in range(0, N, BLOCK_N):
        offs_n = start + tl.arange(0, BLOCK_N)
        mask = (offs_m[:, None] < M) & (offs_n[None, :] < N)
        x = tl.load(x_ptr + offs_m[:, None] * stride_xm + offs_n[None, :], mask=mask, other=0.0)
        total += tl.sum(x.to(total.dtype), axis=1)
    if mask_m:
        tl.store(out_ptr + offs_m, total, mask=offs_m < M)
    else:
        tl.store(out_ptr + offs_m, total)


def row_sum(x, out, half=False, mask_m=True, programs=None):
    M, N = x.shape
    row_sum_kernel[(programs or triton.cdiv(M, 16),)](x, out, M, N, x.stride(0), 16, 32, half, mask_m)


def row_sum_in_fp16(x, out):
    row_sum(x, out, half=True)


def row_sum_unmasked_store(x, out):
    row_sum(x, out, mask_m=False)


def row_sum_one_block(x, out):
    row_sum(x, out, programs=1)


def row_sum_rounded_down(x, out):
    row_sum(x, out, programs=x.shape[0] // 16)


@triton.jit
def racing_sum_kernel(x_ptr, out_ptr, N, stride_xm, BLOCK_N: tl.constexpr):
    row = tl.program_id(0)
    offs = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    part = tl.sum(tl.load(x_ptr + row * stride_xm + offs, mask=offs < N, other=0.0), axis=0)
    tl.store(out_ptr + row, tl.load(out_ptr + row) + part)


def row_sum_racing(x, out):
    out.zero_()
    racing_sum_kernel[(x.shape[0], triton.cdiv(x.shape[1], 32))](x, out, x.shape[1], x.stride(0), 32)


# --- matmul --------------------------------------------------------------------------------------------------------


@triton.jit
def matmul_kernel(
    a_ptr, b_ptr, c_ptr, M, N, K, BLOCK: tl.constexpr, BLOCK_K: tl.constexpr, carry: tl.constexpr, swap: tl.constexpr
):
    offs_m = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    offs_n = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK, BLOCK), tl.float32)
    for start in tl.range(0, K, BLOCK_K):
        offs_k = start + tl.arange(0, BLOCK_K)
        a_mask = (offs_m[:, None] < M) & (offs_k[None, :] < K)
        b_mask = (offs_k[:, None] < K) & (offs_n[None, :] < N)
        a = tl.load(a_ptr + offs_m[:, None] * K + offs_k[None, :], mask=a_mask, other=0.0)
        b = tl.load(b_ptr + offs_k[:, None] * N + offs_n[None, :], mask=b_mask, other=0.0)
        acc = tl.dot(a, b, acc, input_precision="ieee") if carry else tl.dot(a, b, input_precision="ieee")
    mask = (offs_m[:, None] < M) & (offs_n[None, :] < N)
    if swap:
        tl.store(c_ptr + offs_m[:, None] + offs_n[None, :] * M, acc, mask=mask)
    else:
        tl.store(c_ptr + offs_m[:, None] * N + offs_n[None, :], acc, mask=mask)


def matmul(a, b, c, carry=True, swap=False):
    (M, K), N = a.shape, b.shape[1]
    matmul_kernel[(triton.cdiv(M, 16), triton.cdiv(N, 16))](a, b, c, M, N, K, 16, 16, carry, swap)


def matmul_without_carry(a, b, c):
    matmul(a, b, c, carry=False)


def matmul_transposed(a, b, c):
    matmul(a, b, c, swap=True)


# --- copy and scale ------------------------------------------------------------------------------------------------


@triton.jit
def copy_kernel(x_ptr, out_ptr, M, N, sxm, sxn, som, son, shift: tl.constexpr, far: tl.constexpr, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m, n = offs // N, offs % N
    mask = offs < M * N
    x = tl.load(x_ptr + m * sxm + n * sxn + shift, mask=mask & (offs + shift < M * N))
    tl.store(out_ptr + m * som + n * son + far, x, mask=mask)


def copy(x, out, strides=None, shift=0, far=0):
    (M, N), BLOCK = x.shape, 128
    copy_kernel[(triton.cdiv(M * N, BLOCK),)](
        x, out, M, N, *(strides or x.stride()), *out.stride(), shift=shift, far=far, BLOCK=BLOCK
    )


def copy_swapped_strides(x, out):
    copy(x, out, strides=x.stride()[::-1])


def copy_off_by_one(x, out):
    copy(x, out, shift=1)


def copy_far_away(x, out):
    copy(x, out, far=5000)


@triton.jit
def scale_kernel(x_ptr, factor, out_ptr, n, what: tl.constexpr, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    x = tl.load(x_ptr + offs, mask=mask)
    if what == "right":
        tl.store(out_ptr + offs, x * factor, mask=mask)
    elif what == "copy":
        tl.store(out_ptr + offs, x, mask=mask)
    elif what == "strange":
        tl.store(out_ptr + offs, x * x + factor, mask=mask)
    elif what == "half":
        tl.store(out_ptr + offs, x.to(tl.float16) * factor.to(tl.float16), mask=mask)
    elif what == "even":
        tl.store(out_ptr + offs, x * factor, mask=mask & (offs % 2 == 0))
    elif what == "overflowing":
        tl.store(out_ptr + offs, tl.exp(x * 1e4) * factor, mask=mask)
    elif what == "unwritten":
        tl.static_assert(False, "scale_kernel is not written yet")
    elif what == "strings":
        tl.store(out_ptr + offs, x * len("two") * factor, mask=mask)
        for name in ["a", "b"]:
            print(name)


def scaling(what, grid=lambda n: triton.cdiv(n, 256)):
    def scale(x, factor, out):
        scale_kernel[(grid(x.numel()),)](x, factor, out, x.numel(), what=what, BLOCK=256)

    return scale


WRONG = [
    ("unfilled", SCALE, scaling("unwritten")),
    ("missing-function", SCALE, None),
    ("signature", SCALE, lambda x: None),
    ("timeout", SCALE, lambda x, factor, out: [None for _ in iter(int, 1)]),
    ("died", SCALE, lambda x, factor, out: __import__("os")._exit(3)),
    ("error", SCALE, lambda x, factor, out: out[0, 0]),
    ("does-not-compile", SCALE, scaling("strings")),
    ("no-kernel", SCALE, lambda x, factor, out: out.copy_(x * factor)),
    ("returned", SCALE, lambda x, factor, out: scaling("right")(x, factor, r := torch.empty_like(out)) or r),
    ("input-overwritten", SOFTMAX, softmax_in_place),
    ("first-block-only", SCALE, scaling("right", lambda n: 1)),
    ("first-block-only", ROW_SUM, row_sum_one_block),
    ("off-by-one", COPY, copy_off_by_one),
    ("transposed", COPY, copy_swapped_strides),
    ("transposed", MATMUL, matmul_transposed),
    ("wrong-stride", SOFTMAX, softmax_wrong_stride),
    ("padded-lanes", SOFTMAX, softmax_padded_lanes),
    ("missing-accumulation", MATMUL, matmul_without_carry),
    ("no-max-subtraction", SOFTMAX, softmax_without_max),
    ("wrong-formula", SCALE, scaling("copy")),
    ("overflow", SCALE, scaling("overflowing")),
    ("tail-not-written", SCALE, scaling("right", lambda n: n // 256)),
    ("tail-not-written", ROW_SUM, row_sum_rounded_down),
    ("tail-unmasked", ROW_SUM, row_sum_unmasked_store),
    ("out-of-bounds", COPY, copy_far_away),
    ("not-written", SCALE, scaling("even")),
    ("race", ROW_SUM, row_sum_racing),
    ("precision", ROW_SUM, row_sum_in_fp16),
    ("precision", SCALE, scaling("half")),
    ("wrong-values", SCALE, scaling("strange")),
]


@pytest.mark.parametrize("kind, exercise, fn", WRONG, ids=[f"{k}-{e.name}" for k, e, _ in WRONG])
def test_wrong_kernel_is_told_why(kind, exercise, fn):
    verdict = evaluate(exercise, fn, time_limit=1 if kind == "timeout" else 20)
    assert verdict.headline is not None, "it was accepted"
    assert (verdict.headline.kind, verdict.notes) == (kind, []), verdict.headline.symptom
    assert verdict.headline.advice and "\n" not in verdict.headline.symptom
    assert verdict.marks == 0.0


CUDA_ONLY = {
    "assert",
    "barrier-divergence",
    "deadlock",
    "misaligned",
    "missing-fence",
    "missing-syncthreads",
    "missing-syncwarp",
    "missing-wait",
    "shuffle-mask",
    "uninitialized-shared",
}


def test_every_kind_is_covered():
    assert {kind for kind, _, _ in WRONG} == set(KINDS) - CUDA_ONLY - {NEEDS_GPU}, "that one is no mistake"


@pytest.mark.parametrize(
    "exercise, fn",
    [(SOFTMAX, softmax), (ROW_SUM, row_sum), (MATMUL, matmul), (COPY, copy), (SCALE, scaling("right"))],
    ids=lambda value: getattr(value, "name", ""),
)
def test_right_kernel_is_accepted(exercise, fn):
    verdict = evaluate(exercise, fn)
    assert verdict.headline is None, verdict.headline
    assert verdict.notes == [] and verdict.marks == 1.0


def test_a_guess_that_one_case_supports_gives_way_to_what_more_cases_say():
    guess = replace(diagnosis("first-block-only", "looks like it"), guess=True)
    race, wrong = diagnosis("missing-syncthreads", "seen"), diagnosis("wrong-values", "wrong")
    assert headline([guess, race, race]) is race
    assert headline([guess, guess, race]) is guess
    unmasked, shifted = diagnosis("tail-unmasked", "reads past"), replace(diagnosis("off-by-one", "shift"), guess=True)
    assert headline([shifted, wrong, unmasked]) is unmasked, "a guess of one case, and an access that was seen in one"
    assert headline([diagnosis("precision", "close"), guess, wrong]) is guess
    assert headline([wrong, guess, wrong]) is guess
    single = diagnosis("wrong-values", "1 of 1 elements of out are wrong")
    assert headline([single, guess, single]) is single, "any one number fits some mistake"
    assert headline([diagnosis("precision", "close"), wrong]) is wrong
    assert headline([]) is None


@pytest.mark.parametrize(
    ("exact", "change", "is_race"), [(False, 1e-7, False), (False, 1.0, True), (True, 1e-7, True)]
)  # fmt: skip
def test_other_bits_of_an_earlier_run_are_a_race_only_if_rounding_does_not_explain_them(exact, change, is_race):
    case = replace(ROW_SUM.cases[0], fill="normal", exact=False)
    run = make_run(replace(ROW_SUM, cases=(case,)), case, 1)
    out = run.outputs["out"]
    out.view.copy_(ROW_SUM.expected(run.inputs())["out"])
    run.case = replace(case, exact=exact)
    earlier = out.storage.clone()
    earlier.as_strided(out.view.shape, out.view.stride(), out.view.storage_offset()).mul_(1 + change)
    found = examine(run, Outcome(launches=1, earlier={"out": earlier})).diagnosis
    assert (found is not None and found.kind == "race") == is_race


def test_coarse_rounding_in_more_cases_explains_the_infinity_in_one():
    coarse, infinite = diagnosis("precision", "right to 1e-04"), diagnosis("overflow", "out has inf")
    assert headline([coarse, infinite, coarse]).kind == "precision"
    assert headline([coarse, infinite, infinite]).kind == "overflow"


def test_of_guesses_of_one_kind_the_one_that_fits_more_cases_is_said():
    one, other = (replace(diagnosis("wrong-formula", s), guess=True) for s in ("the mask is missing", "no division"))
    assert headline([one, other, other]).symptom == "no division"


def test_a_wrong_sum_is_not_nearly_right_because_its_terms_are_many():
    long = replace(ROW_SUM.cases[0], sizes={"M": 1, "N": 100_000})
    run = make_run(ROW_SUM, long, 3)
    run.outputs["out"].view.copy_(run.inputs()["x"].sum(1) * 0.4)
    assert examine(run, Outcome(launches=1)).diagnosis.kind == "wrong-values"


def test_poison_with_which_a_kernel_computes_is_neither_unwritten_nor_an_overflow():
    run = make_run(COPY, replace(COPY.cases[0], sizes={"M": 40, "N": 500}), 3)
    view = run.outputs["out"].view
    view.mul_(1.5)
    assert not view.isfinite().all()
    assert examine(run, Outcome(launches=1)).diagnosis.kind == "wrong-values"
