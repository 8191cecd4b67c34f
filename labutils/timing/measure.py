"""`lab.benchmark(fn, …)` and `lab.versus(…)`: honest times of any function, and what they say about the GPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ..gpu import device
from ..gpu.machine import Machine
from ..gpu.roofline import units
from ..spec import traffic
from . import ceilings as roofs
from .stopwatch import MAX_SECONDS, SHORT_S, Ratio, Sample, Stopwatch, ratio

RING_MAX = 8
"""Copies of the arguments at most: where the arrays are small, flushing alone has to do."""


@dataclass(frozen=True)
class Measurement:
    """One function's time. `cold` begins with nothing in the L2; `hot` is the second of two calls in a row.

    `launch_s` is the host's time for one call. `bytes` and `flops`: what a call must move and compute.
    """

    name: str
    gpu: str
    cold: Sample = field(repr=False)
    hot: Sample = field(repr=False)
    launch_s: float
    bytes: float | None = None
    flops: float | None = None
    precision: str = "fp32"
    ceilings: roofs.Ceilings | None = field(default=None, repr=False)

    @property
    def median(self) -> float:
        """Seconds of one call from a cold L2."""
        return self.cold.median

    @property
    def gbs(self) -> float | None:
        """10^9 bytes/s, from the bytes given."""
        return self.bytes / self.median / 1e9 if self.bytes else None

    @property
    def tflops(self) -> float | None:
        """10^12 FLOP/s, from the FLOPs given."""
        return self.flops / self.median / 1e12 if self.flops else None

    @property
    def of_copy(self) -> float | None:
        """Share of the bandwidth of a plain copy on this GPU."""
        return self.gbs / self.ceilings.copy_gbs if self.gbs and self.ceilings else None

    @property
    def of_matmul(self) -> float | None:
        """Share of the library's best matrix rate in this precision on this GPU."""
        rate = self.ceilings.tflops.get(self.precision) if self.ceilings else None
        return self.tflops / rate if self.tflops and rate else None

    @property
    def notes(self) -> list[str]:
        """What to know before quoting the time."""
        messages = []
        if self.median < SHORT_S:
            messages.append("under 20 µs, too short to judge: take a larger size")
        if not self.cold.settled:
            low, high = self.cold.interval
            messages.append(
                f"noisy: after {MAX_SECONDS:g} s the median is still only known to ± {(high - low) / 2:.1e} s"
            )
        if self.launch_s > self.median:
            messages.append(f"launching takes {units(self.launch_s, 's')} on the host: called in a row, the GPU waits")
        if (share := self.of_copy) and share > 1.05:
            messages.append(
                f"{share:.0%} of a copy's bandwidth: fewer bytes move than you gave, or not all work is done"
            )
        return messages

    def __repr__(self) -> str:
        low, high = (f"{t * 1e6:.1f}" for t in self.cold.interval)
        p20, p80 = (f"{self.cold.quantile(q) * 1e6:.1f}" for q in (0.2, 0.8))
        parts = [f"{self.name}: {self.median * 1e6:.1f} µs ({low} … {high}; p20 {p20}, p80 {p80})"]
        parts.append(f"hot {self.hot.median * 1e6:.1f} µs")
        if self.gbs:
            parts.append(f"{self.gbs:.0f} GB/s" + (f" = {self.of_copy:.0%} of a copy" if self.of_copy else ""))
        if self.tflops:
            share = f" = {self.of_matmul:.0%} of the best {self.precision} matmul" if self.of_matmul else ""
            parts.append(f"{self.tflops:.4g} TFLOP/s{share}")
        return ", ".join(parts) + "".join(f"\n  {n}" for n in self.notes)

    def to_json(self) -> dict:
        low, high = self.cold.interval
        return {
            "name": self.name,
            "gpu": self.gpu,
            "us": self.median * 1e6,
            "low_us": low * 1e6,
            "high_us": high * 1e6,
            "p20_us": self.cold.quantile(0.2) * 1e6,
            "p80_us": self.cold.quantile(0.8) * 1e6,
            "hot_us": self.hot.median * 1e6,
            "launch_us": self.launch_s * 1e6,
            "samples": len(self.cold.seconds),
            "gbs": self.gbs,
            "tflops": self.tflops,
            "of_copy": self.of_copy,
            "of_matmul": self.of_matmul,
        }

    def plot(self):
        """Every sample in the order taken: cold and hot, their medians, and the band from p20 to p80."""
        from .. import plots

        fig = plots.figure(8, 2.8)
        axis = fig.subplots()
        for sample, colour, marker in ((self.cold, plots.PALETTE[0], "o"), (self.hot, plots.PALETTE[5], "x")):
            shown = [t * 1e6 for t in sample.seconds]
            axis.plot(shown, marker, markersize=3, color=colour, linestyle="none")
            axis.axhline(sample.median * 1e6, color=colour, label=f"{sample.name} {sample.median * 1e6:.1f} µs")
            axis.axhspan(sample.quantile(0.2) * 1e6, sample.quantile(0.8) * 1e6, color=colour, alpha=0.15, lw=0)
        axis.set(xlabel="sample", ylabel="µs", title=f"{self.name} on {self.gpu}")
        axis.legend(loc="upper right", fontsize=8)
        fig.alt = f"Samples of {self.name}: cold {self.median * 1e6:.1f} µs, hot {self.hot.median * 1e6:.1f} µs."
        return fig


