"""Seeded, awkward inputs in guarded memory.

Every array of a run is a view into a larger storage. All bytes of the storage outside the view are guard: random, and
checked after the run. Outputs start as random poison. The same seed gives the same bits on every machine, because the
data are drawn on the CPU and copied.
"""

from __future__ import annotations

import hashlib
import math
import mmap
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from .exercise import Array, Case, KernelExercise, Number, Out

GUARD = 8192
"""Elements of guard on each side: more than the largest tile a beginner's kernel is likely to run over by."""

LAYOUTS = ("contiguous", "offset", "padded", "far", "columns", "input columns")
"""offset: starts one element after a 16-byte boundary · padded: rows lie further apart than their length, in each array
of a run by another number of elements, so that one array's stride is never right for another · far: slices of the first
axis lie apart, and recorded kernels see so much room between them that the array spans almost 2**32 elements: an offset
of 32 bits overflows · columns: the two last axes change places in memory, so that a matrix lies column by column ·
input columns: so in the inputs only, for launchers that pass one stride of each output."""

PADDING = 16
"""Elements between rows of the first padded array; the second has twice as many, and so on. A multiple of 16 bytes for
every element type, as copies by the tensor memory accelerator want it."""

SLICE = 4096
"""Elements between slices of an array that is laid out far are a multiple of this, and a padding that no other array
has: a recorded run knows its first stride by the number."""


def generator(seed: int, *labels: Any) -> torch.Generator:
    """An independent random stream for these labels: adding a case does not change the data of the others."""
    digest = hashlib.sha256(repr((seed, *labels)).encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:7], "little"))


def _index(shape) -> torch.Tensor:
    count = 1
    for n in shape:
        count *= n
    return torch.arange(count, dtype=torch.float64).reshape(shape)


def _normal(shape, g, dtype):
    return torch.randn(shape, generator=g, dtype=torch.float64)


def _position(shape, g, dtype):
    """A value that says where it came from: 4001 different ones in a scrambled order, exact in fp16 and fp32."""
    start = int(torch.randint(0, 4001, (), generator=g))
    return ((_index(shape) * 1597 + start) % 4001 - 2000) / 512


def _integers(shape, g, dtype):
    return torch.randint(-8, 9, shape, generator=g).double()


def _wide(shape, g, dtype):
    """Magnitudes spread evenly over many powers of two, both signs."""
    span = 8 if dtype == "float16" else 20
    exponent = (torch.rand(shape, generator=g, dtype=torch.float64) * 2 - 1) * span
    sign = torch.randint(0, 2, shape, generator=g).double() * 2 - 1
    return sign * torch.exp2(exponent)


def _large(shape, g, dtype):
    return _normal(shape, g, dtype).clamp(-3, 3) * 1e4 / 3


def _faint(shape, g, dtype):
    """Squares are no larger than the ε of a norm."""
    return _normal(shape, g, dtype) * 1e-3


