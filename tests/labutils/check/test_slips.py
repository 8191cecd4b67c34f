"""Compilers' messages in our words."""

import pytest

from labutils.check.slips import explained
from labutils.cuda import nvrtc

HEAD = "k does not compile for sm_80: "


@pytest.mark.parametrize(
    "message, line, sentence, advice",
    [
        ("Did you forget to add @triton.jit ? (`_semantic`)", "x = x_ptr[offs]", "no array", "tl.load"),
        ("NotImplementedError('__setitem__ is not supported in triton')", "out_ptr[offs] = x", "no array", "tl.store"),
        ("Did you forget to add @triton.jit ? (x)", "y = helper(x)", "outside of a kernel", "@triton.jit"),
        ("AttributeError(\"'tensor' object has no attribute '__pow__'\")", "y = x**3", "**", "x * x * x"),
        ("AttributeError(\"module 'triton.language' has no attribute 'tanh'\")", "", "tl.tanh", "sigmoid"),
        ("TypeError('cannot add pointers together')", "", "adds addresses", "Load both"),
        ("ValueError('unexpected')", "m = tl.max(m, tl.max(x, axis=0))", "reduces one tensor", "tl.maximum"),
        ("ValueError('unexpected')", "m = tl.max(x, 1)", "unexpected", None),
        ("Both operands must be same dtype. Got fp32 and fp16", "s = tl.dot(p, v)", "fp32 and fp16", ".to(b.dtype)"),
        (
            "Triton requires value.shape == desc.block_shape: value.shape = (32, 32), desc.block_shape = (1, 32, 32)",
            "desc.store([0, 0, 0], x)",
            "has the shape (32, 32), but the descriptor has tiles of (1, 32, 32)",
            ".reshape(",
        ),
        ("'Name' object has no attribute 'func'", "for i in offs:", "not over a block", "without a loop"),
        ("AttributeError(\"'Name' object has no attribute 'func'\")", "x = f(y)", "no attribute 'func'", None),
        ("invalid operands of type pointer<fp32> and triton.language.int32", "x_ptr * 2", "is an address", "2 * x"),
        ("invalid operands of type pointer<fp32> and triton.language.float32", "x_ptr + o", "must be an integer", "//"),
        ("For loop bounds and step must all be ints, are (int32, fp32, int32)", "", "is a float", "tl.cdiv"),
        ("arange's arguments must be of type tl.constexpr", "tl.arange(0, B / 2)", "gets a float", "//"),
        ("arange's arguments must be of type tl.constexpr", "tl.arange(0, n // 2)", "sizes that are known", "mask"),
        ("unexpected type fp32", "row = pid // blocks", "take integers", "//"),
        ("a kernel stores its results, and this one returns a value", "return x", "returns a value", "tl.store"),
        ("Mismatched type for z between then block (<['8'], fp32>) and else block (int32)", "", "a block of 8", ""),
        ("Loop-carried variable a has initial type int32 but is re-assigned to fp32 in loop!", "", "a is int32", "0.0"),
        ("invalid axis 1. Expected -1 <= axis < 1", "", "no axis 1: the tensor has 1", "axis=0"),
    ],
)  # fmt: skip
def test_messages_name_the_slip(message, line, sentence, advice):
    said, tried = explained(HEAD + message, line)
    assert said.startswith(HEAD) and sentence in said and (tried is None if advice is None else advice in tried)


CELL = """extern "C" __global__ void k(const float* x, float* out, int n) {{
    int i = threadIdx.x;
    {}
}}"""


@pytest.mark.compiler
@pytest.mark.parametrize(
    "line, advice",
    [
        ("if i < n: out[i] = x[i];", "parentheses"),
        ("for i in range(n): out[i] = x[i];", "parentheses"),
        ("out[i] = x[i]", "missing before line 4"),
        ("out[i] = x[i] out[i] = 1;", "that place and at the end of the line before"),
        ("float f = i; out[f] = x[f];", "as int"),
        ("out[threadIdx] = blockIdx * 2;", "blockIdx.x"),
        ("j = 1; out[j] = x[i];", "int j = …"),
        ("out[threadidx.x] = x[i];", "Did you mean threadIdx?"),
        ("return x[i];", "returns nothing"),
        ("out[i] = x[i]**2;", "x * x"),
        ("__shared__ float s[n]; out[i] = s[i];", "constexpr"),
        ("if (i < n) { out[i] = x[i];", "never closed"),
        ("out[i] = True;", "true, false"),
    ],
)
def test_cuda_cells_get_advice_for_their_first_error(line, advice):
    with pytest.raises(nvrtc.CompileError) as e:
        nvrtc.compile_source(CELL.format(line), ("k",), 80)
    assert advice in e.value.advice, e.value.text
    assert "What to try: " + e.value.advice in e.value._render_traceback_()[0]


def test_a_missing_decorator():
    said, advice = explained("TypeError: 'function' object is not subscriptable", "k[(1,)](x)")
    assert "@triton.jit is missing" in said and "@triton.jit" in advice


def test_other_messages_keep_their_words_and_lose_their_wrapping():
    assert explained(HEAD + "ValueError('something new')", "") == (HEAD + "something new", None)
    assert explained("ZeroDivisionError: division by zero", "") == ("ZeroDivisionError: division by zero", None)
