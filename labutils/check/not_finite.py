"""Where the first NaN or inf arises: a Triton kernel is run once more, and NumPy reports each operation that makes one.

Triton's interpreter computes with NumPy, which calls back for an invalid operation (0 / 0, inf − inf, 0 · inf), a
division by zero and an overflow. The operands are in the interpreter's frame.
"""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..backends import child, errors, hooks
from ..backends.access import Recorder
from ..spec.inputs import Run
from . import statements
from .findings import Evidence

MOST = 40
"""Operations that are kept: the first ones matter."""

DEPTH = 4
"""Frames above the callback in which the interpreter's operation is looked for."""


@dataclass(frozen=True)
class Event:
    """An operation that made a value that is not finite: `what` NumPy calls it, the operands if they are known."""

    what: str
    operation: str
    filename: str
    line: int


class _Listener(Recorder):
    """Turns the reports on when a program begins: the interpreter runs the grid with all of them off."""

    def program(self, place, number):
        super().program(place, number)
        np.seterr(invalid="call", divide="call", over="call", under="ignore")


def trace(fn: Callable, run: Run, seconds: float) -> list[Event] | None:
    """The first operations that make inf or NaN; empty where none does, None where the kernel cannot be run."""
    result = next(iter(child.run([functools.partial(_job, fn, run)], seconds)), "died")
    if isinstance(result, str):
        return None
    return [Event(*e) for e in result["events"]]


def _job(fn: Callable, run: Run) -> dict:
    events: list[list] = []
    recorder = _Listener()

    def note(what: str, _flag: int) -> None:
        if len(events) < MOST:
            frame = sys._getframe(1)
            filename, line = _learners(frame)
            if line:
                events.append([what.split()[0], _operation(frame), filename, line])

    for b in run.buffers.values():
        recorder.track(b.name, b.storage.data_ptr(), b.storage.element_size(), b.inside().numpy(), b.start)
    with np.errstate(call=note), hooks.recording(recorder):
        child.attempt(fn, run.arguments)
    return {"events": events}


def _learners(frame) -> tuple[str, int]:
    while frame is not None:
        if errors.is_learners(frame.f_code.co_filename):
            return frame.f_code.co_filename, frame.f_lineno
        frame = frame.f_back
    return "", 0


def _operation(frame) -> str:
    """`0 / 0`, `inf − inf`, `exp of 99.5`: from the operands in the interpreter's frame, or "" without them."""
    for _ in range(DEPTH):
        if frame is None:
            return ""
        values, name = frame.f_locals, frame.f_code.co_name
        if name == "binary_op" and "op" in values:
            return _binary(values["lhs"].data, values["rhs"].data, values["op"])
        if name == "unary_op" and "op" in values:
            return _unary(values["arg"].data, values["op"])
        frame = frame.f_back
    return ""


SIGNS = {"divide": "/", "true_divide": "/", "subtract": "−", "multiply": "·", "add": "+"}


def _binary(a, b, op) -> str:
    sign = SIGNS.get(getattr(op, "__name__", ""))
    if sign is None:
        return ""
    a, b = np.broadcast_arrays(np.asarray(a), np.asarray(b))
    with np.errstate(all="ignore"):
        result = op(a, b)
    made = np.isnan(result) & ~np.isnan(a) & ~np.isnan(b)
    if not made.any():
        made = np.isinf(result) & np.isfinite(a) & np.isfinite(b)
    if not made.any():
        return ""
    k = int(np.flatnonzero(made)[0])
    return f"{_shown(a.flat[k])} {sign} {_shown(b.flat[k])}"


def _unary(x, op) -> str:
    x = np.asarray(x)
    with np.errstate(all="ignore"):
        result = op(x)
    made = ~np.isfinite(result) & np.isfinite(x)
    if not made.any():
        return ""
    return f"{getattr(op, '__name__', 'function')}({_shown(x.flat[int(np.flatnonzero(made)[0])])})"


