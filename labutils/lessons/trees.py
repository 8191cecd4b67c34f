"""Which threads of a block add in each step of a reduction tree, as a picture."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from .. import environment

WAYS: dict[str, Callable[[int, int], bool]] = {
    "V1: neighbors": lambda t, s: t % (2 * s) == 0,
    "V2: first threads": lambda t, s: t < 32 // s,
}
"""Name -> whether thread t of 64 adds in the step of distance s."""


def who_adds(
    ways: Mapping[str, Callable[[int, int], bool]] = WAYS,
    threads: int = 64,
    steps: Sequence[int] = (1, 2, 4, 8, 16, 32),
):
    """A mark for each thread that adds in the step of distance s; the vertical line separates two warps."""
    from .. import plots

    if environment.grading_in_progress():
        return None
    try:
        fig = plots.figure(8.0, 1.5 * len(ways) + 0.6)
    except plots.Unavailable as e:
        print(f"No picture: {e}")
        return None
    for axis, (name, adds) in zip(fig.subplots(len(ways), 1, sharex=True), ways.items(), strict=True):
        for row, s in enumerate(steps):
            busy = [t for t in range(threads) if adds(t, s)]
            axis.plot(busy, [row] * len(busy), "s", markersize=4, color=plots.PALETTE[0])
        axis.axvline(31.5, color=plots.PALETTE[1])
        axis.set(title=name, ylabel="s", yticks=range(len(steps)), yticklabels=steps, ylim=(5.7, -0.7))
    axis.set_xlabel("thread")
    fig.alt = "V1: both warps are busy in every step but the last. V2: only one warp is, in all steps."
    return fig
