"""A GPU as a benchmark sees it: a host clock, a queue of work, events in that queue, a cache.

`GPU` is this machine's. `SimulatedGPU` behaves like one and knows the true times, so a benchmark can be checked against
it, with no GPU at all: calls return before their work is done, the first one compiles, clocks start low, data stay in
the L2, the odd sample is disturbed. Its time is counted, not waited for.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field


class NotThereYet(RuntimeError):
    """An event was read before the GPU had come to it."""


class GPU:
    """This machine's GPU, through PyTorch. Holds the buffer that `flush` writes: make one and keep it."""

    FLUSH_BYTES = 512 << 20
    """At least 0.1 ms of work at 5 TB/s, so that a launch (about 10 µs of host time) is queued behind it."""

    def __init__(self):
        import torch

        self._torch = torch
        device = torch.cuda.current_device()
        self.name = torch.cuda.get_device_name(device)
        self.l2_bytes = max(torch.cuda.get_device_properties(device).L2_cache_size, 1 << 20)
        self._buffer = torch.zeros(max(2 * self.l2_bytes, self.FLUSH_BYTES), dtype=torch.uint8, device="cuda")

    def now(self) -> float:
        """The host's clock, in seconds."""
        return time.perf_counter()

    def event(self):
        """Queue an event: it takes the time when the GPU comes to it."""
        event = self._torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def seconds(self, start, stop) -> float:
        """From one event to another. The GPU must have come to both: synchronize first."""
        return start.elapsed_time(stop) * 1e-3

    def synchronize(self) -> None:
        """Wait until the queue is empty."""
        self._torch.cuda.synchronize()

    def flush(self, clean: bool = False) -> None:
        """Queue writing at least twice the size of the L2, or with `clean` reading it: nothing stays in the L2."""
        if clean:
            self._buffer.view(self._torch.float32).amax()
        else:
            self._buffer.zero_()

    def hold(self, seconds: float) -> None:
        """Keep the GPU busy for about so long, without touching memory, while the host queues what comes next."""
        if seconds > 0:
            self._torch.cuda._sleep(int(seconds * 2e9))  # in clock cycles, at about 2 GHz


GOLDEN = (math.sqrt(5) - 1) / 2


@dataclass(frozen=True)
class Mark:
    """An event of the pretended GPU: the time at which it comes by."""

    at: float


@dataclass(frozen=True)
class Ran:
    """One run of the pretended kernel: how long it took, and what made it so."""

    seconds: float
    hot: bool
    clock: float
    disturbed: bool


@dataclass
class SimulatedGPU:
    """A simulated GPU and a kernel on it, `call`, that takes `cold_s` when its data come from memory.

    Times in seconds. `ramp_s` is the work after which the distance to full clocks has shrunk to 37 %. `writeback_s` is
    what a kernel takes longer if the L2 is full of written data when it begins. `log` names what was put into the
    queue or waited for, in order.
    """

    cold_s: float
    hot_s: float
    launch_s: float = 5e-6
    compile_s: float = 0.4
    ramp_s: float = 5e-3
    slow: float = 0.6
    noise: float = 0.03
    disturbed: float = 0.04
    l2_bytes: int = 50 << 20
    flush_s: float = 60e-6
    writeback_s: float = 0.0
    seed: int = 0
    runs: list[Ran] = field(default_factory=list, repr=False)
    log: list[str] = field(default_factory=list, repr=False)
    name: str = "a simulated GPU"

    def __post_init__(self):
        self._host = self._free = self._busy = 0.0
        self._compiled = self._in_l2 = self._written = False
        self._random = random.Random(self.seed)
        self._phase = self._random.random()

    def now(self) -> float:
        return self._host

    def event(self) -> Mark:
        self.log.append("event")
        self._host += 1e-6
        return Mark(max(self._host, self._free))

    def seconds(self, start: Mark, stop: Mark) -> float:
        if max(start.at, stop.at) > self._host:
            raise NotThereYet("the GPU has not come to this event yet: synchronize first")
        return stop.at - start.at

    def synchronize(self) -> None:
        self.log.append("synchronize")
        self._host = max(self._host, self._free) + 2e-6

    def flush(self, clean: bool = False) -> None:
        self.log.append("flush")
        self._host += self.launch_s
        self._work(self.flush_s)
        self._in_l2, self._written = False, not clean

    def hold(self, seconds: float) -> None:
        self._host += self.launch_s
        self._work(seconds)

    def call(self) -> None:
        """Launch the kernel: returns when it is queued."""
        self.log.append("call")
        if not self._compiled:
            self._host += self.compile_s
            self._compiled = True
        self._host += self.launch_s
        clock = 1 + self.slow * math.exp(-self._busy / self.ramp_s)
        disturbed = (self._phase + GOLDEN * len(self.runs)) % 1 < self.disturbed  # evenly spread: no lucky streaks
        took = ((self.hot_s if self._in_l2 else self.cold_s) + self.writeback_s * self._written) * clock
        took *= 1 + self._random.uniform(-self.noise, self.noise)
        took *= self._random.uniform(3, 9) if disturbed else 1
        self.runs.append(Ran(took, self._in_l2, clock, disturbed))
        self._work(took)
        self._in_l2, self._written = True, False

    def _work(self, seconds: float) -> None:
        self._free = max(self._host, self._free) + seconds
        self._busy += seconds


Machine = GPU | SimulatedGPU


def queue_time(count: int, launch_s: float, kernel_s: float) -> float:
    """From the first launch until the last of `count` kernels is done, if the host launches without waiting."""
    return launch_s + (count - 1) * max(launch_s, kernel_s) + kernel_s


Call = Callable[[], object]
