"""Small changes of a kernel's text, without what belongs there being told."""

import ast

from labutils.check.edits import changes

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
