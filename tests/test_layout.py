"""Where everything lives, and what may rest on what. See docs/architecture.md."""

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import labutils as lab

ROOT = Path(__file__).parents[1]

ROOMS = {
    "labutils": (
        "support", "environment", "language", "gpu", "spec", "exercises", "cuda", "backends", "check", "plots",
        "timing", "lessons", "__main__", "study",
    ),
    "grader": (
        "course", "marks", "judge", "intake", "execute", "engines", "gradebook", "reports", "grading", "commands",
        "redteam", "demo", "__main__",
    ),
    "bench": (),
}  # fmt: skip
"""From the ground up: a room imports only rooms before it, wherever in a module the import stands."""

MAY_IMPORT = {"labutils": {"labutils"}, "grader": {"grader", "labutils"}, "bench": {"bench", "grader", "labutils"}}

MOST_ROOMS = {"labutils": 14, "grader": 13}
"""Folders and modules at the top of each, so that one look shows all of it."""

NOT_OURS = {"mutants", "attacks", "controls", "answers"}
"""Folders of what stands for a learner's code."""


class Arrow(NamedTuple):
    """One import: `deferred` when it stands in a function."""

    module: str
    line: int
    target: str
    deferred: bool


def modules(root: Path = ROOT) -> dict[str, Path]:
    """The files of our packages by module name."""
    found = {}
    for package in ROOMS:
        for path in sorted((root / package).rglob("*.py")):
            parts = path.relative_to(root).with_suffix("").parts
            if not NOT_OURS & set(parts):
                found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def is_for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")


def arrows(known: dict[str, Path]) -> Iterator[Arrow]:
    """Every import of a module of ours by a module of ours; those for type checkers alone are left out."""
    for name, path in known.items():
        package = name if path.name == "__init__.py" else name.rpartition(".")[0]
        nodes = [(node, False) for node in ast.parse(path.read_text(encoding="utf-8")).body]
        while nodes:
            node, deferred = nodes.pop()
            for target in targets(node, package, known):
                if target.split(".")[0] in ROOMS:
                    yield Arrow(name, node.lineno, target, deferred)
            inside = deferred or isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
            children = node.orelse if is_for_types(node) else ast.iter_child_nodes(node)
            nodes += [(child, inside) for child in children]


def targets(node: ast.AST, package: str, known: dict[str, Path]) -> list[str]:
    """The modules that a statement imports; also `importlib.import_module` of a name that is written out."""
    if isinstance(node, ast.Import):
        return [a.name for a in node.names]
    if isinstance(node, ast.ImportFrom):
        above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
        base = ".".join([*above, *filter(None, [node.module])])
        return [full if (full := f"{base}.{a.name}") in known else base for a in node.names]
    if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module") and node.args:
        name = node.args[0]
        if isinstance(name, ast.Constant) and isinstance(name.value, str) and not name.value.startswith("."):
            return [name.value]
    return []


def height(module: str) -> int:
    """The place of a module's room, from 0; a package's face, such as `labutils` itself, is above all its rooms."""
    package, _, rest = module.partition(".")
    return ROOMS[package].index(rest.split(".")[0]) if rest else len(ROOMS[package])


def wrong(arrow: Arrow) -> str | None:
    """Why an import may not be, or None."""
    here, there = arrow.module.split(".")[0], arrow.target.split(".")[0]
    said = f"{arrow.module}, line {arrow.line}: imports {arrow.target}"
    if there not in MAY_IMPORT[here]:
        return f"{said}, and {here} must not know {there}"
    if here == there and here != "bench" and height(arrow.target) > height(arrow.module):
        return f"{said}, which is above it"
    return None


def circle(graph: dict[str, set[str]]) -> list[str]:
    """Nodes that lead back to the first of them, or none."""
    done: set[str] = set()

    def walk(node: str, way: list[str]) -> list[str]:
        if node in way:
            return [*way[way.index(node) :], node]
        if node in done:
            return []
        for other in sorted(graph.get(node, ())):
            if found := walk(other, [*way, node]):
                return found
        done.add(node)
        return []

    return next(filter(None, (walk(node, []) for node in sorted(graph))), [])


def graph_of(found: list[Arrow]) -> dict[str, set[str]]:
    graph: dict[str, set[str]] = {}
    for arrow in found:
        if not arrow.deferred:
            graph.setdefault(arrow.module, set()).add(arrow.target)
    return graph


