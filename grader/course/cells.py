"""Short cell headers of the text sources, expanded into nbgrader's metadata.

    # %% cell="setup"                                        the course's set-up code, written by the build
    # %% cell="given" [id="launcher"]                        locked: restored when a submission is graded
    # %% cell="solution" id="add_kernel"                     the learner fills its solution regions
    # %% cell="hunt" id="sum_kernel" exercise="10_hunt/sum"  a kernel, released with a bug (grader/course/hunts.py)
    # %% cell="check" exercise="06_elementwise_triton/add"   locked test; its points come from the exercise
    # %% [markdown] cell="manual" id="explain" points=1      written answer, graded by a person
    # %% [markdown] cell="task" id="plot" points=2           locked task, graded by a person
    # %%                                                     an ordinary cell

CUDA C++ (a cell that starts with `%%cuda`) is written as comments, so that the source stays valid Python.
"""

from __future__ import annotations

import ast
import hashlib
import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from IPython.core.inputtransformer2 import TransformerManager
from nbformat import NotebookNode

from grader.course.regions import HIDDEN_TESTS, MARK_SCHEME, SOLUTION, BuildError, find_regions, located

if TYPE_CHECKING:  # sandboxes that read notebooks have this module, and not the course's settings
    from grader.course.settings import CourseSettings

SETUP = """\
try:
    import labutils as lab
except ModuleNotFoundError:  # on Colab: install the course's helper package, visibly
    %pip install "{requirement}"
    import labutils as lab
lab.setup({language})"""


def setup_code(settings: CourseSettings, language: str = "") -> str:
    """The text of a unit's set-up cell; `language` is that of its messages."""
    chosen = f'language="{language}"' if language else ""
    return SETUP.format(requirement=settings.requirement, language=chosen)


@dataclass(frozen=True)
class Kind:
    """What nbgrader does with a kind of cell, and what its header and text must hold."""

    grade: bool = False
    solution: bool = False
    locked: bool = False
    task: bool = False
    types: tuple[str, ...] = ("code",)
    needs: tuple[str, ...] = ()
    may: tuple[str, ...] = ()
    region: str | None = None


KINDS = {
    "setup": Kind(locked=True),
    "given": Kind(locked=True, types=("code", "markdown"), may=("id",)),
    "solution": Kind(solution=True, needs=("id",), region=SOLUTION),
    "hunt": Kind(solution=True, needs=("id", "exercise"), region=SOLUTION),
    "check": Kind(grade=True, locked=True, needs=("exercise",), region=HIDDEN_TESTS),
    "manual": Kind(grade=True, solution=True, types=("markdown",), needs=("id", "points"), region=SOLUTION),
    # Locked, or nbgrader cannot autograde the assignment once it is released.
    "task": Kind(locked=True, task=True, types=("markdown",), needs=("id", "points"), region=MARK_SCHEME),
}
PLAIN = Kind(types=("code", "markdown"), may=("id",))
# nbformat's and nbgrader's rule for ids.
_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")

MOST_IPYTHON = 100
"""Lines of a cell that may be IPython's: it reads the whole cell again for each, and gives up after 500."""
_ASSIGNED = re.compile(r"=[ \t]*[!%]")


def expand(notebook: NotebookNode, unit: str, points_of: Callable[[str], float], settings: CourseSettings) -> None:
    """Turn the short headers of a notebook, as read from its text source, into nbgrader's metadata, in place.

    `points_of` gives the points of an exercise by its id, `settings` say where the course's repository is. Raises
    BuildError for a wrong header or region.
    """
    _add_links(notebook, unit, settings)
    taken: set[str] = set()
    for number, cell in enumerate(notebook.cells, start=1):
        header = {k: v for k, v in cell.metadata.items() if k not in ("lines_to_next_cell", "tags")}
        with located(f"{unit}.py, cell {number}{_label(header)}"):
            kind_name = header.pop("cell", None)
            if kind_name is not None and kind_name not in KINDS:
                raise BuildError(f"unknown kind of cell: {kind_name!r}; there are {', '.join(KINDS)}")
            kind = KINDS.get(kind_name, PLAIN)
            _check_header(cell, kind_name, kind, header)
            _write_text(cell, kind_name, settings)
            _check_regions(cell, kind_name, kind)
            cell_id, authored = _cell_id(cell, kind_name, header)
            cell.id = _unique(cell_id, taken, authored)
            cell.metadata = NotebookNode({k: v for k, v in cell.metadata.items() if k == "tags"})
            if kind is PLAIN:
                continue
            cell.metadata.nbgrader = NotebookNode(
                grade=kind.grade,
                solution=kind.solution,
                locked=kind.locked,
                task=kind.task,
                grade_id=cell.id,
                schema_version=3,
            )
            if kind_name == "hunt":
                cell.metadata.hunt = header["exercise"]
            elif kind_name == "check":
                cell.metadata.nbgrader.points = _exercise_points(cell.source, header["exercise"], points_of)
            elif kind.grade or kind.task:
                cell.metadata.nbgrader.points = float(header["points"])


