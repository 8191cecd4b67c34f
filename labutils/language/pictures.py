"""The texts of a picture in another language, in a font that has its characters."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from . import fonts

if TYPE_CHECKING:
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure
    from matplotlib.text import Text

MOST_COMMON = 0x2FFF
"""Characters up to here are those that English pictures may have, too; the scripts that need a font come after."""

_DONE = "_gpulab_shown"


def translate(figure: Figure, translated: Callable[[str], str]) -> None:
    """Translate the texts of a figure that have not been; numbers and ticks that matplotlib makes stay."""
    from matplotlib.text import Text

    new = {artist: translated(artist.get_text()) for artist in figure.findobj(Text) if _is_new(artist)}
    ticks = list(_named_ticks(figure))
    texts = [*new.values(), *(translated(text) for axis in ticks for text in _tick_texts(axis))]
    family = fonts.family("".join(sorted({c for text in texts for c in text if ord(c) > MOST_COMMON})))
    if family is None:
        _say_once(fonts.MISSING)
        return
    logging.getLogger("matplotlib.font_manager").setLevel(logging.ERROR)  # such fonts often lack a bold one
    for axis in ticks:
        _translate_ticks(axis, translated)
    for artist, text in new.items():
        artist.set_text(text)
        setattr(artist, _DONE, text)
    for artist in figure.findobj(Text) if family else ():
        if family not in artist.get_fontfamily():
            artist.set_fontfamily([*artist.get_fontfamily(), family])


def _is_new(artist: Text) -> bool:
    return bool(artist.get_text()) and getattr(artist, _DONE, None) != artist.get_text()


def _named_ticks(figure: Figure) -> Iterator[Axis]:
    """The axes whose ticks have names of ours."""
    from matplotlib.ticker import FixedFormatter, FuncFormatter

    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            formatter = axis.get_major_formatter()
            if isinstance(formatter, (FixedFormatter, FuncFormatter)) and not hasattr(formatter, _DONE):
                yield axis


def _tick_texts(axis: Axis) -> list[str]:
    """What stands at the ticks."""
    formatter, places = axis.get_major_formatter(), axis.get_ticklocs()
    return [str(formatter(place, k)) for k, place in enumerate(places)]


def _translate_ticks(axis: Axis, translated: Callable[[str], str]) -> None:
    """Have the axis name its ticks in the other language."""
    from matplotlib.ticker import FuncFormatter

    before = axis.get_major_formatter()
    after = FuncFormatter(lambda place, k=None: translated(str(before(place, k))))
    setattr(after, _DONE, True)
    axis.set_major_formatter(after)


@functools.cache
def _say_once(sentence: str) -> None:
    print(sentence)