def entries(package: str) -> list[str]:
    """Rooms and modules at the top of a package; data has no `__init__.py`."""
    top = ROOT / package
    folders = [p.name for p in top.iterdir() if (p / "__init__.py").exists()]
    return sorted(folders + [p.stem for p in top.glob("*.py") if p.stem != "__init__"])


# --- the layout ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("package", MOST_ROOMS)
def test_one_look_shows_all_rooms(package):
    assert entries(package) == sorted(ROOMS[package])
    assert len(entries(package)) <= MOST_ROOMS[package]


def test_every_room_says_what_it_is_for():
    faces = [path for path in modules().values() if path.name == "__init__.py"]
    assert [p for p in faces if not ast.get_docstring(ast.parse(p.read_text(encoding="utf-8")))] == []


def test_no_room_imports_one_above_it():
    found = list(arrows(modules()))
    assert len(found) > 500
    assert [said for arrow in found if (said := wrong(arrow))] == []


def test_no_modules_import_each_other_in_a_circle():
    assert circle(graph_of(list(arrows(modules())))) == []


@pytest.mark.parametrize(
    "path, text, said",
    [
        ("labutils/gpu/x.py", "from ..plots import base", "labutils.gpu.x, line 1: imports labutils.plots.base"),
        ("labutils/cuda/x.py", "def f():\n    from .. import backends", "labutils.backends, which is above it"),
        ("labutils/gpu/x.py", "from .. import no_room", "imports labutils, which is above it"),
        ("labutils/spec/x.py", "import importlib\nimportlib.import_module('labutils.exercises')", "line 2"),
        ("labutils/spec/x.py", "import grader.marks", "labutils must not know grader"),
        ("grader/course/x.py", "from grader.marks.marks import f", "which is above it"),
        ("grader/demo/x.py", "import bench.common", "grader must not know bench"),
        ("labutils/gpu/x.py", "import typing\nif typing.TYPE_CHECKING:\n    from ..plots import base", None),
        ("labutils/plots/x.py", "from ..gpu import device", None),
    ],
)
def test_a_wrong_arrow_is_found(tmp_path, path, text, said):
    for name in (path, "labutils/plots/base.py", "labutils/backends/__init__.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text if name == path else "", encoding="utf-8")
    found = [problem for arrow in arrows(modules(tmp_path)) if (problem := wrong(arrow))]
    assert (len(found) == 1 and said in found[0]) if said else found == []


def test_a_circle_is_found(tmp_path):
    for name, text in (("a", "from . import b"), ("b", "from .c import f"), ("c", "from . import a")):
        (tmp_path / "bench").mkdir(exist_ok=True)
        (tmp_path / "bench" / f"{name}.py").write_text(text, encoding="utf-8")
    assert circle(graph_of(list(arrows(modules(tmp_path))))) == ["bench.a", "bench.b", "bench.c", "bench.a"]


# --- what learners see ---------------------------------------------------------------------------------------------


def test_the_face_leads_to_modules_that_are_there():
    for name in (*lab.__all__, *lab._MODULES, *lab._NAMES):
        assert getattr(lab, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'no_such_name'"):
        lab.no_such_name  # noqa: B018


@pytest.mark.parametrize("path", sorted((ROOT / "solutions").glob("*/*.py")), ids=lambda p: p.stem)
def test_units_use_only_the_face(path):
    """`import labutils as lab`, or `from labutils import` a name of the face: never the path of a module."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            assert all(a.asname == "lab" for a in node.names if a.name.startswith("labutils")), node.lineno
        elif isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "labutils":
            names = {a.name for a in node.names}
            assert node.module == "labutils" and names <= {*lab.__all__, *lab._MODULES, *lab._NAMES}, node.lineno


# --- what is installed ---------------------------------------------------------------------------------------------


def test_an_installation_has_every_room_and_its_data():
    top = ROOT / "labutils"
    told = tomllib.loads((top / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]
    folders = {path.parent for path in top.rglob("__init__.py")}
    assert sorted(told["packages"]) == sorted(".".join(p.relative_to(ROOT).parts) for p in folders)
    data = {
        path
        for package, patterns in told["package-data"].items()
        for pattern in patterns
        for path in (ROOT / Path(*package.split("."))).glob(pattern)
        if path.is_file()
    }
    leave = {top / name for name in ("pyproject.toml", "README.md", "LICENSE")}  # about the package, and not in it
    files = {path for path in top.rglob("*") if path.is_file() and path.suffix not in (".py", ".pyc")} - leave
    assert {p for p in files if not {"build", "dist", "labutils.egg-info"} & set(p.relative_to(top).parts)} == data
