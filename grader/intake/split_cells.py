"""Answers whose cell was split into two or more: Jupyter and Colab have a command for it.

Half a function is not valid Python, and half a kernel is not valid CUDA C++. The parts are joined if the joined text is
valid and the cell's own text is not.
"""

from __future__ import annotations

import ast
import contextlib
import re
import textwrap

from nbformat import NotebookNode

from grader.course.cells import is_cuda, python_text
from grader.intake.matching import MOST_TEXT, functions

MOST_PARTS = 4

_BLANKED = re.compile(
    r"""//[^\n]*|/\*(?:[^*]|\*(?!/))*(?:\*/)?|"(?:\\.|[^"\\\n])*"?|'(?:\\.|[^'\\\n]){1,40}'""", re.DOTALL
)
"""Comments and strings of CUDA C++, also those that are never closed: to look for their ends would take quadratic
time."""


def parts_of(cell: NotebookNode, around: list[NotebookNode], released: NotebookNode) -> list[NotebookNode]:
    """The cells whose texts make the answer, in order; only `cell` itself if it is whole or nothing makes it so.

    `around` are the unclaimed code cells between the cells that surround the answer in the release, with `cell` among
    them, in the notebook's order.
    """
    around = [c for c in around if len(c.source) <= MOST_TEXT or c is cell]
    if cell.cell_type != "code" or len(cell.source) > MOST_TEXT:
        return [cell]
    at = next(i for i, c in enumerate(around) if c is cell)
    runs = [
        around[first : first + size]
        for size in range(1, MOST_PARTS + 1)
        for first in range(max(0, at - size + 1), at + 1)
        if first + size <= len(around)
    ]
    # A cell to try something out may stand between the parts.
    pairs = [[cell, c] if i > at else [c, cell] for i, c in enumerate(around) if abs(i - at) > 1]
    for parts in runs + pairs:
        rest = [c for c in around if not any(c is p for p in parts)]
        if _is_whole(parts, released) and not any(_breaks_off(c) or _goes_on(c, joined(parts)) for c in rest):
            return parts
    return [cell]


def _breaks_off(cell: NotebookNode) -> bool:
    """Whether a cell ends in a decorator, with nothing to decorate."""
    return cell.source.rstrip().rpartition("\n")[2].startswith("@")


def _goes_on(cell: NotebookNode, before: str) -> bool:
    """Whether a cell is the rest of a function in the text before it: indented, and of no use without that function."""
    first = next((line for line in cell.source.split("\n") if line.strip() and line.strip()[0] not in "#%"), "")
    if first[:1] not in (" ", "\t"):
        return False
    try:
        tree = ast.parse(textwrap.dedent(cell.source))
        compile(tree, "cell", "exec")  # a `return` needs a function
        function = ast.parse(python_text(before) or "")
    except Exception:  # the parser's and IPython's, for what is no Python
        return True
    own, used = (
        {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, kind)}
        for kind in (ast.Store, ast.Load)
    )
    local = {n.id for n in ast.walk(function) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    return bool((used - own) & (local | {n.arg for n in ast.walk(function) if isinstance(n, ast.arg)}))


def joined(parts: list[NotebookNode]) -> str:
    """The text of the parts as one cell's; only the first keeps a `%%cuda` line."""
    texts = [parts[0].source, *(c.source.partition("\n")[2] if is_cuda(c.source) else c.source for c in parts[1:])]
    return "\n".join(text.rstrip("\n") for text in texts)


def _is_whole(parts: list[NotebookNode], released: NotebookNode) -> bool:
    text, wanted = joined(parts), functions(released)
    whole = NotebookNode(source=text, cell_type="code")
    if wanted and not wanted <= functions(whole):
        return False
    if is_cuda(released.source):
        bare = _BLANKED.sub("", text)
        return is_cuda(text) and bare.count("{") == bare.count("}")
    if text[:1] in (" ", "\t") or is_cuda(text):  # IPython would take the indentation away: half a function
        return False
    for read in (str, python_text):  # to look for magics takes four times as long as to parse, and few cells have any
        with contextlib.suppress(Exception):  # the parser's and IPython's, for what is no Python
            return bool(ast.parse(read(text) or "").body)
    return False
