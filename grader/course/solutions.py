"""The solutions as code: a unit's answers as one module, and other kernels in their place."""

import ast
import contextlib
import importlib.util
import sys
import types
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import labutils  # noqa: F401  (before anything imports triton: it chooses between interpreter and GPU)
from grader.course.place import ROOT

_DEFINES = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef, ast.Assign)


def solution_text(unit: str) -> str:
    """A module with the functions of a unit's solution notebook: its answers, and what its other cells define."""
    from grader.course.sources import source_notebook

    return module_text(source_notebook(ROOT / "solutions" / unit))


def module_text(notebook) -> str:
    """What the cells of a notebook define, as the text of one module."""
    return "\n\n".join(text for _, text in code_cells(notebook)) + "\n"


def code_cells(
    notebook, each: Callable[[], AbstractContextManager] = contextlib.nullcontext, most: int | None = None
) -> list[tuple[str, str]]:
    """(id, Python) of the cells of a notebook that define something: the answers, and the definitions of the others.

    Calls that show or check something are left out, so running the cells shows nothing. An answer that is not valid
    Python is kept: running it reports the error. An answer that no parser can read, or that is longer than `most`
    bytes, becomes a line that says so. Every cell is read within a context `each()`, which may end it by an exception.
    """
    kept: list[_Piece] = []
    for cell in notebook.cells:
        grading = cell.metadata.get("nbgrader", {})
        if cell.cell_type != "code" or cell.id == "setup" or (grading.get("grade") and not grading.get("solution")):
            continue
        try:
            if most is not None and (size := len(cell.source.encode("utf-8", "replace"))) > most:
                raise ValueError(f"it holds {size >> 10} kB, and at most {most >> 10} kB of a cell are read")
            with each():
                kept += _pieces(cell, grading.get("solution", False))
        except SyntaxError:
            if grading.get("solution"):
                kept.append((cell.id, cell.source, None))
        except Exception as e:  # whatever a parser, IPython or `each` raises for text that nobody writes
            if grading.get("solution"):
                kept.append((cell.id, f"raise ValueError({_unread(cell.id, e)!r})", None))
    return [("setup", "import labutils as lab"), *_used(kept)]


_Piece = tuple[str, str, ast.stmt | None]
"""A cell's id, a part of its text, and the statement that the part is if it is not an answer."""


def _pieces(cell, answer: bool) -> list[_Piece]:
    """What of a cell is kept."""
    from grader.course.cells import is_cuda, python_text

    if is_cuda(cell.source):
        return [(cell.id, _cuda_text(cell.source), None)]
    text = python_text(cell.source)
    nodes = ast.parse(text or "").body
    if answer:
        return [(cell.id, cell.source if text is None else text, None)]
    lines, found = (text or "").split("\n"), []
    for node in nodes:
        if isinstance(node, _DEFINES):
            first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))])
            found.append((cell.id, "\n".join(lines[first - 1 : node.end_lineno]), node))
    return found


def _unread(cell_id: str, error: Exception) -> str:
    """Why a cell cannot be read, in half a sentence."""
    if isinstance(error, (RecursionError, MemoryError)):
        return f"cell {cell_id} nests deeper than Python's parser can read"
    return f"cell {cell_id} cannot be read: {str(error)[:200] or type(error).__name__}"


def _used(pieces: list[_Piece]) -> list[tuple[str, str]]:
    """The texts, without assignments whose names nothing that is kept goes on to use: those only draw and show."""
    needed: set[str] = set()
    kept = []
    for name, text, node in reversed(pieces):
        if isinstance(node, ast.Assign):
            targets = {n.id for t in node.targets for n in ast.walk(t) if isinstance(n, ast.Name)}
            if not targets & needed:
                continue
        with contextlib.suppress(SyntaxError, ValueError, RecursionError, MemoryError):
            needed |= {n.id for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Name)}
        kept.append((name, text))
    return kept[::-1]


def _cuda_text(cell: str) -> str:
    """What the `%%cuda` magic does with a cell, as Python: its kernels by name."""
    magic, _, source = cell.partition("\n")
    source = "\n" + source  # the magic's own line counts, so that line numbers are those of the cell
    names = magic.split()[1:] or _plain_kernels(source)
    return "\n".join(f"{n.split('<')[0]} = lab.cuda.compile({source!r}, {n!r})" for n in names)


def _plain_kernels(source: str) -> list[str]:
    from labutils.cuda.signature import signatures

    return [name for name, s in signatures(source).items() if not s.template]


def load_text(text: str, folder: str | Path, kernels: str = "") -> types.ModuleType:
    """A text as a module, from a file in `folder`, where the check and tracebacks find its lines.

    `kernels` is CUDA C++: its kernels take the place of those of the same names in the module.
    """
    path = Path(folder, f"answer_{abs(hash((text, kernels))):x}.py")
    path.write_text(text, encoding="utf-8")
    module = load(str(path))
    replace_kernels(module, kernels)
    return module


def load(path: str) -> types.ModuleType:
    """The module in a file. Its functions keep their text, which the check reads."""
    spec = importlib.util.spec_from_file_location(f"loaded_{abs(hash(path))}", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def replace_kernels(module: types.ModuleType, source: str) -> None:
    """Bind the kernels that `source` defines in place of the module's; templates with the module's arguments."""
    from labutils import cuda
    from labutils.cuda.signature import signatures

    for name in signatures(source):
        old = getattr(module, name, None)
        wanted = old.name if isinstance(old, cuda.Kernel) else name
        setattr(module, name, cuda.compile(source, wanted))
