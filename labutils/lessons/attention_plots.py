"""Figures of tiled attention: the scores that are computed, and (m, l, acc) of their queries."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ..plots.base import PALETTE, figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from .attention import Step

DONE, NOW = "#DDDDDD", PALETTE[1]
COLUMNS = (0.08, 0.23, 0.13, 0.2, 0.2, 0.2)
"""Widths of the table's columns, as shares of the picture's."""


def attention_step(every: list[Step], at: int) -> Figure:
    """Step `at` of `every`, from 0: above the tile among all scores, below how it changes its queries. It fits a
    phone."""
    now = every[at]
    M, N = every[-1].queries.stop, max(s.keys.stop for s in every)
    fig = figure(4.6, 4.9)
    board, words = fig.subplots(2, 1, height_ratios=(2.3, 1))
    board.set(xlim=(0, N), ylim=(M, 0), aspect="equal")
    board.set_xticks([j + 0.5 for j in range(N)], [f"k{j}" for j in range(N)], fontsize=8)
    board.set_yticks([i + 0.5 for i in range(M)], [f"q{i}" for i in range(M)], fontsize=8)
    board.tick_params(length=0)
    board.set_title("scores / √D", fontsize=9)
    _grid(board, every, at, M, N)
    words.axis("off")
    rows = _rows(every, at)
    table = words.table(rows[1:], colLabels=rows[0], loc="center", cellLoc="right")
    table.auto_set_font_size(False)
    table.set_fontsize(8)
    for (_, column), cell in table.get_celld().items():
        cell.set_width(COLUMNS[column])
    table.scale(1, 1.5)
    total = f"queries {now.queries.start}–{now.queries.stop - 1}, keys {now.keys.start}–{now.keys.stop - 1}"
    fig.suptitle(f"Tile {at + 1} of {len(every)}: {total}", fontsize=10)
    fig.alt = f"Tile {at + 1} of {len(every)}: {total}. " + " ".join(_described(row) for row in rows[1:])
    return fig


def _grid(axis, every: list[Step], at: int, M: int, N: int) -> None:
    from matplotlib.patches import Rectangle

    known = {}
    for number, step in enumerate(every):
        for i, row in zip(step.queries, step.scores.tolist(), strict=True):
            for j, value in zip(step.keys, row, strict=True):
                known[i, j] = (number, value)
    for i in range(M):
        for j in range(N):
            number, value = known.get((i, j), (None, 0.0))
            color = "white" if number is None or number > at else NOW if number == at else DONE
            skipped = number is None
            axis.add_patch(
                Rectangle((j, i), 1, 1, facecolor=color, edgecolor="#999999", lw=0.5, hatch="///" if skipped else None)
            )
            if number is not None and number <= at:
                axis.text(j + 0.5, i + 0.5, _number(value), ha="center", va="center", fontsize=7)
    step = every[at]
    axis.add_patch(
        Rectangle(
            (step.keys.start, step.queries.start),
            len(step.keys),
            len(step.queries),
            fill=False,
            edgecolor="black",
            lw=2,
        )
    )


def _rows(every: list[Step], at: int) -> list[list[str]]:
    """A header, and one row per query of the tile: before, factor, after."""
    now = every[at]
    first = not at or every[at - 1].queries != now.queries
    rows = [["", "m", "factor", "l", "acc", "acc / l"]]
    for r, query in enumerate(now.queries):
        before = -math.inf if first else every[at - 1].m[r].item()
        l_before = 0.0 if first else every[at - 1].l[r].item()
        acc = now.acc[r].tolist()
        rows.append(
            [
                f"q{query}",
                f"{_number(before)} → {_number(now.m[r].item())}",
                _number(now.factor[r].item()),
                f"{_number(l_before)} → {_number(now.l[r].item())}",
                ", ".join(map(_number, acc)),
                ", ".join(_number(a / now.l[r].item()) for a in acc),
            ]
        )
    return rows


def _described(row: list[str]) -> str:
    query, m, factor, l, acc, mean = row  # noqa: E741
    return f"{query}: m {m}, factor {factor}, l {l}, acc {acc}, acc / l {mean}."


def _number(value: float) -> str:
    if math.isinf(value):
        return "-∞" if value < 0 else "∞"
    return f"{value:.2f}".rstrip("0").rstrip(".") or "0"


def attention_owners(tiles: int, row: int, column: int) -> Figure:
    """Causal tiles of the scores: those that the program of one row loops over, and of one column."""
    from matplotlib.patches import Rectangle

    fig = figure(6.4, 3.2)
    words = (("dQ: a program owns queries", row), ("dK, dV: a program owns keys", column))
    for axis, (title, own) in zip(fig.subplots(1, 2), words, strict=True):
        by_row = title.startswith("dQ")
        axis.set(
            xlim=(0, tiles), ylim=(tiles, 0), xticks=[], yticks=[], aspect="equal", xlabel="keys", ylabel="queries"
        )
        axis.set_title(title, fontsize=9)
        for i in range(tiles):
            for j in range(tiles):
                mine = (i if by_row else j) == own and j <= i
                color = "white" if j > i else NOW if mine else DONE
                box = Rectangle(
                    (j, i), 1, 1, facecolor=color, edgecolor="#999999", lw=0.5, hatch="///" if j > i else None
                )
                axis.add_patch(box)
                if mine:
                    axis.text(j + 0.5, i + 0.5, "mask" if i == j else "·", ha="center", va="center", fontsize=7)
    fig.alt = (
        f"Of {tiles} × {tiles} tiles, those above the diagonal are skipped. The dQ program that owns row {row} loops "
        f"over {row + 1} tiles, the last with a mask; the dK, dV program that owns column {column} over "
        f"{tiles - column}, the first with a mask."
    )
    return fig
