"""Outputs that are the right result transformed: a constant factor, a function of it, its elements in other places.

Each is named only if it holds for every refused case that is looked at, and would not have changed one that passed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch

from ..spec.precision import ROUND_OFF
from .compare import Comparison, OutputComparison
from .findings import Evidence

Sample = tuple[Comparison, OutputComparison]

FACTORS = {
    2.0: "the factor 1/2 is missing, or something is counted twice",
    0.5: "half is lost, or something is halved twice",
    -1.0: "the sign is wrong",
    math.log(2): "exp2 or log2 takes base 2: multiply its argument by log2(e), or its result by ln 2",
    1 / math.log(2): "exp2 or log2 takes base 2: multiply its argument by log2(e), or its result by ln 2",
}

FUNCTIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "{name} is the square of the right result: a square root is missing": lambda y: y * y,
    "{name} is the square root of the right result": lambda y: y.clamp(min=0).sqrt(),
    "{name} is 1 / the right result": lambda y: 1 / y,
    "{name} is the absolute value of the right result": torch.abs,
    "{name} is the right result with negative values set to 0": lambda y: y.clamp(min=0),
    "{name} is the exponential of the right result": torch.exp,
    "{name} is the logarithm of the right result": torch.log,
    "{name} is the right result cut to whole numbers": torch.trunc,
    "{name} is the right result rounded to whole numbers": torch.round,
}


def of_result(samples: list[Sample], right: Sequence[Sample] = ()) -> Evidence | None:
    """How the outputs of all these cases come from the right ones, or None. `right` are cases that passed."""
    return (
        _nothing(samples)
        or _codes(samples)
        or _constant(samples, right)
        or _factor(samples, right)
        or _function(samples, right)
    )


def changes(wrong: torch.Tensor, output: OutputComparison) -> bool:
    """Is this another result than an output that is right, in more than a few elements? NaN is unknown."""
    known = ~wrong.isnan()
    return bool((known & ~_close(output.got, wrong, output)).sum() > 0.05 * known.sum())


def _refuted(right: Sequence[Sample], wanted: Callable[[Sample], torch.Tensor | None]) -> bool:
    """Would one of the cases that passed have come out otherwise?"""
    results = ((wanted(s), s[1]) for s in right)
    return any(w is not None and w.shape == o.got.shape and changes(w, o) for w, o in results)


def _close(got: torch.Tensor, wanted: torch.Tensor, output: OutputComparison) -> torch.Tensor:
    slack = 2 * torch.nan_to_num(output.limit) + max(4 * ROUND_OFF[output.dtype], 2e-6) * wanted.abs()
    return ((got - wanted).abs() <= slack) | (got.isnan() & wanted.isnan()) | (got == output.rounded(wanted))


def _holds(samples: list[Sample], wanted: Callable[[Sample], torch.Tensor | None], least: int = 4) -> bool:
    """Is each output what `wanted` says, apart from NaN there, which is unknown? And does that tell it from the right
    one in enough elements?"""
    telling = 0
    for sample in samples:
        output, w = sample[1], wanted(sample)
        if w is None or w.shape != output.got.shape:
            return False
        known = ~w.isnan() | output.got.isnan()
        close = _close(output.got, w, output)
        if known.sum() < 0.5 * known.numel() or (close & known).sum() < 0.97 * known.sum():
            return False
        if (output.bad & known & close).sum() < 0.95 * (output.bad & known).sum():
            return False
        telling += int((output.bad & known).sum())
    return telling >= least


def _nothing(samples: list[Sample]) -> Evidence | None:
    """One number everywhere."""
    values = {float(v) for _, o in samples for v in o.got.unique()[:2]}
    if len(values) == 1 or all(o.got.isnan().all() for _, o in samples):
        value = next(iter(values))
        if sum(int(o.bad.sum()) for _, o in samples) < 3:
            return None
        if value != value:
            return Evidence(
                "every element of {name} is NaN",
                "Look for 0 / 0, inf − inf or inf · 0 in the formula, and for a value that is used before it is set: "
                "store the intermediate values one after another to find the first NaN.",
                replaces=True,
            )
        advice = (
            "Nothing was added to the initial value, or everything is multiplied by 0: store the loaded values "
            "themselves to see whether they arrive."
        )
        if math.isinf(value):
            advice = (
                "Something is infinite from the start, an initial value or a neutral value of a load (a sum needs 0), "
                "or exp overflows in every element."
            )
        return Evidence(f"every element of {{name}} is {value:g}, whatever the inputs", advice, replaces=True)
    return None


def _codes(samples: list[Sample]) -> Evidence | None:
    """Of codes in whole numbers: all wrong ones are wrong by the same number, or in the same bits."""
    if any(o.buffer.view.is_floating_point() for _, o in samples):
        return None
    pairs = [(o.got[o.bad].long(), o.expected[o.bad].round().long()) for _, o in samples]
    got, right = (torch.cat([p[k] for p in pairs]) for k in (0, 1))
    if got.numel() < 4:
        return None
    difference, bits = (got - right).unique(), (got ^ right).unique()
    if len(got.unique()) == len(right.unique()) == 1:
        said = f"every wrong element of {{name}} is {got[0]}, where {right[0]} belongs"
    elif len(difference) == 1:
        said = f"every wrong element of {{name}} is {abs(int(difference))} too {'large' if difference > 0 else 'small'}"
    elif len(bits) == 1:
        said = f"every wrong element of {{name}} differs from the right one in the same bits, {int(bits):#x}"
    elif field := _one_code(got, right):
        wrong, belongs, each = field
        said = f"every wrong code of {each} bits in {{name}} is {wrong} where {belongs} belongs, apart from its sign"
    elif fields := _fields(bits.tolist()):
        said = f"every wrong element of {{name}} is wrong in bit {fields[0]}, and some in bit {fields[1]}"
    else:
        return None
    fine = torch.cat([o.expected[~o.bad].round().long() for _, o in samples])
    telling = [b for b in range(8) if bool((right >> b & 1).all()) and not bool((fine >> b & 1).any())]
    if telling and fine.numel() >= 4:
        said += f"; wrong are those whose bit {telling[0]} (of value {1 << telling[0]}) is set, and no others"
    return Evidence(
        said,
        "Write the right value of one of them and yours in binary: which field has the wrong value or stands at the "
        "wrong bit, and what do the inputs of these elements have in common?",
        replaces=True,
    )


def _one_code(got: torch.Tensor, right: torch.Tensor) -> tuple[int, int, int] | None:
    """Where one magnitude stands for one other one in all wrong codes of 4 bits, two in a byte, or of 8: (wrong, right,
    bits); else None."""
    for bits, shifts in ((8, (0,)), (4, (0, 4))):
        wrong = set()
        for shift in shifts:
            one, other = got >> shift & (1 << bits) - 1, right >> shift & (1 << bits) - 1
            differ = one != other
            wrong |= set(zip(one[differ].tolist(), other[differ].tolist(), strict=True))
        sign = 1 << bits - 1
        sizes = {(a & sign - 1, b & sign - 1) for a, b in wrong}
        if len(sizes) == 1 and all(a & sign == b & sign for a, b in wrong):
            return *sizes.pop(), bits
    return None


def _fields(differences: list[int]) -> tuple[str, str] | None:
    """Bits in which all codes are wrong and those in which only some are, if they are few."""
    always, sometimes = differences[0], 0
    for d in differences:
        always &= d
        sometimes |= d
    sometimes &= ~always
    bits = [[str(b) for b in range(32) if x >> b & 1] for x in (always, sometimes)]
    return (" and ".join(bits[0]), " or ".join(bits[1])) if all(1 <= len(b) <= 2 for b in bits) else None


def _constant(samples: list[Sample], right: Sequence[Sample]) -> Evidence | None:
    """The right result plus a number."""
    difference = _common([(o.got - o.expected)[o.bad & o.expected.isfinite()] for _, o in samples], samples)
    if difference is None or not _holds(samples, lambda s: s[1].expected + difference):
        return None
    if _refuted(right, lambda s: s[1].expected + difference):
        return None
    return Evidence(
        f"every element of {{name}} is the right result {'+' if difference > 0 else '−'} {abs(difference):.6g}",
        "Look for a number that is added once too often or too rarely: an initial value, a constant of the formula.",
        replaces=True,
    )


def _factor(samples: list[Sample], right: Sequence[Sample]) -> Evidence | None:
    """The right result times a number, or times a size of the case."""
    large = [o.bad & (o.expected.abs() > 1e-3 * o.expected.abs().nan_to_num(posinf=0.0).max()) for _, o in samples]
    ratios = [
        (o.got / o.expected)[m & o.expected.isfinite() & (o.expected != 0)]
        for (_, o), m in zip(samples, large, strict=True)
    ]
    factor = _common(ratios, samples)
    if (
        factor
        and abs(factor - 1) > 1e-6
        and _holds(samples, lambda s: s[1].expected * factor)
        and not _refuted(right, lambda s: s[1].expected * factor)
    ):
        meaning = next((t for f, t in FACTORS.items() if math.isclose(f, factor, rel_tol=1e-3)), "")
        return Evidence(
            f"every element of {{name}} is {factor:.6g} times the right result" + (f": {meaning}" if meaning else ""),
            "Look for a factor in the formula that is missing, doubled or inverted, and for terms that are added more "
            "than once.",
            replaces=True,
        )
    return _size_factor(samples, right)


MOST_TIMES = 64


def by_case(samples: list[Sample]) -> Evidence | None:
    """The right result times a whole number that depends on the case: what is counted more than once in each pass."""
    times = [_times(s) for s in samples]
    if None in times or len(set(times)) < 2 or sum(int(o.bad.sum()) for _, o in samples) < 4:
        return None
    first = {k: s[0].run.case.name for k, s in reversed([*zip(times, samples, strict=True)])}
    said = ", ".join(f'{k} times the right result in the case "{first[k]}"' for k in sorted(first)[:3])
    return Evidence(
        f"every element of {{name}} is {said}",
        "Find what is counted more than once: a loop or a shuffle that starts one step too early, threads or blocks "
        "that add the same part, a launch that runs once more.",
        replaces=True,
    )


def _times(sample: Sample) -> int | None:
    """The whole number that each element of an output is times the right one; None where there is none."""
    output = sample[1]
    telling = output.bad & output.expected.isfinite() & (output.expected != 0)
    ratio = float((output.got / output.expected)[telling].median()) if telling.any() else math.nan
    if not 1.5 < ratio < MOST_TIMES + 0.5 or abs(ratio - round(ratio)) > 1e-3:
        return None
    k = round(ratio)
    return k if _holds([sample], lambda s: s[1].expected * k, least=1) else None


TELLING = 0.05
"""An element tells the factor of its row if it is at least this part of the row's largest element."""


