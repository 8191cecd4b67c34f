"""Unit 22, numbers: what a format can represent, which gradients underflow, and how loss scaling saves them."""

from __future__ import annotations

from ..gpu.formats import FORMATS, Format
from ..spec.exercise import Case, PlainExercise, Points, register
from ._numbers import near

UNIT = "22_low_precision"

# --- what a format can represent -----------------------------------------------------------------------------------

QUESTIONS = ("the largest value", "the smallest normal number", "the smallest positive value", "bits of a significand")


def _facts(exponent: int, mantissa: int, top: str) -> tuple[float, float, float, int]:
    f = Format("", exponent, mantissa, top)
    return f.largest, f.smallest_normal, f.smallest, mantissa + 1


def _moved(f: Format, bias: int) -> tuple[float, float, float]:
    shift = 2.0 ** (f.bias - bias)
    return f.largest * shift, f.smallest_normal * shift, f.smallest * shift


def _why(f: Format, number: int, yours) -> str | None:
    """A hint for the common mistakes in one of the four questions."""
    if any(near(yours, _moved(f, bias)[number]) for bias in (f.bias - 1, f.bias + 1) if number < 3):
        return "Off by a factor of 2: the bias is 2^(exponent bits − 1) − 1."
    others = {t: Format("", f.exponent, f.mantissa, t) for t in ("ieee", "nan", "numbers") if t != f.top}
    if number == 0:
        if near(yours, 2.0 ** (f.bias + (f.top != "ieee"))):
            return "That is only the power of two: the largest significand is all ones, 2 − 2^-mantissa."
        if near(yours, 2.0 ** (f.bias + 1 + (f.top != "ieee"))):
            return "That is the next power of two: the largest significand is 2 − 2^-mantissa, not 2."
        if f.top != "ieee" and near(yours, others["ieee"].largest):
            return f'That reserves the top exponent. With top = "{f.top}" it encodes numbers too.'
        if any(near(yours, g.largest) for g in others.values()):
            return (
                'How many codes of the top exponent are numbers? "ieee": none; "nan": all but the last; "numbers": all.'
            )
    if number == 2 and near(yours, f.smallest_normal):
        return "Subnormal numbers are smaller than the smallest normal number: they have no leading 1."
    if number == 3 and near(yours, f.mantissa):
        return "Count the implicit leading 1 of a normal number too."
    return None


def _examine_facts(sizes, arguments, yours) -> tuple[str, str] | None:
    expected, f = _facts(**sizes), Format("", **sizes)
    call = f'facts({sizes["exponent"]}, {sizes["mantissa"]}, "{sizes["top"]}")'
    if not isinstance(yours, (tuple, list)) or len(yours) != 4:
        return f"{call} returned {yours!r}", f"Return four numbers: {', '.join(QUESTIONS)}."
    for number, (question, mine, right) in enumerate(zip(QUESTIONS, yours, expected, strict=True)):
        if not near(mine, right):
            hint = _why(f, number, mine) or "Write down that number's bits: sign, exponent, mantissa."
            return f"{question}: {call} returned {mine!r}, expected {right!r}", hint
    return None


def _format(name: str) -> Case:
    f = FORMATS[name]
    return Case(name.upper(), {"exponent": f.exponent, "mantissa": f.mantissa, "top": f.top})


register(
    PlainExercise(
        id=f"{UNIT}/facts",
        title="What a format can represent",
        entry="facts",
        points=Points(correct=2),
        examine=_examine_facts,
        cases=tuple(_format(n) for n in ("fp16", "bf16", "tf32", "fp8 e5m2", "fp8 e4m3", "fp4 e2m1")),
        draw=lambda rng: {
            "exponent": rng.randrange(2, 8),
            "mantissa": rng.randrange(1, 11),
            "top": rng.choice(["ieee", "nan", "numbers"]),
        },
    )
)


# --- gradient underflow --------------------------------------------------------------------------------------------

FP16 = FORMATS["fp16"]


def _share(gradients, keep) -> float:
    counted = [g for g in gradients if g != 0]
    return sum(map(keep, counted)) / len(counted) if counted else 0.0


