"""Every name that our modules take from one another is there: lines that only run on a GPU are read here, too."""

import ast
import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

import labutils  # noqa: F401  (before Triton: see labutils/backends/bootstrap.py)

ROOT = Path(__file__).parents[1]
OURS = ("labutils", "grader", "bench")
NOT_MODULES = {"redteam", "include"}  # read as text, or run where what they need is
FILES = [
    path
    for package in OURS
    for path in sorted((ROOT / package).rglob("*.py"))
    if not NOT_MODULES & set(path.relative_to(ROOT).parts)
]


def absolute(node: ast.ImportFrom, path: Path) -> str:
    """The module that `from …` names."""
    if not node.level:
        return node.module or ""
    parts = path.relative_to(ROOT).with_suffix("").parts
    package = parts[:-1][: len(parts) - node.level]
    return ".".join((*package, *filter(None, [node.module])))


def module(name: str):
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        return None


def borrowed(tree: ast.Module, path: Path):
    """(line, module, name) of each name taken from a module of ours: imported from it, or used with a dot."""
    known = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for a in node.names:
                if a.asname or "." not in a.name:
                    known[a.asname or a.name] = a.name
        elif isinstance(node, ast.ImportFrom) and absolute(node, path).split(".")[0] in OURS:
            base = absolute(node, path)
            for a in node.names:
                if module(f"{base}.{a.name}"):
                    known[a.asname or a.name] = f"{base}.{a.name}"
                else:
                    yield node.lineno, base, a.name
    stored = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    stored |= {a.arg for n in ast.walk(tree) if isinstance(n, ast.arguments) for a in n.args + n.kwonlyargs}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id not in stored:
            name = known.get(node.value.id, "")
            if name.split(".")[0] in OURS:
                yield node.lineno, name, node.attr


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_names_are_there(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    missing = [
        f"line {line}: {name} has no {attribute}"
        for line, name, attribute in borrowed(tree, path)
        if not hasattr(module(name), attribute) and not module(f"{name}.{attribute}")
    ]
    assert not missing, missing


def test_a_missing_name_is_found():
    tree = ast.parse("from labutils import cuda\ncuda.no_such_name()\n")
    assert [(line, name) for line, _, name in borrowed(tree, ROOT / "bench" / "x.py")] == [(2, "no_such_name")]


GIVEN = {"lab", "display", "get_ipython"}
"""What a notebook has without defining it: the set-up cell's, and IPython's own."""


def undefined(path: Path) -> set[str]:
    """Names that a unit uses and nothing in it defines, kernels of its `%%cuda` cells aside."""
    command = [sys.executable, "-m", "ruff", "check", "--isolated", "--select", "F821", "--output-format", "concise"]
    said = subprocess.run([*command, path], capture_output=True, text=True, check=False).stdout
    cuda = "".join(re.findall(r"^# .*\n", path.read_text(encoding="utf-8"), re.MULTILINE))
    return set(re.findall(r"Undefined name `(\w+)`", said)) - GIVEN - set(re.findall(r"\b(\w+)\(", cuda))


@pytest.mark.parametrize("path", sorted((ROOT / "solutions").glob("*/*.py")), ids=lambda p: p.stem)
def test_units_use_only_names_that_they_define(path):
    assert undefined(path) == set()


def test_an_undefined_name_in_a_unit_is_found(tmp_path):
    unit = tmp_path / "unit.py"
    unit.write_text(
        "# %%cuda\n# __global__ void scale(float *x) {}\n\n# %%\nscale[1, 32](lab.x, y)\n", encoding="utf-8"
    )
    assert undefined(unit) == {"y"}