MOST_FREE = 8
"""Wrong elements that must fit a row's factor, beside the one of each row that gives it."""


def by_row(samples: list[Sample]) -> Evidence | None:
    """The right result times a factor that each row has of its own: what rows are divided by is wrong."""
    factors = [_row_factors(o) for _, o in samples]
    known = torch.cat([f[f.isfinite()] for f in factors])
    if known.numel() < 2 or known.max() - known.min() <= 1e-3 * known.abs().max() or (known == 0).all():
        return None
    telling = 0
    for (_, output), factor in zip(samples, factors, strict=True):
        wanted = output.expected * factor
        there = ~wanted.isnan()
        if (_close(output.got, wanted, output) & there).sum() < 0.97 * there.sum():
            return None
        telling += int((output.bad & there).sum()) - int(factor.isfinite().sum())
    if telling < MOST_FREE:
        return None
    first, second = known[0].item(), known[(known - known[0]).abs().argmax()].item()
    return Evidence(
        f"each row of {{name}} is the right one times a factor of its own, such as {first:.4g} and {second:.4g}",
        "What a row is divided or multiplied by is wrong: a sum, a mean, a norm or a maximum of it. Print it for one "
        "row: which elements enter it, and by which number is it divided?",
        replaces=True,
    )


PARTS = (32, 64, 128, 16, 256)
"""Elements of a row that a warp or a block of columns has."""


