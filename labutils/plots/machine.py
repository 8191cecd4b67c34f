"""What an SM does: which resource limits its blocks, waves and their tail, warps that hide latency, divergence."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ..gpu.occupancy import WARP, Occupancy, busy_share, tail, warps_for_latency
from ..gpu.occupancy import waves as count_waves
from .base import PALETTE, figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BLUE, ORANGE, GREEN, _, SKY, RED, _, GREY = PALETTE
WIDTH = 6.4
"""Inches: still to be read where a phone shrinks it to its own width."""

DRAWN_WARPS = 16
DRAWN_WAVES = 12


def occupancy(result: Occupancy, max_warps: int, title: str = "") -> Figure:
    """How many blocks each resource allows, and which of the SM's places for warps are taken."""
    fig = figure(WIDTH, 3.6)
    bars, places = fig.subplots(2, 1, height_ratios=(3, 1.4))
    names, fewest = list(result.limits), _fewest(result)
    most = max(*result.limits.values(), 1)
    for row, name in enumerate(names):
        blocks, limits = result.limits[name], name in fewest
        bars.barh(
            row, blocks, color=RED if limits else SKY, hatch="//" if limits else None, edgecolor="black", linewidth=0.6
        )
        label = f" {blocks}" + ("  ← allows fewest" if limits else "")
        bars.text(blocks, row, label, va="center", fontsize=10, weight="bold" if limits else "normal")
    bars.set(yticks=range(len(names)), yticklabels=names, xlim=(0, 1.45 * most), ylim=(len(names) - 0.5, -0.5))
    bars.set_xlabel("blocks that each resource allows on an SM", fontsize=9)
    _bare(bars, ("top", "right"))
    columns = 16
    each = result.warps // result.blocks if result.blocks else 0
    for slot in range(max_warps):
        taken = slot < result.warps
        block = slot // each if taken else 0
        places.barh(
            slot // columns,
            0.9,
            left=slot % columns,
            height=0.85,
            color=(BLUE, ORANGE)[block % 2] if taken else "white",
            edgecolor="black" if taken else GREY,
            linewidth=0.5,
        )
    places.set(xlim=(-0.1, columns), ylim=(max_warps / columns - 0.4, -0.6), xticks=[], yticks=[])
    _bare(places)
    places.set_xlabel("warp slots; colors alternate between blocks", fontsize=9)
    fig.alt = _occupancy_text(result, max_warps, each)
    fig.suptitle(title or f"{result.warps} of {max_warps} warps: {result.fraction:.4g} of the SM", fontsize=11)
    return fig


def _fewest(result: Occupancy) -> list[str]:
    """The resources that allow as few blocks as the limiter; often it is not alone."""
    return [name for name, blocks in result.limits.items() if blocks == result.blocks]


def _occupancy_text(result: Occupancy, max_warps: int, each: int) -> str:
    fewest = _fewest(result)
    named = " and ".join(fewest)
    if not result.blocks:
        return f"Occupancy: no block fits at all, for want of {named}: this kernel cannot be launched."
    others = ", ".join(f"{n}: {b}" for n, b in result.limits.items() if n not in fewest)
    return (
        f"Occupancy: {result.blocks} block{'s' * (result.blocks != 1)} of {each} warps on each SM, {result.warps} of "
        f"{max_warps} warps, {100 * result.fraction:.4g} %. The limit is {named}; the others allow {others}."
    )


def waves(blocks: int, sms: int, per_sm: int, title: str = "") -> Figure:
    """A grid over time, if all blocks take equally long: full waves, then the tail with its idle places."""
    resident = sms * per_sm
    count, share = count_waves(blocks, resident)
    rest = tail(blocks, resident)
    fig = figure(WIDTH, 2.6)
    axis = fig.subplots()
    first = max(0, count - DRAWN_WAVES)
    for k in range(first, count):
        last = k == count - 1
        height = rest if last else resident
        axis.bar(k + 0.5, height, 0.94, color=ORANGE if last and rest < resident else BLUE, edgecolor="black")
        if height < resident:
            axis.bar(k + 0.5, resident - height, 0.94, bottom=height, color="white", edgecolor=GREY, hatch="..", lw=0.5)
            axis.text(k + 0.5, resident * 1.04, f"{resident - height}\nidle", ha="center", fontsize=9)
    axis.set(xlim=(first, max(count, first + 3)), ylim=(0, 1.3 * resident))
    axis.set_xlabel("time, in durations of a block" + (f" (the first {first} waves left out)" if first else ""))
    axis.set_ylabel(f"places ({sms} × {per_sm})")
    axis.xaxis.get_major_locator().set_params(integer=True)
    _bare(axis, ("top", "right"))
    fig.alt = (
        f"Waves: {blocks} blocks on {sms} SMs, {per_sm} on each at a time: {count} wave{'s' * (count != 1)}, "
        f"{rest} block{'s' * (rest != 1)} in the last; {share:.1%} of all places used."
    )
    fig.suptitle(title or f"{count} wave{'s' * (count != 1)}, {share:.1%} used", fontsize=11)
    return fig


