"""libdevice in NumPy: values, types and special cases as on a GPU."""

import re
from pathlib import Path

import numpy as np
import pytest
import torch

from labutils.backends import libdevice

X = np.array([-3.5, -1.0, -0.5, 0.0, 0.25, 0.5, 1.0, 2.5, 7.0], np.float32)


def test_functions_agree_with_pytorch():
    for name in ("exp", "expm1", "tanh", "erf", "erfc", "sinh", "atan", "floor", "ceil", "trunc", "exp2", "rsqrt"):
        with np.errstate(all="ignore"):
            got = libdevice.function(f"__nv_{name}f")(X).astype(np.float32)
        expected = getattr(torch, name)(torch.from_numpy(X).double()).float().numpy()
        np.testing.assert_allclose(got, expected, rtol=1e-6, err_msg=name)


@pytest.mark.parametrize(
    ("symbol", "arguments", "expected"),
    [
        ("__nv_roundf", [[0.5, -0.5, 1.5, 2.4]], [1, -1, 2, 2]),
        ("__nv_rintf", [[0.5, -0.5, 1.5, 2.5]], [0, 0, 2, 2]),
        ("__nv_remainderf", [[5.0, 1.0, np.inf], [3.0, 0.0, 1.0]], [-1, np.nan, np.nan]),
        ("__nv_saturatef", [[-1.0, 0.5, 2.0, np.nan]], [0, 0.5, 1, 0]),
        ("__nv_fdimf", [[3.0, 1.0], [1.0, 3.0]], [2, 0]),
        ("__nv_fmaf_rn", [[2.0], [3.0], [4.0]], [10]),
        ("__nv_fadd_rn", [[0.1], [0.2]], [np.float32(0.1) + np.float32(0.2)]),
        ("__nv_drcp_rn", [[4.0]], [0.25]),
        ("__nv_isnanf", [[1.0, np.nan]], [0, 1]),
        ("__nv_lgammaf", [[1.0, 0.0, np.inf, np.nan]], [0, np.inf, np.inf, np.nan]),
        ("__nv_logbf", [[8.0, 0.0, -np.inf]], [3, -np.inf, np.inf]),
    ],
)
def test_special_values(symbol, arguments, expected):
    arrays = [np.array(a, np.float32) for a in arguments]
    with np.errstate(all="ignore"):
        got = libdevice.function(symbol)(*arrays)
    np.testing.assert_allclose(np.asarray(got).astype(np.float32), np.array(expected, np.float32), rtol=1e-6)


def test_integers_and_bits():
    x = np.array([0, 1, 5, -1], np.int32)
    assert libdevice.function("__nv_popc")(x).tolist() == [0, 1, 2, 32]
    assert libdevice.function("__nv_clz")(x).tolist() == [32, 31, 29, 0]
    assert libdevice.function("__nv_mulhi")(x << 20, x << 20).tolist() == [0, 256, 6400, 256]
    bits = libdevice.function("__nv_float_as_int")(np.array([1.0], np.float32))
    assert bits.tolist() == [0x3F800000] and bits.dtype == np.int32
    assert libdevice.function("__nv_int_as_float")(bits).tolist() == [1.0]


def test_what_is_not_here_is_left_to_a_gpu():
    assert libdevice.function("__nv_j0f") is None
    assert libdevice.function("__nv_dadd_ru") is None, "another rounding must not be computed as nearest"


def test_rounding_in_a_direction():
    """A third is between two numbers of float32."""
    one, three = np.float32([1, -1]), np.float32([3, 3])
    down, up, zero = (
        libdevice.function(f"__nv_fdiv_{way}")(one, three).astype(np.float32) for way in ("rd", "ru", "rz")
    )
    assert (down < up).all() and (np.nextafter(down, np.float32(1)) == up).all()
    assert zero[0] == down[0] and zero[1] == up[1]
    assert libdevice.function("__nv_fdiv_rz")(one, three / 3).tolist() == [1, -1], "exact results stay"


def test_every_name_is_one_of_libdevice():
    triton = pytest.importorskip("triton")
    text = Path(triton.__file__).with_name("language").joinpath("extra/cuda/libdevice.py").read_text()
    known = set(re.findall(r"__nv_(\w+)", text))
    for name in libdevice.REAL:
        assert {name, f"{name}f", f"{name}_rn", f"{name}f_rn"} & known, name
    for name in {*libdevice.TESTS, *libdevice.INTEGERS, *libdevice.BITS}:
        assert name in known, name
