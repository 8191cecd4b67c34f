"""What a CUDA graph captures of a PyTorch step, without a GPU: a tape of its operations, as data.

`tape` runs a step once under a recorder and returns what it did: operations by name on numbered tensors, 0, 1, … being
the step's arguments. `replay` executes a tape again on other contents of the same arguments, as a graph's replay does:
nothing of the step's Python runs. A tape is plain data, so it can be replayed without trusting its author.

One operation is [name, arguments, options, results]; a tensor is {"t": number}, a constant {"c": values, "shape": …}.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import torch
from torch.utils._python_dispatch import _disable_current_modes

from .dispatch import DispatchMode

_NAMES = """
    _to_copy _unsafe_view abs abs_ add add_ addcdiv addcdiv_ addcmul addcmul_ addmm alias amax amin aminmax
    bitwise_and bitwise_not bitwise_or broadcast_tensors cat clamp clamp_ clamp_max clamp_max_ clamp_min
    clamp_min_ clone copy_ detach div div_ empty empty_like eq exp expand expand_as fill fill_ full full_like ge
    gt heaviside le lerp lerp_ log logical_and logical_not lt masked_fill masked_fill_ max maximum mean min
    minimum mm mul mul_ ne neg neg_ new_empty new_full new_ones new_zeros ones ones_like permute pow reciprocal
    reciprocal_ relu relu_ reshape rsub scalar_tensor select sigmoid sign slice sqrt squeeze sub sub_ sum t tanh
    threshold to transpose unsqueeze view view_as where zero_ zeros zeros_like
