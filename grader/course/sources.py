"""A unit's text source as a notebook, with its answers. Does without nbgrader, which takes a second to import."""

from collections.abc import Callable
from pathlib import Path

import jupytext
import nbformat
from nbformat import NotebookNode

from grader.course.cells import expand
from grader.course.claims import fill, read_claims
from grader.course.hunts import plant
from grader.course.place import ROOT as ROOT
from grader.course.regions import BuildError
from grader.course.settings import read_settings
from labutils import exercises

PointsOf = Callable[[str], float]


def exercise_points(exercise_id: str) -> float:
    """The points of an exercise in the course's registry."""
    return exercises.get(exercise_id).points.total


def written_notebook(unit: Path) -> NotebookNode:
    """The cells of the unit in the folder `unit` as the author wrote them."""
    path = unit / f"{unit.name}.py"
    try:
        return jupytext.reads(path.read_text(encoding="utf-8"), fmt="py:percent")
    except OSError as problem:
        raise BuildError(f"{path} cannot be read: {problem.strerror}") from None


def source_notebook(unit: Path, points_of: PointsOf = exercise_points) -> NotebookNode:
    """The notebook of the unit in the folder `unit`, with answers, nbgrader's metadata and the values of its claims."""
    notebook = written_notebook(unit)
    fill(notebook, read_claims(unit.parent), unit.name)
    expand(notebook, unit.name, points_of, read_settings(unit.parent.parent))
    plant(notebook, unit)
    notebook.metadata = NotebookNode(
        kernelspec={"display_name": "Python 3", "language": "python", "name": "python3"},
        language_info={"name": "python"},
    )
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    nbformat.validate(notebook)
    return notebook


def notebook_bytes(notebook: NotebookNode) -> bytes:
    """The one way in which this course writes a notebook: the same notebook always gives the same bytes."""
    return (nbformat.writes(notebook, version=nbformat.NO_CONVERT).rstrip("\n") + "\n").encode()


def unit_names(root: Path) -> list[str]:
    """The units that have a source, in order."""
    return sorted(path.stem for path in (root / "solutions").glob("*/*.py") if path.stem == path.parent.name)