def timeline(warps: int, busy: int, latency: int, title: str = "") -> Figure:
    """One scheduler and its warps: each issues for `busy` cycles, then waits `latency` cycles for memory."""
    fig = figure(WIDTH, 1.5 + 0.13 * min(warps, DRAWN_WARPS))
    axis = fig.subplots()
    horizon = 3 * (busy + latency)
    issued = []
    ready = [0] * warps
    now = 0
    while now < horizon:
        turn = min(range(warps), key=lambda w: (ready[w], w))
        now = max(now, ready[turn])
        if now >= horizon:
            break
        issued.append((turn, now))
        if turn < DRAWN_WARPS:
            axis.barh(turn, busy, left=now, height=0.8, color=BLUE)
            axis.plot([now + busy, min(now + busy + latency, horizon)], [turn, turn], color=GREY, lw=1)
        now += busy
        ready[turn] = now + latency
    row = min(warps, DRAWN_WARPS) + 0.6
    axis.barh(row, horizon, height=0.9, color="white", edgecolor=GREY, hatch="..", lw=0.5)
    for _, start in issued:
        axis.barh(row, min(busy, horizon - start), left=start, height=0.9, color=ORANGE)
    share, needed = busy_share(warps, busy, latency), warps_for_latency(busy, latency)
    axis.set(xlim=(0, horizon), ylim=(row + 0.7, -0.7), xlabel="cycles")
    shown = range(0, min(warps, DRAWN_WARPS), 4)
    axis.set_yticks([*shown, row], [*(f"warp {k}" for k in shown), "scheduler"], fontsize=9)
    _bare(axis, ("top", "right"))
    hidden = f" (the first {DRAWN_WARPS} drawn)" if warps > DRAWN_WARPS else ""
    fig.alt = (
        f"Latency hiding: {warps} warp{'s' * (warps != 1)}{hidden}, each {busy} cycles of work, then {latency} of "
        f"waiting: the scheduler issues in {share:.0%} of the cycles; {needed} warps would keep it busy."
    )
    fig.suptitle(title or f"the scheduler issues in {share:.0%} of the cycles", fontsize=11)
    return fig


def divergence(branch: Callable[[int], bool], yes: int = 3, no: int = 3, threads: int = 64, title: str = "") -> Figure:
    """A branch, warp by warp: `yes` and `no` are the instructions of its sides. Idle lanes are hollow."""
    fig = figure(WIDTH, 0.9 + 1.2 * (threads // WARP))
    axes = fig.subplots(threads // WARP, 1, sharex=True, squeeze=False)[:, 0]
    used = slots = steps = 0
    for warp, axis in enumerate(axes):
        sides = [branch(WARP * warp + lane) for lane in range(WARP)]
        column = 0
        axis.bar(0.45, WARP, 0.9, color=GREEN, edgecolor="none")
        used, slots, column = used + WARP, slots + WARP, 1
        for wanted, length, colour, hatch in ((True, yes, BLUE, None), (False, no, ORANGE, "///")):
            lanes = [k for k in range(WARP) if sides[k] == wanted]
            if not lanes:
                continue
            for _ in range(length):
                axis.bar(column + 0.45, WARP, 0.9, color="white", edgecolor=GREY, linewidth=0.5)
                for k in lanes:
                    axis.bar(column + 0.45, 1, 0.9, bottom=k, color=colour, hatch=hatch, edgecolor="white", lw=0.2)
                used, slots, column = used + len(lanes), slots + WARP, column + 1
        steps = max(steps, column)
        axis.set(ylim=(WARP, 0), yticks=[0, 16, 31])
        axis.set_ylabel(f"lanes, warp {warp}", fontsize=9)
        _bare(axis, ("top", "right"))
    axes[-1].set(xlim=(0, 1 + yes + no))
    axes[-1].set_xlabel("instructions: condition (green), true side (blue), false side (orange, striped)", fontsize=9)
    share = used / slots
    fig.alt = (
        f"Divergence: {threads // WARP} warps, {steps} steps for the longer one; {share:.0%} of the lanes that are "
        "paid for do work."
    )
    fig.suptitle(title or f"{share:.0%} of the lanes active", fontsize=11)
    return fig


def _bare(axis, sides: tuple[str, ...] = ("top", "left", "right", "bottom")) -> None:
    for side in sides:
        axis.spines[side].set_visible(False)