def _lost(gradients, smallest, scale) -> float:
    return _share(gradients, lambda g: abs(g * scale) <= smallest / 2)


def _gradients(numbers: tuple, smallest: float = FP16.smallest, scale: float = 1.0):
    """Cases hold only numbers, so a case gives its gradients as multiples of the smallest value."""
    return {"multiples": numbers, "smallest": smallest, "scale": scale}


def _lost_arguments(multiples, smallest, scale):
    return {"gradients": [m * smallest for m in multiples], "smallest": smallest, "scale": scale}


def _examine_lost(sizes, arguments, yours) -> tuple[str, str] | None:
    gradients, smallest, scale = arguments.values()
    right = _lost(**arguments)
    if near(yours, right):
        return None
    wrong = (
        (_share(gradients, lambda g: abs(g * scale) < smallest / 2), "Exactly half of the smallest value is a tie, and "
         "the even neighbor is 0: it is lost too."),
        (_share(gradients, lambda g: abs(g * scale) < smallest), "Rounding goes to the nearest value: more than half "
         "of the smallest value becomes the smallest value, not 0."),
        (_share(gradients, lambda g: abs(g * scale) <= smallest), "Rounding goes to the nearest value: more than "
         "half of the smallest value becomes the smallest value, not 0."),
        (_share(gradients, lambda g: abs(g) <= smallest / 2), "The loss is multiplied by `scale`, and so are its "
         "gradients."),
        (_share(gradients, lambda g: abs(g / scale) <= smallest / 2), "Gradients are multiplied by the scale before "
         "they are stored, and divided by it later, in fp32."),
        (_share(gradients, lambda g: g * scale <= smallest / 2), "Use abs for negative gradients."),
        (1 - right, "That is the fraction that survives."),
        (right * sum(g != 0 for g in gradients), "That is a number: divide by how many are nonzero."),
        (sum(abs(g * scale) <= smallest / 2 for g in gradients) / max(len(gradients), 1), "A gradient that is 0 anyway "
         "is not lost: exclude zeros from numerator and denominator."),
        (right * sum(g != 0 for g in gradients) / max(len(gradients), 1), "A gradient that is 0 anyway is not lost: "
         "exclude zeros from the denominator too."),
    )  # fmt: skip
    hint = next((text for value, text in wrong if near(yours, value)), "Compute the first gradient by hand.")
    listed = ", ".join(f"{g:.3g}" for g in gradients[:6]) + (", …" if len(gradients) > 6 else "")
    return f"lost([{listed}], {smallest:.3g}, {scale:g}) is {yours!r}, expected {right!r}", hint


def _draw_lost(rng):
    multiples = tuple(
        rng.choice([0, 0.25, 0.5, 0.75, 1, 3, 100]) * rng.choice([-1, 1]) for _ in range(rng.randrange(5, 40))
    )
    return _gradients(multiples, 2.0 ** -rng.randrange(8, 30), 2.0 ** rng.randrange(0, 3))


register(
    PlainExercise(
        id=f"{UNIT}/lost",
        title="Gradients that become 0",
        entry="lost",
        points=Points(correct=1),
        make=_lost_arguments,
        examine=_examine_lost,
        cases=(
            Case("one of two, fp16", _gradients((0.25, 2.0))),
            Case("exactly half of the smallest value", _gradients((0.5, -0.5, 0.75, 1.0, 4.0))),
            Case("negative gradients", _gradients((-0.25, -3.0, -50.0, 0.125, -0.375))),
            Case("some zeros", _gradients((0.0, 0.25, 0.0, 2.0, 0.0))),
            Case("a scale of 8 saves some", _gradients((0.25, 0.03125, -0.25, 0.0625, 2.0, -0.125), scale=8.0)),
            Case("E5M2, a scale of 2", _gradients((0.25, 0.2, -0.3, 1.0, -0.125), 2.0**-16, 2.0)),
        ),
        draw=_draw_lost,
    )
)


# --- loss scaling --------------------------------------------------------------------------------------------------