"""
KNOWN = frozenset(_NAMES.split())
"""Operations of ATen whose result has a size that does not depend on data."""

WAITS = frozenset({"_local_scalar_dense", "item", "equal", "is_nonzero"})
DYNAMIC = frozenset({"nonzero", "masked_select", "unique", "index", "_unique2", "repeat_interleave"})
RANDOM = frozenset({"rand", "randn", "rand_like", "randn_like", "randint", "normal_", "uniform_", "bernoulli_"})
MOST_OPERATIONS, MOST_ELEMENTS, MOST_CONSTANTS = 200, 1 << 20, 64


class Refused(Exception):
    """What a capture does not allow. `reason` is a key of `REASONS`, `name` the operation."""

    def __init__(self, reason: str, name: str = ""):
        super().__init__(f"{reason}: {name}")
        self.reason, self.name = reason, name


class _Recorder(DispatchMode):
    def __init__(self, arguments: Sequence[torch.Tensor]):
        super().__init__()
        self.operations: list[list] = []
        self.numbers = {id(x): k for k, x in enumerate(arguments)}
        self.kept = list(arguments)
        """Every tensor seen, so that no address is used twice."""
        self.fresh: set[int] = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func.overloadpacket.__name__
        if name in ("lift_fresh", "lift_fresh_copy"):
            raise Refused("host", "torch.tensor")
        for names, reason in ((WAITS, "sync"), (DYNAMIC, "dynamic"), (RANDOM, "random")):
            if name in names:
                raise Refused(reason, name)
        if name not in KNOWN:
            raise Refused("unknown", name)
        if len(self.operations) >= MOST_OPERATIONS:
            raise Refused("long")
        options = dict(kwargs or {})
        encoded = [self._encode(a) for a in args], {k: self._encode(v) for k, v in options.items() if v is not None}
        result = func(*args, **options)
        results = [self._number(r) for r in (result if isinstance(result, (tuple, list)) else [result])]
        self.operations.append([str(func), *encoded, results])
        return result

    def _number(self, x: torch.Tensor) -> int:
        if id(x) not in self.numbers:
            self.numbers[id(x)] = len(self.kept)
            self.kept.append(x)
        return self.numbers[id(x)]

    def _encode(self, value):
        if isinstance(value, torch.Tensor):
            if id(value) in self.numbers:
                return {"t": self.numbers[id(value)]}
            if value.numel() > MOST_CONSTANTS:
                raise Refused("outside")
            with _disable_current_modes():
                return {"c": [float(v) for v in value.flatten()], "shape": list(value.shape)}
        if isinstance(value, (list, tuple)):
            return [self._encode(v) for v in value]
        if value is None or isinstance(value, (bool, int, float)):
            return value
        if isinstance(value, torch.dtype):
            return str(value)
        if isinstance(value, (torch.device, torch.layout, torch.memory_format)):
            return None
        raise Refused("unknown", type(value).__name__)


def tape(step: Callable, arguments: Mapping[str, torch.Tensor]) -> dict:
    """{"operations": …} of one call `step(*arguments)`, or {"refused": reason, "name": …}: plain data."""
    recorder = _Recorder(list(arguments.values()))
    try:
        with recorder, torch.no_grad():
            step(*arguments.values())
    except Refused as e:
        return {"refused": e.reason, "name": e.name}
    return {"operations": recorder.operations}


# --- replay --------------------------------------------------------------------------------------------------------


class BadTape(ValueError):
    """This is not a tape, or it needs more memory than a step has."""


def _resolve(name) -> Callable:
    parts = name.split(".") if isinstance(name, str) else []
    if len(parts) != 3 or parts[0] != "aten" or parts[1] not in KNOWN:
        raise BadTape(f"{str(name)[:40]!r} is no operation of a tape")
    try:
        return getattr(getattr(torch.ops.aten, parts[1]), parts[2])
    except AttributeError:
        raise BadTape(f"there is no operation {name[:40]!r}") from None


_DTYPES = {str(d): d for d in (torch.float32, torch.float64, torch.float16, torch.bool, torch.int64, torch.int32)}


def replay(operations, arguments: Sequence[torch.Tensor]) -> None:
    """Execute a tape on these arguments, which it changes in place. Raises BadTape.

    The first pass, on tensors without data, finds out how large every result gets.
    """
    _execute(operations, [torch.empty_like(x, device="meta") for x in arguments])
    _execute(operations, list(arguments))


def _execute(operations, tensors: list[torch.Tensor]) -> None:
    if not isinstance(operations, (list, tuple)) or len(operations) > MOST_OPERATIONS:
        raise BadTape(f"a tape has at most {MOST_OPERATIONS} operations")
    known = dict(enumerate(tensors))
    device = tensors[0].device
    for operation in operations:
        try:
            name, positional, options, results = operation
            call = _resolve(name)
            args = [_decode(a, known, device) for a in positional]
            named = {k: _decode(v, known, device) for k, v in options.items()}
            if any(s.name == "device" for s in call._schema.arguments):
                named["device"] = device
            with torch.no_grad():
                result = call(*args, **named)
            result = result if isinstance(result, (tuple, list)) else [result]
            if any(x.numel() > MOST_ELEMENTS for x in result):
                raise BadTape(f"a result has more than {MOST_ELEMENTS} elements")
            known |= dict(zip(results, result, strict=True))
        except BadTape:
            raise
        except Exception as e:
            raise BadTape(f"{str(operation)[:60]} cannot be executed: {type(e).__name__}") from e


def _decode(value, known: Mapping[int, torch.Tensor], device):
    if isinstance(value, Mapping):
        if "t" in value:
            if value["t"] not in known:
                raise BadTape("an operation reads a tensor that does not exist")
            return known[value["t"]]
        shape = value["shape"]
        if math.prod(shape) > MOST_CONSTANTS:
            raise BadTape("a constant is too large")
        return torch.tensor(value["c"], dtype=torch.float32).reshape(shape).to(device)
    if isinstance(value, (list, tuple)):
        return [_decode(v, known, device) for v in value]
    return _DTYPES.get(value, value) if isinstance(value, str) else value


def example(rows: int, columns: int, seed: int, loud: bool) -> dict[str, torch.Tensor]:
    """Arguments of unit 21's step: x (rows, 16), weight (16, columns), running (columns,), out (rows, columns), fp32.

    `loud`: the largest activation is above 1, else below. `out` holds NaN, which nothing that is written keeps.
    """
    g = torch.Generator().manual_seed(seed)
    x, weight = torch.randn(rows, 16, generator=g), torch.randn(16, columns, generator=g)
    x[0, 0], weight[0, 0] = 4.0, 4.0
    x[0, 1:] = 0.0  # so that one activation is 16 before scaling
    x *= (3.0 if loud else 0.5) / (x @ weight).max()
    return {
        "x": x,
        "weight": weight,
        "running": torch.rand(columns, generator=g),
        "out": torch.full((rows, columns), torch.nan),
    }


def tapes(step: Callable, rows: int, columns: int) -> dict:
    """A step's tape, and a second one on other values: what differs between them depends on the data of one call."""
    first = tape(step, example(rows, columns, 1, True))
    if "refused" in first:
        return first
    second = tape(step, example(rows, columns, 2, False))
    return first | {"again": second.get("operations", [])}
