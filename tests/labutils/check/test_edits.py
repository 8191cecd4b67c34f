"""Small changes of a kernel's text, without what belongs there being told."""

import ast

import pytest

from labutils.check.edits import Text, changes, unused

KERNEL = '''\
@triton.jit
def kernel(x_ptr, out_ptr, M, N, stride_xm, stride_om, BLOCK: tl.constexpr):
    """Sums 2 rows."""
    row = tl.program_id(1)
    offs = tl.arange(0, BLOCK)
    mask = offs <= N
    acc = 0.0
    for k in range(0, N, BLOCK):
        acc = tl.load(x_ptr + k * stride_om + offs, mask=mask)
    tl.store(out_ptr + offs, tl.exp2(acc))
'''


def test_each_change_is_python_and_differs():
    texts = [c.applied(KERNEL) for c in changes(KERNEL)]
    assert len(texts) == len(set(texts)) and KERNEL not in texts
    for text in texts:
        ast.parse(text)


def test_common_slips_are_among_them():
    texts = "\n".join(c.applied(KERNEL) for c in changes(KERNEL))
    for wanted in ("tl.program_id(0)", "offs < N", "k * stride_xm", "tl.exp(acc)", "tl.exp2(acc), mask=mask",
                   "acc = acc + tl.load(", "out_ptr + offs + row * stride_om", "other=0.0"):  # fmt: skip
        assert wanted in texts, wanted


def test_the_line_is_that_of_the_text():
    (change,) = [c for c in changes(KERNEL) if c.new == "tl.exp"]
    assert (change.line, change.what, KERNEL[change.begin : change.end]) == (10, "the function", "tl.exp2")


EXCHANGED = """\
@triton.jit
def kernel(c_ptr, M, N, stride_cm, stride_cn):
    mask = (offs_m[:, None] < N) & (offs_n[None, :] < M)
    tl.store(c_ptr + offs_m[:, None] * stride_cn + offs_n[None, :] * stride_cm, 0.0, mask=mask)
"""


def test_sizes_of_a_mask_and_strides_of_an_address_are_exchanged():
    texts = "\n".join(c.applied(EXCHANGED) for c in changes(EXCHANGED))
    assert "(offs_m[:, None] < M) & (offs_n[None, :] < N)" in texts
    assert "c_ptr + offs_m[:, None] * stride_cm + offs_n[None, :] * stride_cn" in texts


FORMULA = """\
@triton.jit
def kernel(x_ptr, out_ptr, count_ptr, M, N, stride_xm, stride_om, factor, BLOCK: tl.constexpr, KEEP: tl.constexpr):
    r = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    inside = c < N
    total = tl.zeros((BLOCK,), tl.float32)
    a, b = r % M, r // M
    for start in range(0, N, BLOCK):
        for k in range(tl.cdiv(N, BLOCK)):
            x = tl.load(x_ptr + r + start + c, mask=inside, other=0.0)
            s = tl.sigmoid(x)
            total += tl.sum(x * s, keep_dims=True)
        total *= x
    tl.store(count_ptr + r, 1.0)
    tl.store(out_ptr + c, total * s, mask=c < 8)
"""


@pytest.mark.parametrize(
    "wanted",
    [
        "x_ptr + r * stride_xm + start + c",  # a stride that is missing
        "out_ptr + c + r * stride_om",  # a term
        "count_ptr + r, 1.0, mask=inside",  # a mask that stands elsewhere
        "mask=(c < 8) & (c < N)",
        "inside = c <= N",
        "tl.sum(x * (1 - s)",  # 1 − s
        "tl.sum((-x) * s",
        "(total * factor) * s",  # a factor
        "a, b = (r // M, r % M)",  # two values in the other order
        "range(((N) // (BLOCK)))",  # down in place of up
        "keep_dims=False",
        "        pass\n    tl.store(count_ptr",  # a statement too many
        "for start in range(0, N, BLOCK):\n        total = tl.zeros((BLOCK,), tl.float32)\n",  # set anew in the loop
        "tl.atomic_add(count_ptr + r, 1.0)",
    ],
)
def test_what_is_missing_comes_from_elsewhere_in_the_text(wanted):
    assert any(wanted in c.applied(FORMULA) for c in changes(FORMULA)), wanted


GROUPED = """\
@triton.jit
def kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    c = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + c)
    y = (x + 1.0) + (2.0 - x)
    tl.store(out_ptr + c, tl.sum(y) + y * 3.0)
"""


@pytest.mark.parametrize(
    "wanted",
    [
        "((x + 1.0) * (2.0 - x))",  # an operator leaves its operands whole
        "y = (2.0 - x)\n",  # and so does a term that goes
        "(((x + 1.0) + 2.0) - x)",  # other parentheses
        "((tl.sum(y) + y) * 3.0)",
    ],
)
def test_expressions_keep_their_parentheses_or_get_others(wanted):
    assert any(wanted in c.applied(GROUPED) for c in changes(GROUPED)), wanted


def test_what_a_name_stands_for_is_read_from_how_it_is_computed():
    kinds = Text(FORMULA).kinds
    assert {n: kinds[n] for n in ("r", "c", "inside", "total", "x", "s", "start", "a")} == {
        "r": "index", "c": "block", "inside": "mask", "total": "value", "x": "value", "s": "value", "start": "index",
        "a": "index",
    }  # fmt: skip


def test_formulas_are_told_from_addresses():
    found = {c.new: c.formula for c in changes(FORMULA)}
    assert found["(1 - s)"] and not found["x_ptr + r + start + c + r * stride_xm"] and not found["c <= N"]


def test_a_pointer_may_have_to_move():
    text = (
        "@triton.jit\ndef kernel(a_ptr, K, stride_ak, BLOCK: tl.constexpr):\n    ptrs = a_ptr + tl.arange(0, BLOCK)\n"
        "    for k in range(0, K, BLOCK):\n        acc += tl.load(ptrs)\n"
    )
    assert any(c.applied(text).endswith("tl.load(ptrs)\n        ptrs += BLOCK\n") for c in changes(text))


def test_any_python_can_be_changed():
    text = """\
def launch(x, *rest, flag=None, **more):
    import os
    os.write(2, b"noise")
    y = [k for k in range(3) if k] or {"a": ..., 1j: f"{x!r}"}
    (a, *b), z.w, q[0] = (1, 2), 3, lambda: (yield)
    with open(x) as f, g:
        y[0] += -x @ (x := 2)
    for i, (j, k) in more.items():
        total: int = i if j else k
"""
    assert changes(text) and unused(text)


def test_names_that_are_used_nowhere():
    assert dict(unused(FORMULA)) == {"factor": 0, "stride_xm": 0, "stride_om": 0, "a": 7, "b": 7, "k": 9}
    assert unused("x = 1") == []
    loop = "def k(ptrs):\n    for start in range(0, 8, 4):\n        x = tl.load(ptrs)\n        {}\n"
    assert dict(unused(loop.format("tl.store(ptrs, x)"))) == {"start": 2}
    assert unused(loop.format("tl.store(ptrs, x)\n        ptrs += 4")) == []
