"""The race of unit 24's capstone: the learner's block beside PyTorch's, eager and compiled.

from labutils import capstone
capstone.race(block)                   time of one call, 8 × 2048 tokens of Llama 3 8B; needs a GPU
capstone.show(work_log())              a work log as a table
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence

from .. import environment
from ..exercises import block_capstone
from ..gpu import device

__all__ = ["compiled", "data", "differs", "race", "show"]

GOAL = 1.05
"""Speed of the block, relative to torch.compile."""


def data(sizes: Mapping[str, int], where: str = "cuda", dtype: str = "bfloat16") -> dict:
    """The block's inputs by name, and `out`, as the exercise fills them."""
    import torch

    from ..exercises import get

    g, found = torch.Generator().manual_seed(0), {}
    for name, argument in get("24_capstone/block").arguments.items():
        kind = getattr(torch, argument.dtype or dtype)
        if argument.fill is None:  # x, and the result
            found[name] = torch.randn(argument.shape(sizes), generator=g).to(where, kind)
        else:
            found[name] = argument.fill(sizes, g).to(where, kind)
    return found


def compiled(inputs: Mapping, mode: str | None = "max-autotune-no-cudagraphs") -> Callable:
    """PyTorch's block as a function of x, with constant weights; `mode` of torch.compile, or None for eager.

    CUDA graphs save launch time, which a block of this size hides anyway, but they copy x in every call.
    """
    import torch

    weights = {name: t for name, t in inputs.items() if name not in ("x", "out")}

    def forward(x):
        return block_capstone.library(x, **weights)

    return torch.compile(forward, mode=mode, dynamic=False) if mode else forward


@contextlib.contextmanager
def quiet_autotuning() -> Iterator[None]:
    """torch.compile without its tables of tried kernels, and without errors for those that do not fit on this GPU.

    Trying them is what max-autotune does, so neither needs anything from the learner.
    """
    from torch._inductor import config

    log = logging.getLogger("torch._inductor.select_algorithm")
    level = log.level
    log.setLevel(logging.CRITICAL)
    try:
        with config.patch(max_autotune_report_choices_stats=False, autotune_num_choices_displayed=0):
            yield
    finally:
        log.setLevel(level)


def differs(got, expected) -> float:
    """The largest difference, relative to the largest element."""
    return float((got.float() - expected.float()).abs().max() / expected.float().abs().max())


def race(block: Callable) -> None:
    """Time block(x, …, out), eager PyTorch and torch.compile in turns, on the same inputs; print the ratios."""
    if environment.grading_in_progress():
        return
    if not device.has_gpu():
        print("The race needs a GPU.")
        return
    import torch

    from ..timing.stopwatch import Stopwatch, ratio

    sizes = block_capstone.sizes_of(**block_capstone.LLAMA)
    inputs = data(sizes)
    with torch.no_grad():
        eager, fast = compiled(inputs, None), compiled(inputs)
        contestants = {
            "yours": lambda: block(**inputs),
            "eager": lambda: eager(inputs["x"]),
            "torch.compile": lambda: fast(inputs["x"]),
        }
        contestants["yours"]()
        error = differs(inputs["out"], contestants["eager"]())
        print(f"largest difference from PyTorch: {error:.1e} of the largest element")
        with quiet_autotuning():
            contestants["torch.compile"]()  # compiles
        samples = Stopwatch().take_turns({name: [call] for name, call in contestants.items()})
    flops = block_capstone.cost(sizes, 2).flops
    for name, sample in samples.items():
        print(f"{name:14} {1e3 * sample.median:7.2f} ms {flops / sample.median / 1e12:5.0f} TFLOP/s")
    found = ratio(samples["torch.compile"], samples["yours"])
    print(f"yours is {found.value:.3f} × as fast as torch.compile ({found.low:.3f} … {found.high:.3f}), goal {GOAL}")


def show(log: Sequence[Mapping]) -> None:
    """Print a work log: each change with its prediction and measurement, and the error of the prediction."""
    if environment.grading_in_progress():
        return
    print(f"{'before':>9} {'predicted':>9} {'measured':>9} {'off by':>7}  change")
    for entry in log:
        error = entry["predicted"] / entry["measured"] - 1
        mark = "" if entry["kept"] else " (not kept)"
        print(
            f"{entry['before']:9.4g} {entry['predicted']:9.4g} {entry['measured']:9.4g} {error:+7.0%}  "
            f"{entry['change']}{mark}"
        )
