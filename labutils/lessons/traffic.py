"""Memory traffic in notebooks: ledgers compared with counts, and bandwidth measured over row lengths.

from labutils import traffic
traffic.ledger({"naive": {...}, "fused": {...}}, {"fused": traffic.elements(fn, x, out)})
traffic.sweep(lengths, {"fused": softmax}, elements=2**26)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from .. import environment
from ..backends.interpreter import Unavailable
from ..gpu import device

COPY = "copy"


def elements(fn: Callable, *arguments) -> int | None:
    """Count the elements that the launches of `fn(*arguments)` load and store; None if that is not possible."""
    from ..backends import trace

    if environment.grading_in_progress():
        return None
    try:
        counts = trace.trace(fn, *arguments).counts
    except (trace.TraceFailed, Unavailable):
        return None
    return (counts["load_bytes"] + counts["store_bytes"]) // arguments[0].element_size()


def ledger(versions: Mapping[str, Mapping[str, tuple]], counted: Mapping[str, int | None] | None = None, title=""):
    """Draw a ledger: for each version, its kernels with (read, written) elements, and the counted total."""
    from .. import plots
    from . import traffic_plots as pictures

    known = {name: count for name, count in (counted or {}).items() if count is not None}
    if environment.grading_in_progress():
        return None
    try:
        return pictures.ledger(versions, known, title)
    except plots.Unavailable as e:
        print(f"No picture: {e}")


def measure(
    shapes: Sequence[tuple[int, int]],
    kernels: Mapping[str, Callable],
    dtype="float32",
    report: Callable[[str], object] | None = print,
) -> dict[str, list[float]]:
    """GB/s of 2·M·N elements for each kernel fn(x, out) and for a plain copy, interleaved; one entry per shape.

    Needs a GPU. A kernel that raises an exception gets NaN.
    """
    import torch

    from ..timing.stopwatch import Stopwatch

    kind = getattr(torch, dtype)
    watch = Stopwatch()
    rates: dict[str, list[float]] = {name: [] for name in (*kernels, COPY)}
    for M, N in shapes:
        count = max(2, -(-4 * watch.l2_bytes // (M * N * kind.itemsize)))
        data = [torch.randn(M, N, device="cuda").to(kind) for _ in range(count)]
        results = [torch.empty_like(x) for x in data[:2]]
        rings = {}
        for name, fn in kernels.items():
            try:
                fn(data[0], results[0])
                torch.cuda.synchronize()
            except Exception as e:
                (report or print)(f"{name} at {M} × {N}: {type(e).__name__}: {str(e)[:100]}")
                continue
            rings[name] = [lambda f=fn, x=x, y=results[i % 2]: f(x, y) for i, x in enumerate(data)]
        rings[COPY] = [lambda x=x, y=results[i % 2]: y.copy_(x) for i, x in enumerate(data)]
        samples = watch.take_turns(rings)
        for name, all_rates in rates.items():
            known = name in samples
            all_rates.append(2 * M * N * kind.itemsize / samples[name].median / 1e9 if known else float("nan"))
        if report:
            row = ", ".join(f"{n} {r[-1]:.0f}" for n, r in rates.items())
            report(f"{M} × {N} {dtype}: {row} GB/s")
        del data, results, rings
    return rates


def sweep(lengths: Sequence[int], kernels: Mapping[str, Callable], elements: int = 2**26, dtype="float32"):
    """Measure and plot kernels fn(x, out) on matrices of about `elements` entries with rows of these lengths."""
    from .. import plots
    from . import traffic_plots as pictures

    if environment.grading_in_progress():
        return None
    if not device.has_gpu():
        print("No GPU: bandwidth cannot be measured on this machine. The counts above do not need one.")
        return None
    rates = measure([(max(1, elements // n), n) for n in lengths], kernels, dtype)
    try:
        return pictures.bandwidth(lengths, rates, f"{device.current().name}, {dtype}")
    except plots.Unavailable as e:
        print(f"No picture: {e}")
