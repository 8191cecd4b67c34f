"""A simulated kernel whose time depends on its configuration: something to tune without a GPU.

Each value of a configuration has a best one, and costs more the further away it is; some configurations do not fit.
Real kernels are less regular, but tuning them meets the same three facts: trials are expensive, some of them fail, and
the best configuration changes with the problem.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

SPACE = {
    "BLOCK_M": (32, 64, 128, 256),
    "BLOCK_N": (32, 64, 128, 256),
    "BLOCK_K": (32, 64, 128),
    "num_warps": (4, 8),
    "num_stages": (2, 3, 4, 5),
}
SHARED_BYTES = 227 * 1024
"""Shared memory of a program at most (sm_90); `DoesNotFit` beyond."""
ACCUMULATORS = 200
"""fp32 accumulators per thread at most: the others of 255 registers hold addresses and operands."""


class DoesNotFit(RuntimeError):
    """The configuration needs more shared memory or registers than a program can have."""


def fits(BLOCK_M: int, BLOCK_N: int, BLOCK_K: int, num_warps: int, num_stages: int) -> bool:
    """Whether an fp16 matmul of these tiles has enough shared memory and registers."""
    shared = 2 * num_stages * (BLOCK_M + BLOCK_N) * BLOCK_K
    return shared <= SHARED_BYTES and BLOCK_M * BLOCK_N // (32 * num_warps) <= ACCUMULATORS


@dataclass
class SimulatedKernel:
    """A kernel for one problem, given by `seed`. `tried` are the configurations that were timed, in order."""

    seed: int
    tried: list[dict] = field(default_factory=list, repr=False)

    def __post_init__(self):
        rng = random.Random(self.seed)
        while True:
            best = {name: rng.randrange(len(values)) for name, values in SPACE.items()}
            if fits(**{name: SPACE[name][k] for name, k in best.items()}):
                break
        self._best = best
        self._steps = {name: rng.uniform(0.1, 0.4) for name in SPACE}
        self._seconds = rng.uniform(20e-6, 500e-6)

    def seconds(self, **config: int) -> float:
        """Time one configuration: a trial. Raises DoesNotFit."""
        self.tried.append(config)
        return self.truth(**config)

    def truth(self, **config: int) -> float:
        """The same, uncounted."""
        if not fits(**config):
            raise DoesNotFit(f"{config} does not fit")
        away = {name: abs(SPACE[name].index(config[name]) - self._best[name]) for name in SPACE}
        return self._seconds * math.prod((1 + self._steps[name]) ** k for name, k in away.items())

    def best(self, space: Mapping[str, Sequence[int]] = SPACE) -> float:
        """The shortest time of all configurations."""
        configs = (dict(zip(space, values, strict=True)) for values in itertools.product(*space.values()))
        return min(self.truth(**c) for c in configs if fits(**c))
