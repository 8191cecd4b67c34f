"""Values that cross the border of a sandbox come back equal; nothing else comes in."""

import math

import pytest

from labutils.gpu.roofline import Ledger
from labutils.spec.serialize import NotSerializable, decode, encode

VALUES = [
    None, True, 3, -2.5, "text", [1, 2.0], (1, "a"), {1, 2}, {"a": [1], "b": {"c": None}}, 2**60, frozenset({3}),
    Ledger({"x": 4.0}, {"y": 8.0}, 3.0, "copy"), [Ledger({}, {}, 1.0)], math.inf,
]  # fmt: skip


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_there_and_back(value):
    import json

    back = decode(json.loads(json.dumps(encode(value))))
    assert back == value and type(back) is type(value)


def test_nan_comes_back_as_nan():
    assert math.isnan(decode(encode(math.nan)))


def test_a_number_of_another_library_is_a_number():
    import numpy as np
    import torch

    assert decode(encode(np.float32(1.5))) == 1.5 and decode(encode(torch.tensor(2.0))) == 2.0


@pytest.mark.parametrize("value", [object(), lambda: 1, [object()], print])
def test_what_cannot_be_told(value):
    with pytest.raises(NotSerializable):
        encode(value)


@pytest.mark.parametrize(
    "told",
    [
        {"list": 3}, {"object": []}, {"Ledger": {"reads": None, "evil": 1}}, [1], {"list": [1], "set": [2]},
        {"dict": [[1]]}, {"float": "1e5"}, {"set": [{"list": []}]},
    ],
    ids=str,
)  # fmt: skip
def test_what_nobody_told(told):
    with pytest.raises((ValueError, TypeError)):
        decode(told)


def test_depth_and_size_have_limits():
    deep = 1
    for _ in range(20):
        deep = {"list": [deep]}
    for told in (deep, {"list": [1] * 20_000}):
        with pytest.raises(ValueError, match="too large or too deep"):
            decode(told)