def is_cuda(source: str) -> bool:
    """Whether a code cell holds CUDA C++."""
    return source.split("\n", 1)[0].split()[:1] == ["%%cuda"]


def python_text(source: str) -> str | None:
    """The Python that a code cell runs, IPython's magics as calls; None for a cell in another language.

    Raises ValueError for more magics than MOST_IPYTHON, and what IPython raises for what it cannot read.
    """
    if source.startswith("%%"):
        first, _, rest = source.partition("\n")
        if first.split()[0] not in ("%%time", "%%timeit", "%%capture"):
            return None
        source = rest
    if problem := too_many_commands(source):
        raise ValueError(problem)
    return TransformerManager().transform_cell(source)


def too_many_commands(source: str) -> str | None:
    """A sentence if a cell has too many IPython commands: IPython itself takes half a minute for them."""
    if (count := sum(map(_may_be_ipythons, source.split("\n")))) > MOST_IPYTHON:
        return f"{count} lines look like IPython commands; at most {MOST_IPYTHON} of a cell are read"
    return None


def _may_be_ipythons(line: str) -> bool:
    """Whether a line may be a magic, a shell command or a question: no fewer lines than IPython finds."""
    text = line.strip()
    return text[:1] in ("!", "%", "?", ",", ";", "/") or text.endswith("?") or bool(_ASSIGNED.search(line))


def exercise_of(source: str) -> str | None:
    """The id of the exercise that a cell checks: the first argument of its `lab.check(…)`."""
    try:
        tree = ast.parse(python_text(source) or "")
    except SyntaxError:
        return None
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "lab.check" and node.args:
            first = node.args[0]
            return first.value if isinstance(first, ast.Constant) and isinstance(first.value, str) else None
    return None


