"""The solutions as code: a unit's answers as one module, and the files of `grader/mutants/` put in their place."""

import ast
import importlib.util
import sys
import types
from pathlib import Path

import labutils  # noqa: F401  (before anything imports triton: it chooses between interpreter and GPU)

ROOT = Path(__file__).resolve().parents[1]

_DEFINES = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef, ast.Assign)


def solution_text(unit: str) -> str:
    """A module with the functions of a unit's solution notebook: its answers, and what its other cells define.

    Calls that show or check something are left out, so that importing the module runs nothing.
    """
    from grader.build import source_notebook
    from grader.cells import is_cuda, python_text

    kept: list[tuple[str, ast.stmt | None]] = []
    for cell in source_notebook(ROOT / "solutions" / unit).cells:
        if cell.cell_type != "code" or cell.id == "setup":
            continue
        if is_cuda(cell.source):
            kept.append((_cuda_text(cell.source), None))
            continue
        text = python_text(cell.source)
        if text is None:
            continue
        answer = cell.metadata.get("nbgrader", {}).get("solution", False)
        lines = text.split("\n")
        for node in ast.parse(text).body:
            if answer or isinstance(node, _DEFINES):
                first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))])
                kept.append(("\n".join(lines[first - 1 : node.end_lineno]), None if answer else node))
    return "\n\n".join(["import labutils as lab", *_used(kept)]) + "\n"


def _used(pieces: list[tuple[str, ast.stmt | None]]) -> list[str]:
    """The texts, without assignments whose names nothing that is kept goes on to use: those only draw and show."""
    needed: set[str] = set()
    kept = []
    for text, node in reversed(pieces):
        if isinstance(node, ast.Assign):
            targets = {n.id for t in node.targets for n in ast.walk(t) if isinstance(n, ast.Name)}
            if not targets & needed:
                continue
        needed |= {n.id for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Name)}
        kept.append(text)
    return kept[::-1]


def _cuda_text(cell: str) -> str:
    """What the `%%cuda` magic does with a cell, as Python: its kernels by name."""
    magic, _, source = cell.partition("\n")
    names = magic.split()[1:] or _plain_kernels(source)
    return "\n".join(f"{n.split('<')[0]} = lab.cuda.compile({source!r}, {n!r})" for n in names)


def _plain_kernels(source: str) -> list[str]:
    from labutils.signature import signatures

    return [name for name, s in signatures(source).items() if not s.template]


def load(path: str, solution: str | None = None) -> types.ModuleType:
    """The module in a file. Its functions keep their text, which the check reads.

    A `.cu` file is CUDA C++: its kernels take the place of those of the same names in the module `solution`.
    """
    if path.endswith(".cu"):
        module = load(solution)
        replace_kernels(module, Path(path).read_text(encoding="utf-8"))
        return module
    spec = importlib.util.spec_from_file_location(f"loaded_{abs(hash(path))}", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def replace_kernels(module: types.ModuleType, source: str) -> None:
    """Bind the kernels that `source` defines in place of the module's; templates with the module's arguments."""
    from labutils import cudac
    from labutils.signature import signatures

    for name in signatures(source):
        old = getattr(module, name, None)
        wanted = old.name if isinstance(old, cudac.Kernel) else name
        setattr(module, name, cudac.compile(source, wanted))
