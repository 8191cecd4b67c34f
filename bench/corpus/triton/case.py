"""A case: how public kernels are launched, and what a correct one gives. Imports nothing of labutils."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import torch

from . import pieces, stand_ins

TOLERANCE = {torch.float64: 1e-9, torch.float32: 1e-4, torch.float16: 4e-3, torch.bfloat16: 3e-2}
"""Of an element, times its size plus the root mean square of its array."""

TF32 = torch.float16
"""In place of a result's type: products in TF32 are as exact as those of float16."""

CHAIN = torch.bfloat16
"""The same for results of several such products, one after the other."""

SEED = 25


class Draw:
    """Seeded inputs."""

    def __init__(self, seed: int = SEED):
        self._random = torch.Generator().manual_seed(seed)

    def __call__(self, *shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        """Normally distributed numbers."""
        return torch.randn(shape, generator=self._random).to(dtype)

    def uniform(self, *shape: int, low: float = 0.0, high: float = 1.0) -> torch.Tensor:
        return low + (high - low) * torch.rand(shape, generator=self._random)

    def integers(self, *shape: int, high: int, low: int = 0, dtype: torch.dtype = torch.int64) -> torch.Tensor:
        return torch.randint(low, high, shape, generator=self._random, dtype=dtype)

    def order(self, count: int) -> torch.Tensor:
        return torch.randperm(count, generator=self._random)


@dataclass(frozen=True)
class Case:
    """`run(module, draw)` launches kernels of a module and yields (what, result, expected) or, with the type whose
    tolerance is used, (what, result, expected, type).

    `only` names functions of a file that is no module: they are taken out of it, with what they name. `fault` says what
    is wrong in the source, where a person has looked.
    """

    source: str
    path: str
    run: Callable
    only: tuple[str, ...] = ()
    fault: str = ""

    @property
    def id(self) -> str:
        return f"{self.source}/{self.path}:{self.run.__name__}"


@dataclass
class Collection:
    """The cases of one public repository, at one commit. Its packages lie in `root`; importing those in `bare` runs
    nothing, and those in `imitated` need not be installed. `prepare` is called before the first case is loaded."""

    source: str
    owner: str
    commit: str
    license: str
    folder: str
    """All that is fetched of it."""
    root: str = ""
    bare: tuple[str, ...] = ()
    imitated: tuple[str, ...] = ()
    prepare: Callable[[], None] = lambda: None
    cases: list[Case] = field(default_factory=list)

    def case(self, path: str, *only: str, fault: str = "") -> Callable:
        def keep(run: Callable) -> Callable:
            self.cases.append(Case(self.source, path, run, only, fault))
            return run

        return keep

    def open(self, folder: Path) -> None:
        """Make the modules of the source in `folder` importable in this process."""
        stand_ins.answer_for_a_gpu()
        stand_ins.without_init(folder / self.root, self.bare)
        stand_ins.imitate(self.imitated)
        sys.path.insert(0, str(folder / self.root))
        self.prepare()

    def load(self, case: Case, folder: Path):
        if case.only:
            return pieces.load(folder / self.root / case.path, case.only)
        return importlib.import_module(case.path)


def agree(
    result: Callable, expected: Callable, *inputs: torch.Tensor, precision=None, backward=True
) -> Iterator[tuple]:
    """Rows that compare two functions of tensors: their results and, with `backward`, the gradients of all inputs that
    are floating-point numbers. `expected` gets float64."""
    mine = [_leaf(x.clone(), backward) for x in inputs]
    theirs = [_leaf(x.double() if x.is_floating_point() else x, backward) for x in inputs]
    outputs, references = _several(result(*mine)), _several(expected(*theirs))
    draw = Draw(SEED + 1)  # other numbers than the inputs
    weights = [draw(*r.shape) if r.is_floating_point() else None for r in references]
    rows = [
        (f"result {k}", a.detach().clone(), b.detach(), precision)
        for k, (a, b) in enumerate(zip(outputs, references, strict=True))
    ]
    if backward:
        _backward(outputs, weights)
        _backward(references, weights)
        rows += [
            (f"gradient {k}", a.grad, b.grad, precision)
            for k, (a, b) in enumerate(zip(mine, theirs, strict=True))
            if a.requires_grad
        ]
    yield from rows


def _leaf(x: torch.Tensor, backward: bool) -> torch.Tensor:
    return x.detach().requires_grad_(backward and x.is_floating_point())


def _several(x) -> list[torch.Tensor]:
    return [x] if isinstance(x, torch.Tensor) else [t for t in x if t is not None]


def _backward(outputs: list[torch.Tensor], weights: list[torch.Tensor | None]) -> None:
    pairs = [
        (x, w.to(x.dtype, copy=True))
        for x, w in zip(outputs, weights, strict=True)
        if w is not None and x.requires_grad
    ]
    torch.autograd.backward([x for x, _ in pairs], [w for _, w in pairs])


def difference(result: torch.Tensor, expected: torch.Tensor, precision: torch.dtype | None = None) -> str:
    """How a result differs from what is expected; empty if it is right."""
    if result is None or tuple(result.shape) != tuple(expected.shape):
        return f"shape {None if result is None else tuple(result.shape)} for {tuple(expected.shape)}"
    if not result.is_floating_point():
        bad = result.to(torch.int64) != expected.to(torch.int64)
    else:
        tolerance = TOLERANCE[precision or result.dtype]
        mine, theirs = result.double(), expected.double()
        finite = theirs[torch.isfinite(theirs)]
        scale = finite.square().mean().sqrt() if finite.numel() else 0.0
        same = (mine == theirs) | (mine.isnan() & theirs.isnan())
        bad = ~(same | ((mine - theirs).abs() <= tolerance * (theirs.abs() + scale)))
    if not bad.any():
        return ""
    at = tuple(bad.nonzero()[0].tolist())
    first = f"{list(at)}: {result[at].item():g} for {expected[at].item():g}"
    return f"{int(bad.sum())} of {bad.numel()} differ, first {first}"


def examine(case: Case, module) -> str:
    """Run a case here and now; how its results differ, or nothing."""
    assert inspect.isgeneratorfunction(case.run), f"{case.id} compares nothing"
    compared = 0
    with stand_ins.OnTheCpu():
        for what, result, expected, *precision in case.run(module, Draw()):
            compared += 1
            if found := difference(result, expected, *precision):
                return f"{what}: {found}"
    return "" if compared else "nothing was compared"
