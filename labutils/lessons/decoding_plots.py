"""Figures: slots over time, and a pool of pages with its block tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ..plots.base import PALETTE, figure
from .slots import steps_of, use_of_slots

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from .slots import Stay

LIGHT = (PALETTE[4], PALETTE[1], PALETTE[6], PALETTE[3], "#DDDDDD")


def batches(plans: Mapping[str, Sequence[Stay]], slots: int) -> Figure:
    """Which request holds which slot in which step, for each plan; hatched where a slot idles."""
    from matplotlib.patches import Rectangle

    last = max(map(steps_of, plans.values()))
    fig = figure(8.0, 1.2 + 0.5 * slots * len(plans) * 0.8)
    parts = []
    for axis, (name, stays) in zip(fig.subplots(len(plans), 1, squeeze=False)[:, 0], plans.items(), strict=True):
        steps, share = steps_of(stays), use_of_slots(stays, slots)
        parts.append(f"{name}: {steps} steps, {share:.0%} of the slots used")
        axis.add_patch(Rectangle((0, 0), steps, slots, facecolor="white", edgecolor="#999999", hatch="///", lw=0.5))
        for s in stays:
            box = Rectangle((s.steps.start, s.slot), len(s.steps), 1, facecolor=LIGHT[s.request % 5], edgecolor="black")
            axis.add_patch(box)
            axis.text(
                s.steps.start + len(s.steps) / 2, s.slot + 0.5, str(s.request), ha="center", va="center", fontsize=8
            )
        axis.set(xlim=(0, last), ylim=(slots, 0), yticks=[i + 0.5 for i in range(slots)], ylabel="slot")
        axis.set_yticklabels([str(i) for i in range(slots)])
        axis.set_title(parts[-1], fontsize=9)
        axis.tick_params(length=0)
    axis.set_xlabel("step: one token for each request in a slot")
    fig.alt = f"{slots} slots. " + "; ".join(parts) + "."
    return fig


def page_pool(lengths: Sequence[int], page: int, pool: int, tables: Sequence[Sequence[int]]) -> Figure:
    """On the left the tables; on the right the pool, with the sequences that use each page and how full it is."""
    from matplotlib.patches import Rectangle

    fig = figure(8.0, 0.7 + 0.34 * pool)
    of_tables, of_pool = fig.subplots(1, 2, width_ratios=(1, 1.1))
    holders: dict[int, list[int]] = {}
    filled: dict[int, int] = {}
    for b, (length, table) in enumerate(zip(lengths, tables, strict=True)):
        for t, number in enumerate(table):
            holders.setdefault(number, []).append(b)
            filled[number] = min(page, length - t * page)
            y = 2.5 * b + 1
            of_tables.add_patch(Rectangle((t, y), 1, 1, facecolor=LIGHT[b % 4], edgecolor="black"))
            of_tables.text(t + 0.5, y + 0.5, str(number), ha="center", va="center", fontsize=9)
        of_tables.text(0, 2.5 * b + 0.8, f"sequence {b}: {length} keys", fontsize=8)
    of_tables.set(xlim=(0, max(map(len, tables)) + 0.2), ylim=(2.5 * len(tables) + 0.2, 0), aspect="equal")
    of_tables.set_title("block tables: which page holds keys 4t to 4t + 3" if page == 4 else "block tables", fontsize=9)
    of_tables.axis("off")
    for number in range(pool):
        mine = holders.get(number, [])
        for place in range(page):
            there = place < filled.get(number, 0)
            color = "white" if not there else LIGHT[4] if len(mine) > 1 else LIGHT[mine[0] % 4]
            hatch = "///" if mine and not there else None
            of_pool.add_patch(
                Rectangle((place, number), 1, 1, facecolor=color, edgecolor="#777777", lw=0.7, hatch=hatch)
            )
        who = (
            "free" if not mine else "shared by " + ", ".join(map(str, mine)) if len(mine) > 1 else f"sequence {mine[0]}"
        )
        of_pool.text(page + 0.2, number + 0.5, who, va="center", fontsize=8)
    of_pool.set(xlim=(0, page + 3), ylim=(pool, 0), xticks=[], yticks=[n + 0.5 for n in range(pool)])
    of_pool.set_yticklabels([str(n) for n in range(pool)])
    of_pool.tick_params(length=0)
    of_pool.set_title("pool of pages (hatched: reserved but unused)", fontsize=9)
    for side in of_pool.spines.values():
        side.set_visible(False)
    parts = [
        f"sequence {b}, {n} keys: pages {', '.join(map(str, t))}"
        for b, (n, t) in enumerate(zip(lengths, tables, strict=True))
    ]
    free = pool - len(holders)
    fig.alt = f"A pool of {pool} pages of {page} keys, {free} of them free; " + "; ".join(parts) + "."
    return fig