def _lone(shape, g, dtype):
    """Rows of -inf with one finite entry each: at the end of the first row, then row by row evenly to the front. In
    some row a kernel finds no maximum if it leaves columns out of its search."""
    *outer, n = shape
    rows = math.prod(outer)
    at = (n - 1 - torch.arange(rows) * (n // rows + 1)) % n
    x = torch.full(shape, -torch.inf, dtype=torch.float64)
    return x.scatter(-1, at.reshape(*outer, 1), torch.randn((*outer, 1), generator=g, dtype=torch.float64))


def _masked(shape, g, dtype):
    """Rows whose first entries are -inf, as masked attention scores; one row, where there are several, entirely."""
    x = torch.randn(shape, generator=g, dtype=torch.float64)
    count = torch.randint(0, shape[-1], (*shape[:-1], 1), generator=g)
    if count.numel() > 1:
        count.view(-1)[count.numel() // 2] = shape[-1]
    return x.masked_fill(torch.arange(shape[-1]) < count, -torch.inf)


def _below(shape, g, dtype):
    """Every value far below zero: a maximum that starts at 0 is never replaced."""
    return _normal(shape, g, dtype) * 4 - 1000


def _opposed(shape, g, dtype):
    """Values of one sign; `_buffer` turns those of a run's second array. So products of the two, such as attention's
    scores, all lie far below zero."""
    return (_normal(shape, g, dtype).abs() + 1) * 5


def _level(shape, g, dtype):
    """Values as in "position"; `_buffer` makes those of a run's first array an eighth as large. So products with it,
    such as attention's scores, lie so near each other that each of them counts in their softmax, also a score of 0."""
    return _position(shape, g, dtype)


def _outliers(shape, g, dtype):
    """One value in each row of a matrix that is far larger than the others: 256 to 512, so that its square leaves fp16.

    It is most of the sum of the row's squares. Where a kernel squares in bf16, which does not overflow, the rounding of
    this one square is not averaged away: it changes the whole row. Vectors, such as weights, are as in "normal".
    """
    if len(shape) < 2:
        return _normal(shape, g, dtype)
    at = torch.randint(0, shape[-1], (*shape[:-1], 1), generator=g)
    size = (1 + torch.rand(at.shape, generator=g, dtype=torch.float64)) * 256
    sign = torch.randint(0, 2, at.shape, generator=g).double() * 2 - 1
    return _normal(shape, g, dtype).scatter(-1, at, sign * size)


def _peaked(shape, g, dtype):
    """Rows with up to three entries above 0 and the rest far below, so that these few are most of the sum of
    exponentials: where a kernel rounds exponents or terms to 16 bits before it adds, the error is not averaged away."""
    x = _normal(shape, g, dtype) / 2 - 4
    at = torch.randint(0, shape[-1], (*shape[:-1], 3), generator=g)
    return x.scatter(-1, at, torch.rand(at.shape, generator=g, dtype=torch.float64))


def _shifted(shape, g, dtype):
    """Values far from zero beside their spread: a variance as the difference of two large numbers loses its digits."""
    return _normal(shape, g, dtype) + 1000


def _ties(shape, g, dtype):
    return torch.randint(-1, 2, shape, generator=g).double() * 1.5


FILLS: Mapping[str, Callable] = {
    "normal": _normal,
    "position": _position,
    "integers": _integers,
    "wide": _wide,
    "large": _large,
    "faint": _faint,
    "lone": _lone,
    "masked": _masked,
    "below": _below,
    "opposed": _opposed,
    "level": _level,
    "outliers": _outliers,
    "peaked": _peaked,
    "shifted": _shifted,
    "ties": _ties,
}
"""Fill strategies by name: (shape, generator, dtype name) -> float64 tensor, rounded to the dtype afterwards."""


def values(argument: Array, sizes: Mapping[str, int], g: torch.Generator, dtype: str, fill: str) -> torch.Tensor:
    """What an input array holds, float64 or of its own type; `fill` is for arrays that do not say."""
    chosen = argument.strategy(fill)
    data = chosen(sizes, g) if callable(chosen) else FILLS[chosen](argument.shape(sizes), g, dtype)
    return data.masked_fill(argument.unused(sizes), torch.nan) if argument.unused and sizes.get("stale") else data


def torch_dtype(name: str) -> torch.dtype:
    return getattr(torch, name)


def shared_bytes(count: int) -> torch.Tensor:
    """`count` bytes of memory that a forked child and its parent both see; freed with the tensor."""
    return torch.frombuffer(mmap.mmap(-1, max(count, 1)), dtype=torch.uint8)[:count]


@dataclass
class Buffer:
    """One guarded array: `view` is what the launcher gets, `storage` the flat tensor around it."""

    name: str
    storage: torch.Tensor
    view: torch.Tensor
    is_output: bool
    before: torch.Tensor = field(repr=False, default=None)
    apart: int = 1
    """How many times its first stride recorded kernels are given."""

    @property
    def start(self) -> int:
        """Index of the view's first element in the storage."""
        return self.view.storage_offset()

    def inside(self) -> torch.Tensor:
        """For each element of the storage on the CPU: does it belong to the view?"""
        mask = torch.zeros(self.storage.numel(), dtype=torch.bool)
        mask.as_strided(self.view.shape, self.view.stride(), self.start).fill_(True)
        return mask

    def bits(self, tensor: torch.Tensor | None = None) -> torch.Tensor:
        """The storage (or a tensor like it) as integers, so that NaNs compare equal to themselves."""
        t = self.storage if tensor is None else tensor
        return t.view({1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[t.element_size()])

    def changed(self) -> torch.Tensor:
        """For each element of the storage, on the CPU: has it changed since the run began?"""
        return (self.bits() != self.bits(self.before)).cpu()

    def reset(self) -> None:
        self.storage.copy_(self.before)


@dataclass
class Run:
    """The buffers and numbers of one case, ready for one launch."""

    exercise: KernelExercise
    case: Case
    buffers: dict[str, Buffer]
    numbers: dict[str, float | int]

    @property
    def arguments(self) -> list:
        """What the launcher is called with, in order."""
        return [self.buffers[n].view if n in self.buffers else self.numbers[n] for n in self.exercise.arguments]

    def inputs(self) -> dict[str, Any]:
        """Inputs by name for the reference: float64 on the CPU, as they were before the run."""
        arrays = {
            b.name: b.before.as_strided(b.view.shape, b.view.stride(), b.start).cpu().double()
            for b in self.buffers.values()
            if not b.is_output
        }
        return {n: arrays.get(n, self.numbers.get(n)) for n in self.exercise.arguments if n not in self.outputs}

    @property
    def outputs(self) -> dict[str, Buffer]:
        return {b.name: b for b in self.buffers.values() if b.is_output}


def _place(shape, layout: str, number: int) -> tuple[tuple[int, ...], int, int]:
    """Strides, first element and storage length of an array laid out like this; `number` counts a run's arrays."""
    strides, step = [0] * len(shape), 1
    order = list(range(len(shape) - 1, -1, -1))
    if layout == "columns":
        order[:2] = order[1::-1]
    for axis in order:
        strides[axis] = step
        step *= shape[axis]
        if layout == "padded" and axis == len(shape) - 1:
            step += PADDING * (1 + number) + shape[axis] % 2
        if layout == "far" and axis == 1:
            step += -step % SLICE + PADDING * (1 + number)
    start = GUARD + (1 if layout == "offset" else 0)
    return tuple(strides), start, start + step + GUARD


def _apart(shape, strides, layout: str) -> int:
    """By how much the first stride can grow if it stays below 2**31 and every offset below 2**32, so that an offset in
    32 bits becomes negative. Two slices can only be 2**31 elements apart if the stride itself has more than 32 bits."""
    if layout != "far" or len(shape) < 2 or shape[0] < 3:
        return 1
    return (2**32 - 1) // ((shape[0] - 1) * strides[0])


def make_run(
    exercise: KernelExercise,
    case: Case,
    seed: int,
    device: str = "cpu",
    allocate: Callable[[int], torch.Tensor] = shared_bytes,
) -> Run:
    """Inputs, poisoned outputs and guards for one case. `allocate(bytes)` gives the memory on the CPU side."""
    buffers, numbers = {}, {}
    for name, argument in exercise.arguments.items():
        g = generator(seed, exercise.id, case.name, sorted(case.sizes.items()), name)
        if isinstance(argument, Number):
            numbers[name] = _number(argument, case, g)
            continue
        buffers[name] = _buffer(exercise, case, name, argument, g, device, allocate)
    return Run(exercise, case, buffers, numbers)


def numbers_of(exercise: KernelExercise, case: Case, seed: int) -> dict[str, float | int]:
    """The number arguments of a case, as `make_run` draws them."""
    return {
        name: _number(a, case, generator(seed, exercise.id, case.name, sorted(case.sizes.items()), name))
        for name, a in exercise.arguments.items()
        if isinstance(a, Number)
    }


def _number(argument: Number, case: Case, g: torch.Generator) -> float | int:
    if argument.size:
        return case.sizes[argument.size]
    # three decimals of binary fraction: exact in fp32 and in fp16
    u = float(torch.rand((), generator=g, dtype=torch.float64))
    return round((argument.low + u * (argument.high - argument.low)) * 8) / 8


def _buffer(exercise, case, name, argument: Array, g, device, allocate) -> Buffer:
    dtype_name = exercise.dtype(case, name)
    dtype, shape = torch_dtype(dtype_name), argument.shape(case.sizes)
    number = list(exercise.arguments).index(name)
    is_output = isinstance(argument, Out)
    layout = case.layout if case.layout != "input columns" else "contiguous" if is_output else "columns"
    strides, start, length = _place(shape, layout, number)
    storage = allocate(length * dtype.itemsize).view(dtype)
    noise = torch.randint(-(2**31), 2**31 - 1, (-(-length * dtype.itemsize // 4),), generator=g)
    storage.copy_(noise.to(torch.int32).view(torch.uint8)[: length * dtype.itemsize].view(dtype))
    if not is_output:
        data = values(argument, case.sizes, g, dtype_name, "integers" if case.exact else case.fill)
        if case.fill == "opposed" and number == 1:
            data = -data
        if case.fill == "level" and number == 0:
            data = data / 8
        storage.as_strided(shape, strides, start).copy_(data.to(dtype))
    if device != "cpu":
        storage = storage.to(device)
    view, apart = storage.as_strided(shape, strides, start), _apart(shape, strides, layout)
    return Buffer(name, storage, view, is_output, storage.clone(), apart)


def hidden_cases(exercise: KernelExercise, seed: int, count: int = 4) -> list[Case]:
    """Cases drawn from the exercise's strategy with a secret seed, after the submission is frozen."""
    rng = random.Random(seed)
    fills = ["position", "normal", "wide", "normal"]
    # rows apart only where the launcher takes strides
    layouts = ["contiguous", "offset", "padded" if _takes_strides(exercise) else "contiguous", "offset"]
    cases = []
    for k in range(count):
        sizes = dict(exercise.draw(rng))
        text = ", ".join(f"{n} = {v}" for n, v in sizes.items())
        cases.append(Case(f"{text} ({fills[k % 4]} {k + 1})", sizes, fills[k % 4], layouts[k % 4]))
    return cases


def _takes_strides(exercise: KernelExercise) -> bool:
    return any(case.layout == "padded" for case in exercise.cases)
