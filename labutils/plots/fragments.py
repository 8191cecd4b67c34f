"""The three matrices of a tensor core's instruction, with what one lane holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .base import PALETTE, figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLOURS = (PALETTE[1], PALETTE[4], PALETTE[3], PALETTE[6])
"""One for each register of a lane."""


def fragments(lane: int) -> Figure:
    """Who holds what: the lane's number in each cell, the given lane's cells coloured by register and numbered."""
    from matplotlib.patches import Rectangle

    from ..fragments import SHAPES, holds

    fig = figure(9.0, 4.6)
    titles = {"a": "a: 16 × 16", "b": "b: 16 × 8", "d": "d: 16 × 8"}
    said = []
    for axis, (name, (rows, columns)) in zip(fig.subplots(1, 3, width_ratios=(16, 8, 8)), SHAPES.items(), strict=True):
        axis.set(xlim=(0, columns), ylim=(rows, 0), aspect="equal")
        axis.set_xticks([j + 0.5 for j in range(columns)], [str(j) for j in range(columns)], fontsize=6)
        axis.set_yticks([i + 0.5 for i in range(rows)], [str(i) for i in range(rows)], fontsize=6)
        axis.tick_params(length=0)
        axis.xaxis.tick_top()
        axis.set_title(titles[name], fontsize=9)
        for other in range(32):
            for number, (row, column) in enumerate(holds(name, other)):
                mine = other == lane
                register = number if name == "d" else number // 2
                colour = COLOURS[register] if mine else "white"
                axis.add_patch(Rectangle((column, row), 1, 1, facecolor=colour, edgecolor="#BBBBBB", lw=0.5))
                text = f"{name}{register}" if mine else str(other)
                axis.text(
                    column + 0.5, row + 0.5, text, ha="center", va="center", fontsize=7 if mine else 5,
                    color="black" if mine else "#777777", weight="bold" if mine else "normal",
                )  # fmt: skip
        said.append(f"of {name} " + ", ".join(map(str, holds(name, lane))))
    fig.suptitle(f"Lane {lane} holds the coloured cells; grey numbers are the other lanes", fontsize=10)
    fig.alt = f"Lane {lane} holds (row, column) " + "; ".join(said) + "."
    return fig
