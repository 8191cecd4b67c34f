"""The solutions as code: a unit's answers as one module, and other kernels in their place."""

import ast
import contextlib
import importlib.util
import sys
import types
from pathlib import Path

import labutils  # noqa: F401  (before anything imports triton: it chooses between interpreter and GPU)

ROOT = Path(__file__).resolve().parents[2]

_DEFINES = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef, ast.Assign)


def solution_text(unit: str) -> str:
    """A module with the functions of a unit's solution notebook: its answers, and what its other cells define."""
    from grader.course.sources import source_notebook

    return module_text(source_notebook(ROOT / "solutions" / unit))


def module_text(notebook) -> str:
    """What the cells of a notebook define, as the text of one module."""
    return "\n\n".join(text for _, text in code_cells(notebook)) + "\n"


def code_cells(notebook) -> list[tuple[str, str]]:
    """(id, Python) of the cells of a notebook that define something: the answers, and the definitions of the others.

    Calls that show or check something are left out, so that running the cells shows nothing. An answer that is no
    Python is kept as it is: whoever runs it says why.
    """
    from grader.course.cells import is_cuda, python_text

    kept: list[tuple[str, str, ast.stmt | None]] = []
    for cell in notebook.cells:
        grading = cell.metadata.get("nbgrader", {})
        if cell.cell_type != "code" or cell.id == "setup" or (grading.get("grade") and not grading.get("solution")):
            continue
        if is_cuda(cell.source):
            kept.append((cell.id, _cuda_text(cell.source), None))
            continue
        answer = grading.get("solution", False)
        try:
            text = python_text(cell.source)
            nodes = ast.parse(text or "").body
        except (SyntaxError, ValueError):
            if answer:
                kept.append((cell.id, cell.source, None))
            continue
        if answer:
            kept.append((cell.id, cell.source if text is None else text, None))
            continue
        lines = (text or "").split("\n")
        for node in nodes:
            if isinstance(node, _DEFINES):
                first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))])
                kept.append((cell.id, "\n".join(lines[first - 1 : node.end_lineno]), node))
    return [("setup", "import labutils as lab"), *_used(kept)]


def _used(pieces: list[tuple[str, str, ast.stmt | None]]) -> list[tuple[str, str]]:
    """The texts, without assignments whose names nothing that is kept goes on to use: those only draw and show."""
    needed: set[str] = set()
    kept = []
    for name, text, node in reversed(pieces):
        if isinstance(node, ast.Assign):
            targets = {n.id for t in node.targets for n in ast.walk(t) if isinstance(n, ast.Name)}
            if not targets & needed:
                continue
        with contextlib.suppress(SyntaxError, ValueError):
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
