"""`lab.profile`: which kernels a function runs on the GPU, what their names say, and what each takes."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from ..gpu import device
from .kernel_names import KernelName, decode, short
from .measure import NO_TIMES


@dataclass(frozen=True)
class Launch:
    """One kernel (or copy, or fill) on the GPU: when it began, after the first one, and for how long it ran."""

    name: str
    start_us: float
    us: float


@dataclass(frozen=True)
class Row:
    """All launches of one kernel."""

    kernel: KernelName
    launches: int
    us: float


@dataclass(frozen=True)
class Profile:
    """One call, seen by `tool`. A profiler slows the host, so times are of the kernels alone."""

    function: str
    gpu: str
    launches: tuple[Launch, ...] = field(repr=False)
    tool: str = "torch.profiler"

    @property
    def rows(self) -> list[Row]:
        """By kernel, the most time first."""
        together: dict[str, list[float]] = {}
        for launch in self.launches:
            together.setdefault(launch.name, []).append(launch.us)
        found = [Row(decode(name), len(times), sum(times)) for name, times in together.items()]
        return sorted(found, key=lambda row: -row.us)

    @property
    def busy_us(self) -> float:
        return sum(launch.us for launch in self.launches)

    @property
    def span_us(self) -> float:
        """From the first kernel's begin to the last one's end."""
        return max((x.start_us + x.us for x in self.launches), default=0.0)

    def __repr__(self) -> str:
        if not self.launches:
            return f"{self.function} ran nothing on the GPU."
        lines = [f"{self.function} on {self.gpu}, {len(self.launches)} launches, by {self.tool}:"]
        for row in self.rows:
            lines.append(f"  {row.us:9.1f} µs {row.us / self.busy_us:5.0%} {row.launches:3} × {short(row.kernel.name)}")
            lines.append(f"  {'':24}{row.kernel}")
        lines.append(f"  {self.busy_us:9.1f} µs of kernels in {self.span_us:.1f} µs")
        return "\n".join(lines)

    def timeline(self):
        """One bar for each launch, kernels of one name in one row."""
        return timeline(self)

    def to_json(self) -> dict:
        return {
            "function": self.function,
            "gpu": self.gpu,
            "tool": self.tool,
            "rows": [{"name": r.kernel.name, "says": str(r.kernel), "n": r.launches, "us": r.us} for r in self.rows],
        }


def profile(fn: Callable, *arguments, tool: str = "torch") -> Profile | None:
    """Run `fn(*arguments)` once to warm up and once under a profiler: "torch" or Triton's "proton"."""
    if not device.has_gpu():
        print(
            f"{NO_TIMES}\nNothing to profile either: `labutils.timing.kernel_names.decode` reads names from elsewhere."
        )
        return None
    import torch

    for _ in range(2):
        fn(*arguments)
    torch.cuda.synchronize()
    name, gpu = getattr(fn, "__name__", "the call"), torch.cuda.get_device_name()
    if tool == "proton":
        return Profile(name, gpu, tuple(_by_proton(fn, arguments)), "Proton")
    return Profile(name, gpu, tuple(by_torch(fn, arguments)))


def by_torch(fn: Callable, arguments: tuple) -> list[Launch]:
    """The launches of one call, from PyTorch's profiler."""
    import torch
    from torch.profiler import ProfilerActivity

    # acc_events: without it PyTorch warns that it forgets the events of earlier cycles, of which there are none
    with torch.profiler.profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], acc_events=True) as seen:
        fn(*arguments)
        torch.cuda.synchronize()
    return from_events(seen.events())


def from_events(events) -> list[Launch]:
    """Launches from PyTorch's events: those on the GPU that are not the user's annotations."""
    found = [
        e for e in events if str(e.device_type).endswith("CUDA") and not getattr(e, "is_user_annotation", False)
    ]  # fmt: skip
    found.sort(key=lambda e: e.time_range.start)
    first = found[0].time_range.start if found else 0.0
    return [Launch(e.name, e.time_range.start - first, e.time_range.end - e.time_range.start) for e in found]


def _by_proton(fn, arguments) -> list[Launch]:
    import torch
    import triton.profiler as proton

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "profile")
        session = proton.start(str(path))
        try:
            fn(*arguments)
            torch.cuda.synchronize()
        finally:
            proton.finalize(session)
        tree = json.loads(path.with_suffix(".hatchet").read_text(encoding="utf-8"))
    return from_tree(tree)


def from_tree(tree: list) -> list[Launch]:
    """Launches from Proton's tree of totals: it keeps no order, so one follows the other."""
    found, at = [], 0.0

    def walk(node: dict) -> None:
        nonlocal at
        count = int(node.get("metrics", {}).get("count", 0))
        for _ in range(0 if node.get("children") else count):
            us = node["metrics"]["time (ns)"] / count / 1e3
            found.append(Launch(node["frame"]["name"], at, us))
            at += us
        for child in node.get("children", ()):
            walk(child)

    for node in tree:
        if "frame" in node:
            walk(node)
    return found


def timeline(seen: Profile):
    """Rows of bars, the kernels with the most time on top."""
    from .. import plots

    rows = seen.rows[:8]
    fig = plots.figure(8, 0.9 + 0.35 * len(rows))
    axis = fig.subplots()
    for k, row in enumerate(rows):
        bars = [(x.start_us, x.us) for x in seen.launches if x.name == row.kernel.name]
        axis.broken_barh(bars, (k - 0.35, 0.7), color=plots.PALETTE[k % len(plots.PALETTE)], edgecolor="black", lw=0.3)
    labels = [short(row.kernel.operation if row.kernel.tile else row.kernel.name, 34) for row in rows]
    axis.set_yticks(range(len(rows)), labels, fontsize=8)
    axis.invert_yaxis()
    axis.set(xlabel="µs after the first kernel's begin", title=f"{seen.function} on {seen.gpu}")
    fig.alt = (
        f"Timeline of {seen.function}: {len(seen.launches)} launches, {seen.busy_us:.1f} of {seen.span_us:.1f} µs."
    )
    return fig
