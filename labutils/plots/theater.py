"""The warp theater: the film of a launch as one HTML page that steps through it, without a server and a network."""

from __future__ import annotations

import base64
import html
import json
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ..backends.film import Film, Frame
from ..language.show import shown, shown_page
from .theater_words import WORDS

TEMPLATE = Path(__file__).with_name("theater.html")

MOST_CHARACTERS = 1_400_000
"""Of a page's frames: with the rest, a page has at most 1.5 MB."""


class Theater:
    """What `lab.play` returns: a notebook shows the page, and `save` writes it to a file."""

    def __init__(self, film: Film):
        self.film = film

    @property
    def page(self) -> str:
        """The whole page."""
        data = json.dumps(_data(self.film), separators=(",", ":")).replace("</", "<\\/")
        return shown_page(TEMPLATE.read_text(encoding="utf-8")).replace("__FILM__", data)

    def save(self, path: str | Path) -> Path:
        """Write the page to a file, which any browser opens."""
        Path(path).write_text(self.page, encoding="utf-8")
        return Path(path)

    def __repr__(self) -> str:
        return f"{self.film.kernel}: {len(self.film.frames)} steps; .save('film.html') writes a page for a browser"

    def _repr_html_(self) -> str:
        """A frame of its own, so that neither page changes the other's style."""
        return (
            f'<iframe title="{html.escape(self.film.kernel)}, step by step" sandbox="allow-scripts" '
            f'style="width:100%;height:clamp(760px,92vh,1100px);border:1px solid #999" '
            f'srcdoc="{html.escape(self.page)}"></iframe>'
        )


def _data(film: Film) -> dict:
    """What the page reads. Frames after the first `MOST_CHARACTERS` are left out."""
    frames, characters = [], 0
    for frame in film.frames:
        frames.append(_frame(frame))
        characters += len(json.dumps(frames[-1], separators=(",", ":"))) + 1
        if characters > MOST_CHARACTERS:
            frames.pop()
            break
    return {
        "kernel": film.kernel,
        "blocks": math.prod(film.grid),
        "threads": film.threads,
        "source": film.source.splitlines(),
        "first": film.first_line,
        "arrays": {
            n: {"bytes": a.bytes, "item": a.itemsize, "start": a.start, "type": a.type, "shape": a.shape}
            for n, a in film.arrays.items()
        },
        "shared": [[v.name, v.offset, v.bytes, v.type] for v in film.shared],
        "frames": frames,
        "about": shown(_about(film, film.cut or len(frames) < len(film.frames))),
        "words": [[text, other] for text in WORDS if (other := shown(text)) != text],
    }


def _frame(f: Frame) -> dict:
    """A frame with short names, and without what is empty."""
    m = f.mbarrier
    named = {
        "b": f.block,
        "w": f.warp,
        "l": f.line,
        "o": f.operation,
        "m": f.lanes,
        "a": f.array,
        "s": f.size,
        "r": runs(f.offsets),
        "v": base64.b64encode(np.array(f.values, "<u4").tobytes()).decode(),
        "h": f.shape,
        "k": f.mask,
        "p": f.at,
        "t": f.to,
        "n": f.what,
        "q": [m.name, m.phase, m.pending, m.arrivals, m.bytes] if m else None,
    }
    return {k: v for k, v in named.items() if v or k in "bwo"}


def runs(offsets: Sequence[int]) -> list[int]:
    """The offsets as runs of equal steps: first, step, count, and so on."""
    made: list[int] = []
    for offset in offsets:
        if made:
            first, step, count = made[-3:]
            if count == 1:
                made[-2:] = [offset - first, 2]
                continue
            if offset == first + step * count:
                made[-1] += 1
                continue
        made += [offset, 0, 1]
    return made


def _about(film: Film, cut: bool) -> str:
    if film.threads:
        parts = ["Run by the emulator: one block after another, and each warp until it waits. A GPU interleaves them."]
        if any(f.operation == "land" for f in film.frames):
            parts.append("Copies by the TMA and products arrive here as late as they may: when no warp can go on.")
    else:
        parts = ["Run by Triton's interpreter, one program after another; a GPU runs many at the same time."]
    parts.append("Films are for small launches.")
    if cut:
        parts.append("This one shows only the beginning: take smaller arrays to see all of it.")
    parts += [f"Found: {message}" for message in film.messages]
    return " ".join(parts)
