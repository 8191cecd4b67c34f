"""Functions of a file that cannot be imported as it is, taken out with all that they name.

A tutorial runs benchmarks when it is imported; a kernel's decorator may look for a vendor's chip. Each function keeps
its text, but of its decorators only Triton's own.
"""

from __future__ import annotations

import ast
import importlib.util
import sys
import tempfile
from collections.abc import Collection, Iterator
from pathlib import Path

OWN = ("triton.", "tl.", "torch.", "functools.", "staticmethod")
"""How decorators begin that stay."""

_FOLDER = tempfile.TemporaryDirectory(prefix="pieces-")


def load(path: Path, names: Collection[str]):
    """A module of these functions of a file."""
    text = pieces(path.read_text(encoding="utf-8"), names)
    name = f"{path.parent.name}_{path.stem}"
    file = Path(_FOLDER.name, f"{name}_{len(list(Path(_FOLDER.name).iterdir()))}.py")
    file.write_text(text, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(name, file)
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def pieces(text: str, names: Collection[str]) -> str:
    """The text of a module that defines these names and what they need, in the order of the file."""
    lines, tree = text.splitlines(keepends=True), ast.parse(text)
    statements = [(node, set(_defined(node))) for node in tree.body]
    wanted, kept, left = set(names), set(), True
    missing = wanted - set().union(*(d for _, d in statements))
    if missing:
        raise LookupError(f"no {', '.join(sorted(missing))} in this file")
    while left:
        left = False
        for k, (node, defined) in enumerate(statements):
            if k not in kept and defined & wanted:
                kept.add(k)
                left = True
                wanted |= _named(node)
    return "".join(_text(statements[k][0], lines, wanted) for k in sorted(kept))


def _text(node: ast.stmt, lines: list[str], wanted: set[str]) -> str:
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        kept = [d for d in node.decorator_list if ast.unparse(d).startswith(OWN)]
        head = "".join("@" + "".join(lines[d.lineno - 1 : d.end_lineno])[d.col_offset :] for d in kept)
        return head + "".join(lines[node.lineno - 1 : node.end_lineno]) + "\n"
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        node.names = [a for a in node.names if a.name == "*" or _bound(a) in wanted]
        return ast.unparse(node) + "\n"
    return "".join(lines[node.lineno - 1 : node.end_lineno])


def _bound(alias: ast.alias) -> str:
    return alias.asname or alias.name.partition(".")[0]


def _defined(node: ast.stmt) -> Iterator[str]:
    """Names that a statement binds."""
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        yield node.name
    elif isinstance(node, (ast.Import, ast.ImportFrom)):
        yield from map(_bound, node.names)
    elif isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
        yield from (n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))
    elif isinstance(node, (ast.If, ast.Try, ast.With)):
        for inner in ast.iter_child_nodes(node):
            if isinstance(inner, ast.stmt):
                yield from _defined(inner)
            elif isinstance(inner, ast.ExceptHandler):
                for statement in inner.body:
                    yield from _defined(statement)


def _named(node: ast.stmt) -> set[str]:
    """Names that a statement uses, but for decorators that do not stay."""
    dropped = {
        id(inner)
        for decorator in getattr(node, "decorator_list", ())
        if not ast.unparse(decorator).startswith(OWN)
        for inner in ast.walk(decorator)
    }
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and id(n) not in dropped}