def _shown(value) -> str:
    return "0" if value == 0 else f"{float(value):.4g}".replace("-", "−")


def loaded(texts: list[tuple[int, str]]) -> Evidence:
    """Of NaN that no operation makes: the loads that can bring it. `texts` are the kernels' texts."""
    loads = statements.naming(texts, r"\btl\.load\(")
    calls = [(line, statements.memory_call(line.text)) for line in loads]
    unmasked = [line for line, call in calls if call and not call.mask]
    undefined = [line for line, call in calls if call and call.mask and "other" not in line.text]
    lines, what = (
        (unmasked, "without mask") if unmasked else (undefined, "without `other`, so masked lanes hold anything")
    )
    advice = "Follow what is stored back to the loads: which of them reads memory that holds no data?"
    if lines:
        advice = (
            f"Loads {what}: {'; '.join(map(str, lines[:3]))}. Which of them also reads places that hold no data? A "
            "factor of 0 does not help there, since 0 · NaN is NaN."
        )
    return Evidence("no operation makes the first NaN, so it comes from a load or a product of matrices", advice)


def infinite_operand(texts: list[tuple[int, str]]) -> Evidence | None:
    """Of NaN: a load that puts inf in place of masked lanes, and a product of matrices that takes what was loaded."""
    for line in statements.naming(texts, r"^\s*\w+\s*=\s*tl\.load\(.*\bother\s*=\s*-?float\("):
        loaded = line.text.split("=")[0].strip()
        for product in statements.naming(texts, r"\btl\.dot\("):
            if not re.search(rf"\b{loaded}\b", _arguments(product.text, "tl.dot(")):
                continue
            return Evidence(
                f"{line} puts inf into what {product} multiplies: inf · 0, and inf − inf in its sums, are NaN",
                f"Load {loaded} with other=0.0. What must not count is set to -inf after the product, in the result.",
            )
    return None


def _arguments(text: str, call: str) -> str:
    """What stands between the parentheses of a call."""
    rest, depth = text.partition(call)[2], 1
    for at, c in enumerate(rest):
        depth += (c in "([") - (c in ")]")
        if not depth:
            return rest[:at]
    return rest


_WHERE = "Only if that value is right choose the result of this case with tl.where."


def evidence(
    events: list[Event], nan: bool, lines: Callable[[str], list[str]], finite: bool = False
) -> Evidence | None:
    """The operation that made the first NaN (or, without `nan`, the first inf). `finite`: the inputs of this case hold
    no infinity, so one that appears was computed."""
    wanted = [e for e in events if e.what == "invalid"] if nan else [e for e in events if e.what != "invalid"]
    first = next((e for e in wanted if e.operation), None)
    if first is None:
        return None
    text = statements.shortened(statements.statement(lines(first.filename), first.line))
    sides = first.operation.split()
    if nan and "/" in sides:
        advice = (
            "A divisor is 0 or inf there: print what it was computed from, and find the first value that is not what "
            f"the formula asks for. {_WHERE}"
        )
    elif nan and finite:
        advice = (
            "No input of this case is infinite: before you guard against it, follow the infinite operand back to the "
            "line that made it, and check the formula there (what is subtracted from what, what a maximum is taken of)."
        )
    elif nan:
        advice = (
            "Follow the infinite operand back. If it should be finite there (a maximum of all entries so far, also of "
            f"earlier blocks), correct the line that made it. {_WHERE}"
        )
    elif "/" in sides:
        advice = "The divisor is 0 there: find where it comes from, and choose with tl.where what to divide by."
    elif sides[0].startswith("exp"):
        advice = (
            "Find why that argument is so large: is the row's maximum subtracted first, and is it subtracted the right "
            "way round?"
        )
    else:
        advice = (
            "Find why that result is so large: check the type of its operands (float16 ends at 65504), and the formula."
        )
    return Evidence(f"the first {'NaN' if nan else 'inf'} is {first.operation} on line {first.line}, `{text}`", advice)
