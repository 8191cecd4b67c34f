"""What the interpreter does wrong without the patches is in it what it is on a GPU."""

import os

import pytest

from labutils.backends import interpreter
from labutils.backends.access import Recorder
from labutils.backends.hooks import recording

triton = pytest.importorskip("triton")
import torch  # noqa: E402
import triton.language as tl  # noqa: E402
from triton.language.extra import libdevice  # noqa: E402
from triton.language.extra.cuda.libdevice import rsqrt as cuda_rsqrt  # noqa: E402
from triton.language.extra.libdevice import tanh  # noqa: E402
from triton.language.math import sqrt as imported_sqrt  # noqa: E402

from labutils.backends.errors import explain  # noqa: E402

if os.environ.get("TRITON_INTERPRET") != "1":
    pytest.skip("Triton's interpreter is off where there is a GPU", allow_module_level=True)
interpreter.require()


# --- bfloat16 ------------------------------------------------------------------------------------------------------


@triton.jit
def bf16_kernel(x_ptr, y_ptr, out_ptr, what: tl.constexpr, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    x, y = tl.load(x_ptr + offs), tl.load(y_ptr + offs)
    if what == "add":
        r = x + y
    elif what == "add a constant":
        r = x + 1.0
    elif what == "multiply":
        r = x * y
    elif what == "subtract":
        r = 2.0 - x
    elif what == "divide":
        r = x / y
    elif what == "negate":
        r = -x
    elif what == "larger":
        r = tl.maximum(x, y)
    elif what == "choose":
        r = tl.where(x > y, x, y)
    elif what == "sum":
        r = tl.sum(x, axis=0).to(tl.bfloat16) + tl.zeros((BLOCK,), tl.bfloat16)
    elif what == "running sum":
        r = tl.cumsum(x.to(tl.float32), axis=0).to(tl.bfloat16)
    elif what == "round":
        r = (x.to(tl.float32) * 1.01).to(tl.bfloat16)
    elif what == "round at the store":
        r = x.to(tl.float32) * 1.01
    elif what == "by way of fp16":
        r = x.to(tl.float16).to(tl.bfloat16)
    elif what == "to integers":
        r = x.to(tl.int32).to(tl.bfloat16)
    elif what == "masked":
        r = tl.load(x_ptr + offs, mask=offs < 4, other=-float("inf"))
    tl.store(out_ptr + offs, r)


BF16 = {
    "add": lambda x, y: x + y,
    "add a constant": lambda x, y: x + 1.0,
    "multiply": lambda x, y: x * y,
    "subtract": lambda x, y: 2.0 - x,
    "divide": lambda x, y: x / y,
    "negate": lambda x, y: -x,
    "larger": torch.maximum,
    "choose": torch.maximum,
    "sum": lambda x, y: x.float().sum().bfloat16().expand(16),
    "running sum": lambda x, y: x.float().cumsum(0).bfloat16(),
    "round": lambda x, y: (x.float() * 1.01).bfloat16(),
    "round at the store": lambda x, y: (x.float() * 1.01).bfloat16(),
    "by way of fp16": lambda x, y: x.half().bfloat16(),
    "to integers": lambda x, y: x.int().bfloat16(),
    "masked": lambda x, y: torch.where(torch.arange(16) < 4, x, -torch.inf),
}


@pytest.mark.parametrize("what", BF16)
def test_bfloat16_is_that_of_a_gpu(what):
    g = torch.Generator().manual_seed(1)
    x, y = (torch.randn(2, 16, generator=g) * 3).bfloat16()
    result = torch.empty_like(x)
    bf16_kernel[(1,)](x, y, result, what, 16)
    assert torch.equal(result, BF16[what](x, y).bfloat16())


# --- TF32 ----------------------------------------------------------------------------------------------------------


@triton.jit
def _product(a_ptr, b_ptr, c_ptr, precision: tl.constexpr):
    offs = tl.arange(0, 16)[:, None] * 16 + tl.arange(0, 16)[None, :]
    tl.store(c_ptr + offs, tl.dot(tl.load(a_ptr + offs), tl.load(b_ptr + offs), input_precision=precision))


@pytest.mark.parametrize(("precision", "least", "most"), [("ieee", 0, 1e-6), ("tf32", 1e-5, 1e-2)])
def test_tf32_is_as_coarse_as_on_a_gpu(precision, least, most):
    a, b = (torch.randn(16, 16, generator=torch.Generator().manual_seed(k)) for k in (1, 2))
    c = torch.empty(16, 16)
    _product[(1,)](a, b, c, precision)
    error = float(((c - (a.double() @ b.double())).abs() / (a.abs() @ b.abs())).max())
    assert least <= error <= most


# --- global constants ----------------------------------------------------------------------------------------------

TWO, MASK = tl.constexpr(2.0), tl.constexpr(6)


@triton.jit
def constants_kernel(x_ptr, out_ptr, what: tl.constexpr):
    offs = tl.arange(0, 8)
    x = tl.load(x_ptr + offs)
    if what == "+":
        r = TWO + x
    elif what == "-":
        r = TWO - x
    elif what == "*":
        r = TWO * x
    elif what == "/":
        r = TWO / x
    elif what == "-K":
        r = -TWO * x
    elif what == "<":
        r = tl.where(x > TWO, 1.0, 0.0)
    elif what == ">=":
        r = tl.where(x <= TWO, 1.0, 0.0)
    elif what == "==":
        r = tl.where(x == TWO, 1.0, 0.0)
    elif what == "&":
        r = (MASK & offs).to(tl.float32)
    elif what == "//":
        r = (MASK // (offs + 1)).to(tl.float32)
    elif what == "between constants":
        r = x * (TWO * TWO + 1)
    tl.store(out_ptr + offs, r)


OFFS = torch.arange(8)
CONSTANTS = {
    "+": lambda x: 2 + x,
    "-": lambda x: 2 - x,
    "*": lambda x: 2 * x,
    "/": lambda x: 2 / x,
    "-K": lambda x: -2 * x,
    "<": lambda x: (x > 2).float(),
    ">=": lambda x: (x <= 2).float(),
    "==": lambda x: (x == 2).float(),
    "&": lambda x: (OFFS & 6).float(),
    "//": lambda x: (6 // (OFFS + 1)).float(),
    "between constants": lambda x: 5 * x,
}


@pytest.mark.parametrize("what", CONSTANTS)
def test_a_global_constant_may_stand_on_the_left(what):
    x, out = torch.tensor([0.5, 1, 2, 3, -1, -2, 4, 8]), torch.empty(8)
    constants_kernel[(1,)](x, out, what)
    assert torch.equal(out, CONSTANTS[what](x))


# --- folds ---------------------------------------------------------------------------------------------------------


@triton.jit
def plus(a, b):
    return a + b


@triton.jit
def after(a_scale, a_shift, b_scale, b_shift):
    """x -> scale * x + shift, one after the other: associative, and not commutative."""
    return b_scale * a_scale, b_scale * a_shift + b_shift


@triton.jit
def larger(a, b):
    if a > b:  # noqa: SIM108 (a branch is what this is about)
        c = a
    else:
        c = b
    return c


@triton.jit
def folds_kernel(x_ptr, y_ptr, out_ptr, what: tl.constexpr, R: tl.constexpr, C: tl.constexpr):
    rows, cols = tl.arange(0, R)[:, None], tl.arange(0, C)[None, :]
    x, y = tl.load(x_ptr + rows * C + cols), tl.load(y_ptr + rows * C + cols)
    if what == "sum of rows":
        tl.store(out_ptr + tl.arange(0, R), tl.reduce(x, 1, plus))
    elif what == "sum of columns":
        tl.store(out_ptr + tl.arange(0, C), tl.reduce(x, 0, plus))
    elif what == "sum of all":
        tl.store(out_ptr, tl.reduce(x, None, plus))
    elif what == "kept":
        tl.store(out_ptr + rows * 1 + tl.arange(0, 1)[None, :], tl.reduce(x, -1, plus, keep_dims=True))
    elif what == "one after the other":
        _, shift = tl.reduce((x, y), 1, after)
        tl.store(out_ptr + tl.arange(0, R), shift)
    elif what == "branches":
        tl.store(out_ptr + tl.arange(0, R), tl.reduce(x, 1, larger))
    elif what == "scan":
        _, shift = tl.associative_scan((x, y), 1, after)
        tl.store(out_ptr + rows * C + cols, shift)
    elif what == "reversed scan":
        tl.store(out_ptr + rows * C + cols, tl.associative_scan(x, 1, plus, reverse=True))
    elif what == "running product":
        tl.store(out_ptr + rows * C + cols, tl.cumprod(x, 1))


def _affine(x, y):
    shifts, shift = [], torch.zeros(len(x), dtype=x.dtype)
    for k in range(x.shape[1]):
        shift = x[:, k] * shift + y[:, k]
        shifts.append(shift)
    return torch.stack(shifts, 1)


FOLDS = {
    "sum of rows": lambda x, y: x.sum(1),
    "sum of columns": lambda x, y: x.sum(0),
    "sum of all": lambda x, y: x.sum(),
    "kept": lambda x, y: x.sum(1, keepdim=True),
    "one after the other": lambda x, y: _affine(x, y)[:, -1],
    "branches": lambda x, y: x.max(1).values,
    "scan": _affine,
    "reversed scan": lambda x, y: x.flip(1).cumsum(1).flip(1),
    "running product": lambda x, y: x.cumprod(1),
}


@pytest.mark.parametrize("what", FOLDS)
def test_folds_of_ones_own_are_those_of_a_gpu(what):
    g = torch.Generator().manual_seed(3)
    x, y = torch.randn(2, 4, 16, generator=g).unbind()
    expected = FOLDS[what](x.double(), y.double()).float()
    out = torch.empty_like(expected)
    folds_kernel[(1,)](x, y, out, what, 4, 16)
    torch.testing.assert_close(out, expected, rtol=1e-5, atol=1e-5)


@triton.jit
def long_kernel(x_ptr, out_ptr, scan_ptr, BLOCK: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, BLOCK))
    tl.store(out_ptr, tl.reduce(x, 0, plus))
    tl.store(scan_ptr + tl.arange(0, BLOCK), tl.cumsum(x, 0))


def test_thousands_of_lanes_are_folded_as_a_tree():
    """One after the other, 0.1 added 2^17 times in float32 is wrong in the fourth digit; as a tree, in the seventh."""
    n = 2**17
    x, out, scan = torch.full((n,), 0.1), torch.empty(1), torch.empty(n)
    long_kernel[(1,)](x, out, scan, n)
    exact = float(x.double().sum())
    assert abs(out.item() / exact - 1) < 1e-6 and abs(scan[-1].item() / exact - 1) < 1e-6
    one_after_the_other = torch.from_numpy(x.numpy().cumsum())[-1].item()
    assert abs(one_after_the_other / exact - 1) > 1e-5


# --- what belongs to the GPU ---------------------------------------------------------------------------------------


@triton.jit
def exchange_kernel(x_ptr, out_ptr):
    tl.store(out_ptr, tl.atomic_xchg(x_ptr, 2.5, sem="acq_rel", scope="gpu"))


def test_floating_point_numbers_can_be_exchanged():
    x, out = torch.tensor([1.5]), torch.empty(1)
    exchange_kernel[(1,)](x, out)
    assert (x.item(), out.item()) == (2.5, 1.5)


@triton.jit
def names_kernel(x_ptr, out_ptr, what: tl.constexpr):
    offs = tl.arange(0, 8)
    x = tl.load(x_ptr + offs)
    if what == "module":
        r = libdevice.exp(x)
    elif what == "name":
        r = tanh(x)
    elif what == "the CUDA module's name":
        r = cuda_rsqrt(x)
    elif what == "two arguments":
        r = libdevice.pow(x, 2.0)
    elif what == "tl.extra":
        r = tl.extra.libdevice.log1p(x)
    elif what == "math":
        r = imported_sqrt(x)
    elif what == "Python's max":
        r = max(x, 1.5)
    elif what == "Python's min and max":
        r = min(max(1.0, x, x), tl.full((8,), 2.0, tl.float32)) + max(1, 0) - min(2, 3) + 1
    elif what == "only on a GPU":
        r = libdevice.cyl_bessel_i0(x)
    elif what == "inline":
        r = tl.inline_asm_elementwise("mov.f32 $0, $1;", "=f,f", [x], tl.float32, True, 1)
    tl.store(out_ptr + offs, r)


NAMES = {
    "module": torch.exp,
    "name": torch.tanh,
    "the CUDA module's name": torch.rsqrt,
    "two arguments": torch.square,
    "tl.extra": torch.log1p,
    "math": torch.sqrt,
    "Python's max": lambda x: x.clamp(min=1.5),
    "Python's min and max": lambda x: x.clamp(1, 2),
}


@pytest.mark.parametrize("what", NAMES)
def test_functions_of_libdevice_by_any_name(what):
    x, out = torch.linspace(0.1, 4, 8), torch.empty(8)
    names_kernel[(1,)](x, out, what)
    torch.testing.assert_close(out, NAMES[what](x), rtol=1e-6, atol=0)


@pytest.mark.parametrize("what", ["only on a GPU", "inline"])
def test_what_no_cpu_can_run_says_so(what):
    with pytest.raises(Exception) as caught:
        names_kernel[(1,)](torch.ones(8), torch.empty(8), what)
    problem = explain(caught.value)
    assert problem.kind == "needs-gpu" and "NVIDIA GPU" in problem.message and problem.line


def test_libdevice_keeps_to_the_types_it_has():
    """libdevice has no fp16: a GPU's compiler refuses it, so the interpreter must not compute it."""
    with pytest.raises(Exception, match="fp16|float16"):
        names_kernel[(1,)](torch.ones(8, dtype=torch.float16), torch.empty(8), "module")


@triton.jit
def promises_kernel(out_ptr, n, what: tl.constexpr, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    if what == "multiple":
        offs = tl.multiple_of(offs + n, 4) - n
    elif what == "pointer":
        tl.store(tl.max_contiguous(tl.multiple_of(out_ptr + n + offs, 16), BLOCK), 1.0, mask=offs < BLOCK - n)
    elif what == "mask":
        tl.store(out_ptr + offs, 1.0, mask=tl.max_constancy(offs < BLOCK - n, 4))
    elif what == "loop":
        for start in range(n, BLOCK, 4):
            tl.store(out_ptr + tl.multiple_of(start, 4), 1.0)
    tl.store(out_ptr + offs, 1.0)


@pytest.mark.parametrize("what", ["multiple", "pointer", "mask", "loop"])
def test_false_promises_to_the_compiler_are_refused(what):
    out = torch.empty(16)
    promises_kernel[(1,)](out, 4, what, 16)
    promises_kernel[(1,)](out, 0, what, 16)
    with pytest.raises(Exception) as caught:
        promises_kernel[(1,)](out, 2, what, 16)
    problem = explain(caught.value)
    assert problem.kind == "error" and "promises" in problem.message and problem.line


# --- what costs time -----------------------------------------------------------------------------------------------


@triton.jit
def wrapping_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    tl.store(out_ptr + offs, tl.load(x_ptr + offs) * 3 + 1)


def wrapped() -> list[int]:
    x, out = torch.tensor([2**31 - 1, 5], dtype=torch.int32), torch.zeros(2, dtype=torch.int32)
    wrapping_kernel[(1,)](x, out, BLOCK=2)
    return out.tolist()


def test_no_operand_of_an_assertion_that_nobody_makes_is_computed(monkeypatch):
    from triton.language.semantic import TritonSemantic

    asserted = []
    monkeypatch.setattr(TritonSemantic, "device_assert", lambda self, *what: asserted.append(what))
    assert wrapped() == [2**31 - 2, 16] and not asserted


def test_later_launches_replace_names_of_the_language_without_a_search(monkeypatch):
    from triton.runtime import interpreter as theirs

    if not hasattr(theirs, "_LangPatchScope"):
        pytest.skip("this Triton restores names in another way")
    before = dict(vars(tl))
    expected, searched, search = wrapped(), [], theirs._patch_builtin
    monkeypatch.setattr(theirs, "_patch_builtin", lambda *a: (searched.append(a), search(*a)))
    assert wrapped() == expected and not searched
    assert vars(tl) == before
    # somebody's own function under such a name is replaced, and comes back
    own = tl.core.builtin(lambda *a, _semantic=None, **k: before["load"](*a, **k, _semantic=_semantic))
    monkeypatch.setattr(tl, "load", own)
    assert wrapped() == expected and searched and tl.load is own


# --- what a launcher passes, and how Python reads a kernel ---------------------------------------------------------


@triton.jit
def arguments_kernel(x_ptr, out_ptr, scale, negative, what: tl.constexpr):
    offs = tl.arange(0, 8)
    x = tl.load(x_ptr + offs)
    if what == "float":
        r = x * scale.to(tl.float32)
    elif what == "bool":
        r = tl.where(negative, -x, x)
    tl.store(out_ptr + offs, r)


@pytest.mark.parametrize(("what", "expected"), [("float", 1 / 3), ("bool", -1.0)])
def test_floats_and_bools_are_tensors_in_the_kernel(what, expected):
    """A product with a float32 has 24 bits, also where the other side has 11 of them."""
    out = torch.empty(8)
    arguments_kernel[(1,)](torch.ones(8, dtype=torch.float16), out, 1 / 3, True, what)
    assert torch.equal(out, torch.full((8,), expected))


@triton.jit
def lanes_kernel(x_ptr, out_ptr, n, what: tl.constexpr):
    offs = tl.arange(0, 16)
    low, high = offs >= 3, offs < n
    if what == "and":
        mask = low and high
    elif what == "or":
        mask = low or high
    elif what == "not":
        mask = not low
    elif what == "three":
        mask = low and high and offs != 5
    elif what == "scalar":
        mask = n > 0 and low
    elif what == "decided":
        mask = n == 0 and tl.load(x_ptr + 16) > 0
    elif what == "scalars":
        if n > 0 and not n == 3:  # noqa: SIM201
            mask = high
    elif what == "inverted":
        mask = (~offs.to(tl.uint32) & 3) == 3
    tl.store(out_ptr + offs, tl.load(x_ptr + offs), mask=mask)


LANES = {
    "and": lambda k: (k >= 3) & (k < 7),
    "or": lambda k: (k >= 3) | (k < 7),
    "not": lambda k: k < 3,
    "three": lambda k: (k >= 3) & (k < 7) & (k != 5),
    "scalar": lambda k: k >= 3,
    "scalars": lambda k: k < 7,
    "inverted": lambda k: k % 4 == 0,
}


@pytest.mark.parametrize("what", LANES)
def test_boolean_operators_work_lane_by_lane(what):
    out = torch.zeros(16)
    lanes_kernel[(1,)](torch.ones(16), out, 7, what)
    assert torch.equal(out > 0, LANES[what](torch.arange(16)))


def test_what_stands_behind_a_scalar_that_decides_is_evaluated():
    with recording(Recorder()) as recorder:
        lanes_kernel[(1,)](torch.ones(16), torch.zeros(16), 7, "decided")
    assert [(f.kind, f.index) for f in recorder.findings] == [("out-of-bounds", 16)]


@triton.jit
def loop_kernel(out_ptr, n):
    for k in range(n):
        tl.store(out_ptr + (2 * k + 1).to(tl.int64), k.to(tl.float32))
    for k in tl.static_range(2):
        tl.store(out_ptr + 2 * k, k)


def test_the_index_of_a_loop_can_be_converted():
    out = torch.full((8,), -1.0)
    loop_kernel[(1,)](out, 4)
    assert out.tolist() == [0, 0, 1, 1, -1, 2, -1, 3]


@triton.jit
def limit(dtype: tl.constexpr):
    return 2 ** (dtype.value.primitive_bitwidth - 1) - 1


@triton.jit
def type_kernel(out_ptr):
    tl.store(out_ptr + tl.program_id(0), limit(out_ptr.dtype.element_ty))


class Stands:
    """For a tensor, with no more than what a compiled kernel needs."""

    def __init__(self, tensor):
        self.dtype, self.data_ptr = tensor.dtype, tensor.data_ptr


def test_what_a_compiled_launch_takes_is_taken():
    """A grid of four numbers, a grid function that divides an argument, and an object that stands for a tensor."""
    out = torch.zeros(2, dtype=torch.int16)
    type_kernel[(2, 1, 1, 1)](Stands(out))
    assert out.tolist() == [2**15 - 1] * 2
    total = torch.empty(4)
    loop_kernel[lambda meta: (triton.cdiv(meta["n"], 4),)](total, 2)
    assert total[1::2].tolist() == [0, 1]


@triton.autotune([triton.Config({"BLOCK": b}) for b in (64, 32, 8)], key=["n"])
@triton.jit
def asserting_kernel(out_ptr, n, MOST: tl.constexpr, BLOCK: tl.constexpr):
    tl.static_assert(BLOCK <= MOST)
    tl.store(out_ptr + tl.arange(0, BLOCK), BLOCK, mask=tl.arange(0, BLOCK) < n)


def test_an_autotuner_passes_over_what_does_not_compile(monkeypatch):
    monkeypatch.setattr(asserting_kernel, "configs", list(asserting_kernel.configs))
    monkeypatch.setattr(asserting_kernel, "cache", {})
    out = torch.empty(4)
    with recording(Recorder()):
        asserting_kernel[(1,)](out, 4, MOST=16)
        assert out.tolist() == [8] * 4
        with pytest.raises(Exception, match="StaticAssertion"):
            asserting_kernel[(1,)](out, 4, MOST=4)


@triton.jit
def fp8_kernel(x_ptr, out_ptr):
    offs = tl.arange(0, 512)
    tl.store(out_ptr + offs, tl.load(x_ptr + offs).to(out_ptr.dtype.element_ty))


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2])
def test_fp8_is_rounded_to_nearest(dtype):
    """Also up to a power of two, and no further than to the largest number."""
    x, out = torch.logspace(-3, 5, 512) * (-1) ** torch.arange(512), torch.empty(512, dtype=dtype)
    fp8_kernel[(1,)](x, out)
    most = torch.finfo(dtype).max
    assert torch.equal(out.float(), x.clamp(-most, most).to(dtype).float())
