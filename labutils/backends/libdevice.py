"""NVIDIA's libdevice in NumPy: what `triton.language.extra.libdevice` calls, computed on the CPU.

A symbol such as `__nv_expf` names a function and, by its last letter, the type. What is here computes float32 in
float64 and rounds once, so it is at least as exact as the GPU's. Source of the meanings: NVIDIA's libdevice user's
guide. What is not here runs on a GPU only.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import numpy as np

_vectorized = functools.partial(np.vectorize, otypes=[np.float64])


def _total(function: Callable[[float], float], beyond: float) -> Callable:
    """A function of `math` for arrays, with `beyond` where it raises because the result is too large or a pole."""

    def one(x: float) -> float:
        try:
            return function(x)
        except (OverflowError, ValueError):
            return math.nan if math.isnan(x) or x == -math.inf else beyond

    return _vectorized(one)


def _round(x: np.ndarray) -> np.ndarray:
    """To the nearest integer, halves away from zero."""
    return np.copysign(np.floor(np.abs(x) + 0.5), x)


def _exponent(x: np.ndarray) -> np.ndarray:
    return np.where(x == 0, -np.inf, np.where(np.isfinite(x), np.frexp(x)[1] - 1.0, np.abs(x)))


def _remainder(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """IEEE 754's remainder; NaN for an infinite x or a y of 0."""
    return np.where(np.isinf(x) | (y == 0), np.nan, x - y * np.rint(x / y))


_ERF, _ERFC = _vectorized(math.erf), _vectorized(math.erfc)

REAL: dict[str, Callable[..., np.ndarray]] = {
    **{n: getattr(np, n) for n in (
        "ceil", "floor", "trunc", "rint", "exp", "exp2", "expm1", "log", "log10", "log1p", "log2", "sqrt", "cbrt",
        "sin", "cos", "tan", "sinh", "cosh", "tanh", "fabs", "fmod", "hypot", "copysign",
    )},
    **{f"a{n}": getattr(np, f"arc{n}") for n in ("sin", "cos", "tan", "sinh", "cosh", "tanh")},
    **{f"fast_{n}f": getattr(np, n) for n in ("exp", "log", "log2", "log10", "sin", "cos", "tan")},
    "atan2": np.arctan2,
    "cospi": lambda x: np.cos(np.pi * np.fmod(x, 2.0)),
    "erf": _ERF,
    "erfc": _ERFC,
    "exp10": lambda x: np.power(10.0, x),
    "fast_exp10f": lambda x: np.power(10.0, x),
    "fast_fdividef": np.divide,
    "fast_powf": np.power,
    "fdim": lambda x, y: np.where(np.isnan(x) | np.isnan(y), np.nan, np.maximum(x - y, 0.0)),
    "fma": lambda x, y, z: x * y + z,
    "ldexp": lambda x, n: x * np.exp2(n.astype(np.float64)),
    "lgamma": _total(math.lgamma, math.inf),
    "logb": _exponent,
    "nearbyint": np.rint,
    "norm3d": lambda x, y, z: np.sqrt(x * x + y * y + z * z),
    "normcdf": lambda x: 0.5 * _ERFC(-x / math.sqrt(2.0)),
    "pow": np.power,
    "powi": lambda x, n: np.power(x, n.astype(np.float64)),
    "rcbrt": lambda x: 1.0 / np.cbrt(x),
    "remainder": _remainder,
    "rhypot": lambda x, y: 1.0 / np.hypot(x, y),
    "round": _round,
    "rsqrt": lambda x: 1.0 / np.sqrt(x),
    "saturate": lambda x: np.where(np.isnan(x), 0.0, np.clip(x, 0.0, 1.0)),
    "scalbn": lambda x, n: x * np.exp2(n.astype(np.float64)),
    "sinpi": lambda x: np.sin(np.pi * np.fmod(x, 2.0)),
    "tgamma": _total(math.gamma, math.inf),
}  # fmt: skip
"""Functions of floating-point numbers by libdevice's name, without the prefix and the type's letter."""

