"""The secret that draws hidden cases: one for a class, and from it one for each submission."""

from __future__ import annotations

import hashlib
import secrets

from nbformat import NotebookNode


def draw_seed() -> int:
    """A class's seed: drawn when the submissions are frozen, so that no submission can know its hidden cases."""
    return secrets.randbelow(2**31)


def seed_of(class_seed: int, notebook: NotebookNode) -> int:
    """A submission's own seed: it depends on the class's seed and on the text of the submission's code cells, not on
    who handed it in, on when or on where it is graded. So the same submission gets the same hidden cases, and the same
    points. The text is taken as it is; nothing reads it."""
    digest = hashlib.sha256(f"{class_seed}\0".encode())
    for cell in notebook.cells:
        if cell.cell_type == "code":
            digest.update(f"{cell.get('id', '')}\0{cell.source}\0".encode("utf-8", "replace"))
    return int.from_bytes(digest.digest()[:4], "big") >> 1
