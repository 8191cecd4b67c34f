"""An empty picture, its colors and its text for screen readers."""

from __future__ import annotations

import base64
import functools
import html
import io
from collections.abc import Callable
from typing import TYPE_CHECKING

from .. import environment, support
from ..language import show as language

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PALETTE = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#999999")
"""Okabe & Ito, Color Universal Design (2008)."""


class Unavailable(support.Missing):
    """matplotlib cannot be used here; the message says what to do."""


def figure(width: float = 8.0, height: float = 3.0) -> Figure:
    """An empty picture, `width` × `height` inches: a Figure that a notebook shows with its text `alt`."""
    return _picture()(figsize=(width, height), layout="constrained")


@functools.cache
def _picture() -> type[Figure]:
    """The class of pictures; made when first needed, because importing matplotlib takes a second."""
    try:
        from matplotlib.figure import Figure
    except (ImportError, SystemError) as e:
        if missing := support.problem("matplotlib"):
            raise Unavailable(missing) from e
        # seen with Triton 3.6 on Python 3.12: matplotlib's font library fails if Triton's was loaded before it
        raise Unavailable(
            f"matplotlib cannot be loaded here ({type(e).__name__}). Restart the notebook's kernel (Kernel → Restart) "
            "and run `import matplotlib.figure` before anything else."
        ) from e

    class Picture(Figure):
        alt = "Figure"

        def draw(self, renderer) -> None:
            language.label(self)
            super().draw(renderer)

        def to_html(self, dpi: int = 96) -> str:
            """The picture as one `<img>` with its text; as wide as the figure, on narrow screens as wide as those."""
            png = io.BytesIO()
            self.savefig(png, format="png", dpi=dpi)
            data = base64.b64encode(png.getvalue()).decode()
            width = round(96 * self.get_figwidth())
            return (
                f'<img alt="{html.escape(self.alt)}" style="width:{width}px;max-width:100%" '
                f'src="data:image/png;base64,{data}">'
            )

        def _repr_mimebundle_(self, include=None, exclude=None):
            return {"text/html": self.to_html(), "text/plain": self.alt}

    return Picture


def show(draw: Callable[..., Figure], *arguments) -> Figure | None:
    """`draw(*arguments)` for the end of a cell; where no picture can be drawn, a sentence, and the notebook goes on."""
    if environment.grading_in_progress():
        print("picture skipped while grading")
        return None
    try:
        return draw(*arguments)
    except Unavailable as e:
        print(f"No picture: {e}")
