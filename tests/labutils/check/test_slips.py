"""Compilers' messages in our words."""

import pytest

from labutils.check.slips import explained

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
        ("invalid axis 1. Expected -1 <= axis < 1", "", "no axis 1: the tensor has 1", "axis=0"),
    ],
)  # fmt: skip
def test_messages_name_the_slip(message, line, sentence, advice):
    said, tried = explained(HEAD + message, line)
    assert said.startswith(HEAD) and sentence in said and (tried is None if advice is None else advice in tried)


def test_a_missing_decorator():
    said, advice = explained("TypeError: 'function' object is not subscriptable", "k[(1,)](x)")
    assert "@triton.jit is missing" in said and "@triton.jit" in advice


def test_other_messages_keep_their_words_and_lose_their_wrapping():
    assert explained(HEAD + "ValueError('something new')", "") == (HEAD + "something new", None)
    assert explained("ZeroDivisionError: division by zero", "") == ("ZeroDivisionError: division by zero", None)