def by_part(samples: list[Sample]) -> Evidence | None:
    """The right result times a factor that each part of a row has of its own: what a row shares was not combined."""
    for part in PARTS:
        telling, factors = 0, []
        for _, output in samples:
            if output.got.dim() < 2 or output.got.shape[-1] <= part:
                continue
            y, got, limit = (_in_parts(x, part) for x in (output.expected, output.got, output.limit))
            factor = _factors(y, got, limit)
            wanted = y * factor
            there = ~wanted.isnan()
            slack = 2 * limit.nan_to_num(posinf=0.0) + max(4 * ROUND_OFF[output.dtype], 2e-6) * wanted.abs()
            if (there & ((got - wanted).abs() <= slack)).sum() < 0.97 * there.sum():
                break
            telling += int(there.sum()) - int(factor.isfinite().sum())
            factors.append(factor[..., 0])
        else:
            apart = [f[tuple(row)] for f in factors for row in _apart(f).unbind()]
            if telling >= MOST_FREE and len(apart) >= 2:
                first = apart[0][apart[0].isfinite()]
                return Evidence(
                    f"each {part} neighbors in a row of {{name}} are the right elements times a factor of their own, "
                    f"such as {first.min():.4g} and {first.max():.4g} in one row",
                    "What a whole row shares, its maximum or its sum, is that of one warp or of one block of columns: "
                    "find the line where these are combined, and whether all of the row then use the result.",
                    replaces=True,
                )
    return None