ROUNDED: dict[str, Callable[..., np.ndarray]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "rcp": np.reciprocal,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1.0 / np.sqrt(x),
}
"""Operations rounded to nearest even: `__nv_fadd_rn` is "add" for float32, `__nv_dadd_rn` for float64."""

DIRECTED: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "rd": lambda exact, near: near > exact,
    "ru": lambda exact, near: near < exact,
    "rz": lambda exact, near: np.abs(near) > np.abs(exact),
}
"""Which results of rounding to nearest are one number too far, for other ways to round: down, up, towards zero."""

TESTS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "isfinited": np.isfinite,
    **{f"isinf{t}": np.isinf for t in ("d", "f")},
    **{f"isnan{t}": np.isnan for t in ("d", "f")},
    **{f"signbit{t}": np.signbit for t in ("d", "f")},
    "finitef": np.isfinite,
}

BITS = {
    "float_as_int": np.int32,
    "float_as_uint": np.uint32,
    "int_as_float": np.float32,
    "uint_as_float": np.float32,
    "double_as_longlong": np.int64,
    "longlong_as_double": np.float64,
}
"""The type as which the bits are read."""


def _popcount(x: np.ndarray) -> np.ndarray:
    bits = np.unpackbits(np.ascontiguousarray(x).view(np.uint8).reshape(*x.shape, x.itemsize), axis=-1)
    return bits.sum(axis=-1)


def _leading_zeros(x: np.ndarray) -> np.ndarray:
    wide = 8 * x.itemsize
    value, length = x.astype(f"u{x.itemsize}").astype(object), np.vectorize(lambda v: wide - int(v).bit_length())
    return length(value)


INTEGERS: dict[str, Callable[..., np.ndarray]] = {
    "abs": np.abs,
    "llabs": np.abs,
    "popc": _popcount,
    "popcll": _popcount,
    "clz": _leading_zeros,
    "clzll": _leading_zeros,
    "mul24": lambda x, y: (x << 8 >> 8) * (y << 8 >> 8),
    "umul24": lambda x, y: (x & 0xFFFFFF) * (y & 0xFFFFFF),
    "mulhi": lambda x, y: x.astype(np.int64) * y.astype(np.int64) >> 32,
    "umulhi": lambda x, y: x.astype(np.uint64) * y.astype(np.uint64) >> np.uint64(32),
    "llrint": np.rint,
    "llrintf": np.rint,
    "llround": _round,
    "llroundf": _round,
    "ilogb": _exponent,
    "ilogbf": _exponent,
}


def function(symbol: str) -> Callable[..., np.ndarray] | None:
    """What computes a symbol of libdevice from NumPy arrays; None for one that is not here.

    The result may have a wider type than the symbol's: the caller rounds.
    """
    name = symbol.removeprefix("__nv_")
    if name in BITS:
        return lambda x: np.ascontiguousarray(x).view(BITS[name])
    if name in TESTS or name in INTEGERS:
        return TESTS.get(name) or INTEGERS[name]
    if name.endswith("_rn"):
        plain = name.removesuffix("_rn")
        return _wide(ROUNDED.get(plain[1:]) or REAL.get(plain.removesuffix("f")))
    plain, _, way = name.rpartition("_")
    if way in DIRECTED and plain[:1] == "f" and plain[1:] in ROUNDED:
        return _directed(_wide(ROUNDED[plain[1:]]), way)
    return _wide(REAL.get(name) or REAL.get(name.removesuffix("f")))


def _directed(compute: Callable, way: str) -> Callable:
    """`compute` in float64, rounded to float32 in one direction."""
    target = {"rd": -np.inf, "ru": np.inf, "rz": 0.0}[way]

    def rounded(*values):
        exact = compute(*values)
        near = exact.astype(np.float32)
        return np.where(DIRECTED[way](exact, near), np.nextafter(near, np.float32(target)), near)

    return rounded


def _wide(compute: Callable | None) -> Callable | None:
    """`compute`, on floating-point arguments as float64."""
    if compute is None:
        return None
    return lambda *values: compute(*(v.astype(np.float64) if v.dtype.kind == "f" else v for v in values))
