"""Values of plain exercises as JSON and back: what goes into a learner's function, and comes out of it, in the judge.

Numbers, text, lists, tuples, sets and dicts of them, and the course's own records (`Ledger`, `Roof`). Nothing is
unpickled, so that no value from a sandbox can be more than it says.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Mapping
from typing import Any

DEEPEST, MOST = 6, 10_000


class NotSerializable(TypeError):
    """This value cannot be written as JSON; the message names its type."""


@functools.cache
def _records() -> dict[str, type]:
    from ..gpu.roofline import Ledger, Roof

    return {"Ledger": Ledger, "Roof": Roof}


def encode(value: Any, depth: int = 0) -> Any:
    """The value as JSON. Raises Untold."""
    if depth > DEEPEST:
        raise NotSerializable("it is nested too deeply")
    if value is None or isinstance(value, (bool, str)):
        return value
    inner = functools.partial(encode, depth=depth + 1)
    for kind in (list, tuple, set, frozenset):
        if type(value) is kind:
            return {kind.__name__: [inner(v) for v in value]}
    if isinstance(value, Mapping):
        return {"dict": [[inner(k), inner(v)] for k, v in value.items()]}
    for name, record in _records().items():
        if type(value) is record:
            return {name: {f.name: inner(getattr(value, f.name)) for f in dataclasses.fields(record)}}
    try:
        number = float(value)
    except Exception:
        raise NotSerializable(type(value).__name__) from None
    if isinstance(value, int) and not isinstance(value, bool):
        return value if abs(value) < 2**200 else str(value)
    return number if math.isfinite(number) else {"float": str(number)}


def decode(encoded: Any) -> Any:
    """The value that was encoded. Raises ValueError for what `encode` never writes."""
    return _decode(encoded, 0, [MOST])


def _decode(encoded: Any, depth: int, left: list[int]) -> Any:
    left[0] -= 1
    if depth > 2 * DEEPEST or left[0] < 0:
        raise ValueError("too large or too deep")
    if encoded is None or isinstance(encoded, (bool, int, float, str)):
        return encoded
    if not (isinstance(encoded, dict) and len(encoded) == 1):
        raise ValueError("not encoded by encode()")
    (kind, inner), inside = next(iter(encoded.items())), functools.partial(_decode, depth=depth + 1, left=left)
    if kind == "float" and inner in ("nan", "inf", "-inf"):
        return float(inner)
    if kind in ("list", "tuple", "set", "frozenset") and isinstance(inner, list):
        make = {"list": list, "tuple": tuple, "set": set, "frozenset": frozenset}[kind]
        return make(inside(v) for v in inner)
    if kind == "dict" and isinstance(inner, list) and all(isinstance(p, list) and len(p) == 2 for p in inner):
        return {inside(k): inside(v) for k, v in inner}
    record = _records().get(kind)
    if record is not None and isinstance(inner, dict):
        known = {f.name for f in dataclasses.fields(record)}
        if inner.keys() <= known:
            return record(**{k: inside(v) for k, v in inner.items()})
    raise ValueError("not encoded by encode()")
