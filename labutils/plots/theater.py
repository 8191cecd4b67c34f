"""The warp theater: the film of a launch as one HTML page that steps through it, without a server and a network."""

from __future__ import annotations

import html
import json
import math
from pathlib import Path

from ..backends.film import MAX_BLOCKS, Film

TEMPLATE = Path(__file__).with_name("theater.html")


class Theater:
    """What `lab.play` returns: a notebook shows the page, and `save` writes it to a file."""

    def __init__(self, film: Film):
        self.film = film

    @property
    def page(self) -> str:
        """The whole page."""
        data = json.dumps(_data(self.film), separators=(",", ":")).replace("</", "<\\/")
        return TEMPLATE.read_text(encoding="utf-8").replace("__FILM__", data)

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
            f'style="width:100%;height:720px;border:1px solid #999" srcdoc="{html.escape(self.page)}"></iframe>'
        )


def _data(film: Film) -> dict:
    """What the page reads."""
    arrays = {name: {"bytes": size, "start": start} for name, (size, _, start) in film.arrays.items()}
    frames = [[f.block, f.warp, f.line, f.operation, f.lanes, f.array, f.size, f.offsets] for f in film.frames]
    return {
        "kernel": film.kernel,
        "blocks": math.prod(film.grid),
        "threads": film.threads,
        "source": film.source.splitlines(),
        "arrays": arrays | {"shared": {"bytes": 0, "start": 0}},
        "frames": frames,
        "about": _about(film),
    }


def _about(film: Film) -> str:
    parts = ["Run by the emulator, a block at a time, and in a block a warp until it waits; a GPU interleaves them."]
    if film.cut:
        parts.append(f"Only the beginning is shown, at most {MAX_BLOCKS} blocks: take smaller arrays to see all of it.")
    parts += [f"Found: {message}" for message in film.messages]
    return " ".join(parts)