def compile_cell(source: str) -> ast.Module | None:
    """Syntax tree of a code cell (None for another language). Raises BuildError if it does not compile.

    Python's warnings count as errors: they would go to stderr, and nbgrader gives a check cell that writes
    there no points.
    """
    text = python_text(source)
    if text is None:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            compile(text, "cell", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
        return ast.parse(text)
    except (SyntaxError, ValueError, Warning) as problem:
        line = (getattr(problem, "text", None) or "").strip()
        raise BuildError(f"the cell does not compile: {problem} {line!r}") from None


def _label(header: dict) -> str:
    name = header.get("id") or header.get("exercise")
    return f" ({name})" if name else ""


def below_title(source: str, links: str) -> str:
    """A unit's first cell with its links between the title and the rest."""
    title, _, rest = source.partition("\n")
    return f"{title}\n\n{links}\n\n{rest.lstrip()}".rstrip()


def links(settings: CourseSettings, notebook: str, glossary: str = "docs/glossary.md", translate=str) -> str:
    """The links below a unit's title; `notebook` and `glossary` are paths in the repository."""
    # Colab resolves a link such as ../glossary.md within Colab, where nothing but a notebook opens: one full address.
    found = [f"[{translate('Glossary')}]({settings.page(glossary)})"]
    if page := settings.colab(notebook):
        badge = "https://colab.research.google.com/assets/colab-badge.svg"
        found.insert(0, f"[![{translate('Open in Colab')}]({badge})]({page})")
    return " · ".join(found)


def _add_links(notebook: NotebookNode, unit: str, settings: CourseSettings) -> None:
    first = notebook.cells[0] if notebook.cells else None
    if first is None or first.cell_type != "markdown" or not first.source.startswith("# "):
        raise BuildError(f"{unit}.py, cell 1: a unit begins with a markdown cell that contains its title, '# …'")
    first.source = below_title(first.source, links(settings, f"notebooks/{unit}/{unit}.ipynb"))


def _check_header(cell: NotebookNode, kind_name: str | None, kind: Kind, header: dict) -> None:
    what = f"a {kind_name} cell" if kind_name else "a cell without cell="
    if cell.cell_type not in kind.types:
        raise BuildError(f"{what} must be {' or '.join(kind.types)}, not {cell.cell_type}")
    for key in kind.needs:
        if key not in header:
            raise BuildError(f"{what} needs {key}= in its header")
    for key in header:
        if key not in kind.needs + kind.may:
            raise BuildError(f"{what} takes no {key}= in its header")
    if "id" in header and not _ID.fullmatch(str(header["id"])):
        raise BuildError(f"id={header['id']!r} must be 1 to 64 letters, digits, '_' and '-'")
    points = header.get("points", 1)
    if isinstance(points, bool) or not isinstance(points, (int, float)) or not 0 < points < 1000:
        raise BuildError(f"points={points!r} must be a number above 0 and below 1000")


def _write_text(cell: NotebookNode, kind_name: str | None, settings: CourseSettings) -> None:
    if kind_name == "setup":
        cell.source = setup_code(settings)
    elif cell.cell_type == "code" and is_cuda(cell.source):
        first, *rest = cell.source.split("\n")
        if any(line.strip() and line != "#" and not line.startswith("# ") for line in rest):
            raise BuildError("CUDA C++ is written as comments, '# ' before each line, so that the source is Python")
        cell.source = "\n".join([first, *(line[2:] for line in rest)])


def _check_regions(cell: NotebookNode, kind_name: str | None, kind: Kind) -> None:
    code = cell.cell_type == "code"
    comment = "//" if is_cuda(cell.source) else "#"
    regions = find_regions(cell.source, code)
    for region in regions:
        if region.kind != kind.region:
            what = f"a {kind_name} cell" if kind_name else "a cell without cell="
            raise BuildError(f"{what} cannot contain a {region.kind} region")
        if not (region.code_lines(comment) if code else "".join(region.lines).strip()):
            raise BuildError(f"the {region.kind} region on line {region.begin + 1} is empty")
    if kind.solution and not regions:
        raise BuildError(f"a {kind_name} cell needs a region from '### BEGIN SOLUTION' to '### END SOLUTION'")


def _cell_id(cell: NotebookNode, kind_name: str | None, header: dict) -> tuple[str, bool]:
    """The wanted id, and whether an author chose it. A derived id stays when other cells come or go."""
    if "id" in header:
        return header["id"], True
    if kind_name == "check":
        return "check-" + re.sub(r"[^A-Za-z0-9_-]", "-", header["exercise"].split("/")[-1])[:58], True
    if kind_name == "setup":
        return "setup", True
    digest = hashlib.sha256(f"{cell.cell_type}\0{cell.source}".encode()).hexdigest()[:12]
    return (f"given-{digest}" if kind_name else digest), False


def _unique(cell_id: str, taken: set[str], authored: bool) -> str:
    if authored and cell_id in taken:
        raise BuildError(f"another cell has the id {cell_id!r} already")
    candidate, repeat = cell_id, 1
    while candidate in taken:
        repeat += 1
        candidate = f"{cell_id}-{repeat}"
    taken.add(candidate)
    return candidate


def _exercise_points(source: str, exercise: str, points_of: Callable[[str], float]) -> float:
    tree = compile_cell(source)
    calls = [node for node in ast.walk(tree or ast.Module([], [])) if isinstance(node, ast.Call)]
    if not any(ast.unparse(call.func) == "lab.check" and _first_argument(call) == exercise for call in calls):
        raise BuildError(f'the check cell must call lab.check("{exercise}", …)')
    # nbgrader reads the points from the value that the cell shows, and gives full marks if it shows none.
    if not isinstance(tree.body[-1], ast.Expr) or source.rstrip().endswith(";"):
        raise BuildError("the check cell must end in the expression that gives the points, and no semicolon")
    try:
        return float(points_of(exercise))
    except LookupError as problem:
        reason = problem.args[0] if problem.args else f"no exercise is called {exercise!r}"
        raise BuildError(str(reason)) from None


def _first_argument(call: ast.Call):
    first = call.args[0] if call.args else None
    return first.value if isinstance(first, ast.Constant) else None