def _in_parts(x: torch.Tensor, part: int) -> torch.Tensor:
    """Rows cut into parts of so many elements along a new last axis; NaN behind a row's end."""
    more = -x.shape[-1] % part
    return torch.nn.functional.pad(x.double(), (0, more), value=torch.nan).unflatten(-1, (-1, part))


def _apart(factors: torch.Tensor) -> torch.Tensor:
    """The rows whose parts have different factors."""
    known = factors.isfinite()
    low = torch.where(known, factors, torch.inf).amin(-1)
    high = torch.where(known, factors, -torch.inf).amax(-1)
    return ((high - low > 1e-2 * high.abs()) & (known.sum(-1) >= 2)).nonzero()


def _row_factors(output: OutputComparison) -> torch.Tensor:
    """For each row of an output the factor from the right row to it, as a column; NaN where too little tells it."""
    y, got = output.expected, output.got
    if y.dim() < 2 or y.shape[-1] < 2:
        return torch.full((*y.shape[:-1], 1), torch.nan, dtype=torch.float64)
    return _factors(y, got, output.limit)


def _factors(y: torch.Tensor, got: torch.Tensor, limit: torch.Tensor) -> torch.Tensor:
    """For each row the factor from the right one, `y`, to the learner's; NaN where too little tells it."""
    size = y.abs().nan_to_num(posinf=0.0)
    tells = y.isfinite() & (size > TELLING * size.amax(-1, keepdim=True)) & (size > 8 * limit)
    ratio = torch.where(tells, got / y, torch.nan)
    factor = ratio.nanmedian(-1, keepdim=True).values
    return torch.where(tells.sum(-1, keepdim=True) >= 2, factor, torch.nan)


def _size_factor(samples: list[Sample], right: Sequence[Sample]) -> Evidence | None:
    if len(samples) < 2:
        return None
    for name in samples[0][0].run.case.sizes:
        for text, power in ((name, 1.0), (f"1 / {name}", -1.0), (f"√{name}", 0.5), (f"1 / √{name}", -0.5)):

            def times(s: Sample, name=name, power=power) -> torch.Tensor:
                return s[1].expected * s[0].run.case.sizes[name] ** power

            if any(s[0].run.case.sizes.get(name, 0) <= 0 for s in [*samples, *right]):
                continue
            if _holds(samples, times) and not _refuted(right, times):
                return Evidence(
                    f"every element of {{name}} is {text} times the right result",
                    f"Look for a multiplication or division by {name} that is missing or done twice.",
                    replaces=True,
                )
    return None


def _common(values: list[torch.Tensor], samples: list[Sample]) -> float | None:
    """The one number that all these values are, nearly."""
    together = torch.cat([v.flatten() for v in values])
    together = together[together.isfinite()]
    if together.numel() < 4:
        return None
    middle = float(together.median())
    near = (together - middle).abs() <= 0.02 * abs(middle)
    if middle == 0 or near.float().mean() < 0.95:
        return None
    return float(together[near].mean())


def _function(samples: list[Sample], right: Sequence[Sample]) -> Evidence | None:
    for text, function in FUNCTIONS.items():

        def applied(s: Sample, function=function) -> torch.Tensor:
            return function(s[1].expected)

        if _holds(samples, applied) and not _refuted(right, applied):
            return Evidence(
                text,
                "Compare the last steps of the formula with the text of the exercise.",
                replaces=True,
            )
    return None


# --- elements in other places --------------------------------------------------------------------------------------