def measure(
    fn: Callable,
    *arguments,
    bytes: float | None = None,
    flops: float | None = None,
    precision: str = "fp32",
    machine: Machine | None = None,
) -> Measurement:
    """Time `fn(*arguments)`, cold and hot. Each sample takes the next of several copies of the tensors.

    A `machine` of your own gets no ceilings.
    """
    watch = Stopwatch(machine)
    ring = [lambda a=a: fn(*a) for a in copies(arguments, 4 * watch.l2_bytes)]
    cold = watch.take_turns({"cold": ring})["cold"]
    hot = watch.hot(ring[0])
    known = None
    if machine is None and (bytes or flops):
        known = roofs.measured()
    return Measurement(_name(fn), watch.machine.name, cold, hot, watch.launch_s, bytes, flops, precision, known)


def copies(arguments: Sequence, least_bytes: int) -> list[tuple]:
    """The arguments, and as many copies of their tensors as it takes to have so many bytes in all, RING_MAX at most."""
    import torch

    size = sum(a.numel() * a.element_size() for a in arguments if isinstance(a, torch.Tensor))
    count = min(RING_MAX, max(2, -(-least_bytes // size))) if size else 1
    if size * count > 2**34:  # 16 GiB: leave room for others
        count = max(1, 2**34 // size)
    again = [tuple(_copy(a) for a in arguments) for _ in range(count - 1)]
    return [tuple(arguments), *again]


def _copy(value):
    import torch

    if not isinstance(value, torch.Tensor):
        return value
    fresh = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=value.device)
    return fresh.copy_(value.detach())


@dataclass(frozen=True)
class Versus:
    """Functions timed in turns. `times(name)` is how many times as long as the first of them it takes."""

    gpu: str
    samples: dict[str, Sample] = field(repr=False)

    def times(self, name: str) -> Ratio:
        return ratio(self.samples[name], next(iter(self.samples.values())))

    def __repr__(self) -> str:
        first, *rest = self.samples
        lines = [f"{first}: {self.samples[first].median * 1e6:.1f} µs on {self.gpu}"]
        for n in rest:
            r, t = self.times(n), self.samples[n].median * 1e6
            verdict = "no difference seen" if r.low <= 1 <= r.high else "slower" if r.value > 1 else "faster"
            lines.append(f"{n}: {t:.1f} µs, {r.value:.3f} × {first} ({r.low:.3f} … {r.high:.3f}, 95 %): {verdict}")
        return "\n".join(lines)


def versus(arguments: Sequence, machine: Machine | None = None, **functions: Callable) -> Versus:
    """Time functions on the same arguments, in turns there and back."""
    watch = Stopwatch(machine)
    rings = copies(arguments, 4 * watch.l2_bytes)
    competitors = {n: [lambda f=f, a=a: f(*a) for a in rings] for n, f in functions.items()}
    return Versus(watch.machine.name, watch.take_turns(competitors))


def benchmark(fn: Callable, *arguments, **options) -> Measurement | None:
    """`measure` where there is a GPU; elsewhere say why there is no time, and count."""
    if not callable(fn):
        print(f"lab.benchmark takes an exercise's id or a function, not a {type(fn).__name__}.")
        return None
    if not device.has_gpu():
        without_gpu(arguments, fn)
        return None
    return measure(fn, *arguments, **options)


def compare(*arguments, **functions: Callable) -> Versus | None:
    """`versus` where there is a GPU; elsewhere say why there are no times, and count."""
    if len(functions) < 2 or not all(map(callable, functions.values())):
        print("lab.compare takes at least two functions by name: lab.compare(x, mine=f, library=g).")
        return None
    if not device.has_gpu():
        without_gpu(arguments, *functions.values())
        return None
    return versus(arguments, **functions)


NO_TIMES = "No GPU here, so no times: the CPU interprets kernels thousands of times slower, in another order."


def without_gpu(arguments: Sequence, *functions: Callable) -> None:
    """Say why there are no times, and what the launches of one call ask of memory."""
    print(NO_TIMES)
    for fn in functions:
        print(_counts(fn, arguments))


def _counts(fn: Callable, arguments: Sequence) -> str:
    from ..backends import errors
    from ..backends.recording import record

    try:
        with record() as counted:
            fn(*arguments)
    except Exception as e:  # the learner's code
        return f"{_name(fn)} failed: {errors.explain(e).message}"
    totals = counted.totals()
    loaded, stored = totals.get("load_bytes", 0), totals.get("store_bytes", 0)
    if not loaded + stored:
        return f"{_name(fn)} launches no kernel of yours, so there is nothing to count."
    return (
        f"Counted instead, one call of {_name(fn)}: lanes request {loaded:,} bytes in loads and {stored:,} in stores, "
        f"in sectors of {traffic.in_sectors(totals):,.0f} bytes."
    )


def _name(fn: Callable) -> str:
    return getattr(fn, "__name__", type(fn).__name__)