def _scaler(finite, scale, interval, *, steps_anyway=False, keeps_count=False, grows_on=False, after=False, once=False):
    """(scale, stepped) of each step; the flags are well-known mistakes."""
    done, good = [], 0
    for ok in finite:
        used = scale
        if ok:
            good += 1
            if good == interval or (grows_on and good > interval):
                scale *= 2
                good = good if once or grows_on else 0
        else:
            scale /= 2
            good = good if keeps_count else 0
        done.append((scale if after else used, bool(ok or steps_anyway)))
    return done


MISTAKES = (
    (dict(steps_anyway=True), "A step is taken although gradients overflowed: infinities reach the weights. Skip it."),
    (dict(keeps_count=True), "The count continues after an overflow: it must count good steps in a row."),
    (dict(grows_on=True), "The scale doubles at every step after the first doubling: reset the count then."),
    (dict(once=True), "The scale doubles only once: reset the count of good steps when it doubles."),
    (dict(after=True), "Those are the scales after each step's update. The loss is multiplied before the update: "
     "record the scale first, then change it."),
)  # fmt: skip


def _never_grows(finite, scale, interval):
    return _scaler(finite, scale, len(finite) + 1)


def _never_shrinks(finite, scale, interval):
    done, good = [], 0
    for ok in finite:
        done.append((scale, bool(ok)))
        good = good + 1 if ok else 0
        if good == interval:
            scale, good = scale * 2, 0
    return done


def _plainly(yours):
    try:
        return [(float(s), bool(t)) for s, t in yours]
    except (TypeError, ValueError):
        return None


def _examine_scaler(sizes, arguments, yours) -> tuple[str, str] | None:
    right, mine = _scaler(**arguments), _plainly(yours)
    if mine is None:
        return f"scaler returned {yours!r}", "Return a list of pairs (scale, stepped), one per step."
    if mine == right:
        return None
    steps = "".join("." if ok else "x" for ok in arguments["finite"])
    if len(mine) != len(right):
        return f"{len(mine)} pairs for {len(right)} steps ({steps}, x = overflow)", "Append a pair for every step."
    at = next(i for i, (a, b) in enumerate(zip(mine, right, strict=True)) if a != b)
    message = f"step {at} of {steps} (x = overflow, interval {arguments['interval']}): {mine[at]}, expected {right[at]}"
    for flags, text in MISTAKES:
        if mine == _plainly(_scaler(**arguments, **flags)):
            return message, text
    if mine == _plainly(_never_grows(**arguments)):
        return message, "The scale never grows: after `interval` good steps in a row, double it."
    if mine == _plainly(_never_shrinks(**arguments)):
        return message, "The scale never shrinks: after an overflow, halve it."
    if mine == [(s, not t) for s, t in right]:
        return message, "`stepped` tells whether the weights were updated: True where the gradients were finite."
    for other in (arguments["interval"] - 1, arguments["interval"] + 1):
        if other and mine == _plainly(_scaler(arguments["finite"], arguments["scale"], other)):
            return (
                message,
                "Off by one: the scale doubles at the `interval`-th good step in a row.",
            )
    return message, "Trace the steps up to this one: the scale, and the count of good steps in a row."


def _scaler_arguments(steps, scale, interval):
    return {"finite": [c == "." for c in steps], "scale": scale, "interval": interval}


def _events(steps: str, scale: float = 65536.0, interval: int = 3) -> dict:
    return {"steps": steps, "scale": scale, "interval": interval}


register(
    PlainExercise(
        id=f"{UNIT}/scaler",
        title="Loss scaling, step by step",
        entry="scaler",
        points=Points(correct=2),
        make=_scaler_arguments,
        examine=_examine_scaler,
        cases=(
            Case("all finite, too few to grow", _events("..")),
            Case("one overflow", _events(".x.")),
            Case("growth after three", _events("......", 1024.0)),
            Case("an overflow restarts the count", _events("..x..x....", 1024.0)),
            Case("overflow after overflow at the start", _events("xxx....x....", 2.0**24, 4)),
            Case("an interval of 1", _events("..x..", 8.0, 1)),
        ),
        draw=lambda rng: _events(
            "".join(rng.choice("....x") for _ in range(rng.randrange(6, 30))),
            2.0 ** rng.randrange(8, 20),
            rng.randrange(2, 6),
        ),
    )
)
