"""From `class.toml` to a folder of submissions, as students would submit them."""

from __future__ import annotations

import copy
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

from nbformat import NotebookNode
from nbformat.v4 import new_code_cell

from grader.course.build import release_notebook
from grader.course.regions import find_regions
from grader.course.sources import notebook_bytes, source_notebook
from grader.marks.results import ClassResults

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Student:
    """A sample student: what is solved and how, what is done to the notebook, and the expected points."""

    name: str
    about: str
    marks: list[float]
    solved: list[str] | str = "all"
    answers: dict[str, str] = field(default_factory=dict)
    damage: list[dict] = field(default_factory=list)


@dataclass(frozen=True)
class SampleClass:
    """The unit that the class works on, the answer cell of each exercise, and the students."""

    unit: str
    cells: dict[str, str]
    students: list[Student]


def read_class(path: Path = HERE / "class.toml") -> SampleClass:
    data = tomllib.loads(path.read_text(encoding="utf-8"))
    return SampleClass(data["unit"], data["cells"], [Student(**s) for s in data["student"]])


def write_submissions(sample: SampleClass, unit: Path, folder: Path) -> None:
    """Write each student's notebook to `folder/STUDENT/`."""
    release = release_notebook(unit)
    solution = solved(release, source_notebook(unit))
    for student in sample.students:
        everything = student.solved == "all"
        notebook = copy.deepcopy(solution if everything else release)
        for exercise in () if everything else student.solved:
            _cell(notebook, sample.cells[exercise]).source = _cell(solution, sample.cells[exercise]).source
        for cell_id, answer in student.answers.items():
            _cell(notebook, cell_id).source = _answer(answer)
        _hand_in(notebook, student, folder / student.name, unit.name)


def solved(release: NotebookNode, source: NotebookNode) -> NotebookNode:
    """The release with all answers filled in, as a learner would have them: without markers."""
    notebook = copy.deepcopy(release)
    for cell in notebook.cells:
        if cell.metadata.get("nbgrader", {}).get("solution"):
            text = _cell(source, cell.id).source
            regions = find_regions(text, code=cell.cell_type == "code")
            markers = {line for region in regions for line in (region.begin, region.end)}
            cell.source = "\n".join(line for n, line in enumerate(text.split("\n")) if n not in markers)
    return notebook


def differences(sample: SampleClass, results: ClassResults) -> list[str]:
    """Where the results are not as the class expects, a sentence for each."""
    found = []
    graded = {s.student: s for s in results.students}
    cells = {c.name: c.cell for c in results.checks}
    for student in sample.students:
        if student.name not in graded:
            found.append(f"{student.name} ({student.about}) is missing from the results.")
            continue
        marks = {o.cell: o.marks for o in graded[student.name].outcomes}
        for exercise, expected in zip(sample.cells, student.marks, strict=True):
            got = marks.get(cells.get(exercise, ""))
            if got != expected:
                found.append(f"{student.name} ({student.about}) got {got} for {exercise}, not {expected}.")
    return found


def _hand_in(notebook: NotebookNode, student: Student, folder: Path, unit: str) -> None:
    name, size = f"{unit}.ipynb", None
    for damage in student.damage:
        match damage:
            case {"rename": new}:
                name = new
            case {"truncate": at}:
                size = at
            case {"delete": cell_id}:
                notebook.cells.remove(_cell(notebook, cell_id))
            case {"copy": cell_id}:
                twin = copy.deepcopy(_cell(notebook, cell_id))
                twin.id = f"{cell_id}-copied"
                notebook.cells.insert(_position(notebook, cell_id) + 1, twin)
            case {"insert": answer, "after": cell_id}:
                cell = new_code_cell(_answer(answer), id=f"mine-{len(notebook.cells)}")
                notebook.cells.insert(_position(notebook, cell_id) + 1, cell)
            case _:
                raise ValueError(f"{student.name}: unknown damage {damage}")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(notebook_bytes(notebook)[:size])


def _answer(name: str) -> str:
    return (HERE / "answers" / name).read_text(encoding="utf-8").rstrip("\n")


def _position(notebook: NotebookNode, cell_id: str) -> int:
    return next(i for i, cell in enumerate(notebook.cells) if cell.id == cell_id)


def _cell(notebook: NotebookNode, cell_id: str) -> NotebookNode:
    return notebook.cells[_position(notebook, cell_id)]