def elsewhere(samples: list[Sample], right: Sequence[Sample] = ()) -> Evidence | None:
    """Which other element's result each element holds, or None."""

    def hold(wanted: Callable[[Sample], torch.Tensor | None]) -> bool:
        return _holds(samples, wanted) and not _refuted(right, wanted)

    dims = samples[0][0].exercise.arguments[samples[0][1].name].dims
    for axis, d in enumerate(dims):
        for step in (1, -1):
            if hold(lambda s, axis=axis, step=step: _rolled(s[1].expected, axis, step)):
                here = ", ".join(k.lower() for k in dims)
                there = ", ".join(
                    f"{k.lower()} {'+' if step > 0 else '−'} 1" if n == axis else k.lower() for n, k in enumerate(dims)
                )
                return Evidence(
                    f"{{name}}[{here}] holds what belongs to {{name}}[{there}]: results are stored one place off",
                    f"Check the index of the store along {d}, against that of the loads.",
                    replaces=True,
                )
        if hold(lambda s, axis=axis: s[1].expected.flip(axis)):
            return Evidence(f"{{name}} is reversed along {d}", f"Check the index along {d}.", replaces=True)
        if hold(lambda s, axis=axis: _first(s[1].expected, axis)):
            return Evidence(
                f"every {d} of {{name}} holds the result of the first one",
                f"The loads must move along {d}: add the index along {d} times its stride to their addresses.",
                replaces=True,
            )
    return None


def _rolled(y: torch.Tensor, axis: int, step: int) -> torch.Tensor | None:
    if y.shape[axis] < 2:
        return None
    moved = torch.roll(y, -step, axis)
    moved.select(axis, y.shape[axis] - 1 if step > 0 else 0).fill_(torch.nan)
    return moved


def _first(y: torch.Tensor, axis: int) -> torch.Tensor | None:
    return y.narrow(axis, 0, 1).expand_as(y) if y.shape[axis] > 1 else None


# --- what an earlier tile left in the accumulator ------------------------------------------------------------------

TILES = (16, 32, 64, 128)
MOST_TILES = 36


def carried_over(samples: list[Sample]) -> Evidence | None:
    """Each wrong tile of an output holds what another one holds, on top of its own: the accumulator goes on."""
    for size in ((m, n) for m in TILES for n in TILES):
        pairs = [_tile_before(output, size) for _, output in samples]
        if any(pairs) and None not in pairs:
            (tile, before), (m, n) = next(p for p in pairs if p), size
            return Evidence(
                f"the tile of {m} × {n} elements of {{name}} that begins at {list(tile)} holds its own result plus "
                f"that of the tile at {list(before)}: the accumulator still holds what the tile before left in it",
                "Set the accumulator to 0 at the start of each tile: inside the loop over the tiles, before the loop "
                "over K.",
                replaces=True,
            )
    return None


def _tile_before(output: OutputComparison, size: tuple[int, int]) -> tuple | None:
    """The first wrong tile, and the one that was added to it; () if too few elements show that. None: a wrong tile is
    explained by no other one."""
    got, more = output.got, output.got - output.expected
    if got.dim() != 2 or not output.bad.any() or not got.isfinite().all():
        return None
    (rows, columns), (m, n) = got.shape, size
    corners = [(r, c) for r in range(0, rows, m) for c in range(0, columns, n)]
    if not 2 <= len(corners) <= MOST_TILES:
        return None
    found: tuple = ()
    for tile in corners:
        if not _part(output.bad, tile, size).any():
            continue
        fitting = [_adds(output, got, more, t, tile, size) for t in corners if t != tile]
        others = [t for t in corners if t != tile]
        if True in fitting:
            found = found or (tile, others[fitting.index(True)])
        elif False in fitting:
            return None
    return found


def _part(x: torch.Tensor, tile: tuple[int, int], size: tuple[int, int]) -> torch.Tensor:
    return x[tile[0] : tile[0] + size[0], tile[1] : tile[1] + size[1]]


def _adds(output: OutputComparison, got, more, before, tile, size) -> bool | None:
    """Is what a tile holds too much what another one holds? None: too few elements show it. Only where neither is 0: a
    ReLU may have cut it off."""
    mine, theirs = _part(more, tile, size), _part(got, before, size)
    h, w = min(mine.shape[0], theirs.shape[0]), min(mine.shape[1], theirs.shape[1])
    mine, theirs = mine[:h, :w], theirs[:h, :w]
    own, right = _part(got, tile, size)[:h, :w], _part(output.expected, tile, size)[:h, :w]
    known = (theirs != 0) & (own != 0) & (right != 0)
    slack = 4 * _part(output.limit, tile, size)[:h, :w] + 8 * ROUND_OFF[output.dtype] * (theirs.abs() + own.abs())
    if known.sum() < 4:
        return None
    return bool((known & ((mine - theirs).abs() <= slack)).sum() >= 0.95 * known.sum())
