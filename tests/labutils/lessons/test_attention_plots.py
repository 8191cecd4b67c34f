"""Unit 17's widget: its labels have room, also on a phone."""

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from labutils.lessons import attention

PHONE = 343
"""Pixels of CSS that an output has on a phone of 390, less JupyterLab's margins."""


@pytest.mark.parametrize("mask", ["no mask", "causal"])
def test_each_tiles_numbers_fit_their_cells_and_can_be_read_on_a_phone(mask):
    widget = attention.stepper(mask)
    for tile in range(1, 6):
        widget.set(tile=tile)
        figure = widget.figure()
        FigureCanvasAgg(figure).draw()
        (table,) = (table for axis in figure.axes for table in axis.tables)
        for cell in table.get_celld().values():
            frame, text = cell.get_window_extent(), cell.get_text().get_window_extent()
            assert not text.width or (frame.x0 <= text.x0 and text.x1 <= frame.x1), cell.get_text().get_text()
        scale = min(1, PHONE / (96 * figure.get_figwidth()))
        assert 8 * scale >= 6  # points
        (board,) = (axis for axis in figure.axes if not axis.tables)
        labels = [label.get_window_extent() for label in board.get_xticklabels()]
        assert all(a.x1 < b.x0 for a, b in zip(labels, labels[1:], strict=False))
