"""Outputs as text: the first wrong elements, a map of where they lie, a small case side by side."""

from __future__ import annotations

from typing import Any

import torch

from .regions import unravel

RIGHT, WRONG, UNWRITTEN, MIXED, OUTSIDE = ".x_: "

WIDTH, HEIGHT = 64, 12
"""Characters of a map."""

ROWS = 8
"""Rows of a small case's array that are shown."""


def table(name: str, got, expected, bad, unwritten=None, rows: int = 5) -> str:
    """The first bad elements: index, yours, expected, difference."""
    lines = [f"{'index':>16} {'yours':>14} {'expected':>14} {'difference':>12}"]
    for index in bad.nonzero()[:rows].tolist():
        at = tuple(index)
        place = f"{name}[{', '.join(map(str, at))}]"
        if unwritten is not None and unwritten[at]:
            lines.append(f"{place:>16} {'not written':>14} {expected[at]:14.7g}")
        else:
            lines.append(f"{place:>16} {got[at]:14.7g} {expected[at]:14.7g} {got[at] - expected[at]:12.3g}")
    left = int(bad.sum()) - rows
    if left > 0:
        lines.append(f"{'':>16} … and {left} more")
    return "\n".join(lines)


def mismatch_map(name: str, bad: torch.Tensor, unwritten: torch.Tensor) -> str:
    """Where the wrong elements lie: one character for an element or a patch of them, each line with its first index."""
    state = bad.int() + unwritten.int()  # 0 right, 1 wrong, 2 not written
    if bad.dim() < 2:
        lines, patch = _of_vector(name, state.reshape(-1))
    else:
        lines, patch = _of_matrix(name, state)
    legend = [f"'{RIGHT}' right"]
    if (bad & ~unwritten).any():
        legend.append(f"'{WRONG}' wrong")
    if unwritten.any():
        legend.append(f"'{UNWRITTEN}' not written")
    if patch:
        legend.append(f"'{MIXED}' some of them")
    head = f"Where ({', '.join(legend)}{patch}):"
    return "\n".join([head, *lines])


def _mark(patch: torch.Tensor) -> str:
    if not patch.numel():
        return OUTSIDE
    low, high = int(patch.min()), int(patch.max())
    return (RIGHT, WRONG, UNWRITTEN)[low] if low == high else MIXED


def _of_vector(name: str, state: torch.Tensor) -> tuple[list[str], str]:
    n = state.numel()
    each = -(-n // (WIDTH * HEIGHT))
    line = each * WIDTH
    label = len(str(n))
    lines = [
        f"  {name}[{begin:>{label}} …] " + "".join(_mark(patch) for patch in state[begin : begin + line].split(each))
        for begin in range(0, n, line)
    ]
    return lines, f"; a character is {each} elements" if each > 1 else ""


def _of_matrix(name: str, state: torch.Tensor) -> tuple[list[str], str]:
    """Rows of the last axis; the leading axes count as one."""
    columns = state.shape[-1]
    grid = state.reshape(-1, columns)
    each_row, each_column = -(-grid.shape[0] // HEIGHT), -(-columns // WIDTH)
    leading = tuple(state.shape[:-1])
    lines = []
    for begin in range(0, grid.shape[0], each_row):
        index = ", ".join(map(str, unravel(begin, leading)))
        patches = grid[begin : begin + each_row].split(each_column, dim=1)
        lines.append((f"{name}[{index}, :]", "".join(map(_mark, patches))))
    label = max(len(text) for text, _ in lines)
    sizes = [f"{each_row} rows"] * (each_row > 1) + [f"{each_column} columns"] * (each_column > 1)
    patch = f"; a character is {' by '.join(sizes)}" if sizes else ""
    return [f"  {text:<{label}} {marks}" for text, marks in lines], patch


def side_by_side(blocks: list[tuple[str, Any, torch.Tensor | None]]) -> str:
    """Numbers and tensors as text, by name; elements that a mask marks were not written."""
    width = max(len(name) for name, _, _ in blocks)
    return "\n".join(f"{name:>{width}}  {_numbers(value, unwritten, width + 2)}" for name, value, unwritten in blocks)


def _numbers(value, unwritten: torch.Tensor | None, indent: int) -> str:
    if not isinstance(value, torch.Tensor):
        return f"{value:g}"

    def rows(t):
        return t.reshape(1, -1) if t.dim() < 2 else t.reshape(-1, t.shape[-1])

    missing = rows(unwritten) if unwritten is not None else torch.zeros_like(rows(value), dtype=torch.bool)
    lines = [
        " ".join(f"{'—':>8}" if gone else f"{x:8.4g}" for x, gone in zip(row.tolist(), off.tolist(), strict=True))
        for row, off in zip(rows(value)[:ROWS], missing, strict=False)
    ]
    if (left := len(rows(value)) - ROWS) > 0:
        lines.append(f"… and {left} more rows")
    text = ("\n" + " " * indent).join(lines)
    return text + ("\n" + " " * indent + "— was not written" if missing.any() else "")
