"""bfloat16 and TF32 are in the interpreter what they are on a GPU."""

import os

import pytest

from labutils.backends import interpreter

triton = pytest.importorskip("triton")
import torch  # noqa: E402
import triton.language as tl  # noqa: E402

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
