"""A class of any size, generated: right, wrong, hostile and broken submissions of a unit, no two alike.

Wrong answers are the unit's mutants, hostile ones the red team's notebooks and three that mean to end the grader.
"""

from __future__ import annotations

import ast
import copy
import random
import re
from collections.abc import Iterable
from pathlib import Path

from nbformat import NotebookNode
from nbformat.v4 import new_code_cell

from grader.course.build import release_notebook
from grader.course.mutants import mutants
from grader.course.sources import ROOT, notebook_bytes, source_notebook
from grader.demo.sample import solved
from grader.redteam import corpus
from labutils.exercises import all_exercises

UNIT = "00_start"
SHARES = {"right": 0.4, "wrong": 0.3, "hostile": 0.15, "broken": 0.15}

ENDS = {
    "kills its kernel": "import os\nos._exit(1)",
    "never ends": "while True:\n    pass",
    "leaves a process": "import os, time\nif os.fork() == 0:\n    os.setsid()\n    time.sleep(60)\n    os._exit(0)",
}


def write_class(folder: Path, count: int, seed: int = 0, unit: str = UNIT) -> None:
    """Write `folder/KIND_NUMBER.ipynb` for `count` students; the same seed gives the same class."""
    draw = random.Random(seed)
    release = release_notebook(ROOT / "solutions" / unit)
    right = solved(release, source_notebook(ROOT / "solutions" / unit))
    answers = answers_of(right, unit)
    folder.mkdir(parents=True)
    kinds = [kind for kind, share in SHARES.items() for _ in range(round(count * share))]
    kinds = (kinds + ["right"] * count)[:count]
    for number, kind in enumerate(kinds):
        notebook = copy.deepcopy(right)
        _own_words(notebook, answers.values(), number)
        size = _MAKERS[kind](notebook, release, answers, draw, number)
        (folder / f"{kind}_{number:04}.ipynb").write_bytes(notebook_bytes(notebook)[:size])


def answers_of(notebook: NotebookNode, unit: str) -> dict[str, str]:
    """The id of the cell with the answer to each exercise, by "UNIT/NAME"."""
    names = [e for e in all_exercises() if e.startswith(f"{unit}/")]
    cells = {cell.id for cell in notebook.cells}
    return {e: next(c for c in (f"{_name(e)}_kernel", _name(e)) if c in cells) for e in names}


def _name(exercise: str) -> str:
    return exercise.split("/")[1]


def _own_words(notebook: NotebookNode, cells: Iterable[str], number: int) -> None:
    """Names of one's own: kernels whose text is the same would be compiled only once."""
    for cell in (_cell(notebook, c) for c in cells if c.endswith("_kernel")):
        for name in ("i",) if cell.source.startswith("%%cuda") else ("pid", "offs", "mask"):
            cell.source = re.sub(rf"\b{name}\b(?![(=])", f"{name}_{number}", cell.source)  # no `mask=` of tl.load


def _right(notebook, release, answers, draw, number) -> None:
    pass


def _wrong(notebook, release, answers, draw, number) -> None:
    """One to three answers are mutants."""
    for exercise in draw.sample(list(answers), draw.randint(1, 3)):
        mutant, cell_id = draw.choice(mutants(exercise)), answers[exercise]
        text, cell = mutant.text, _cell(notebook, cell_id)
        if mutant.language == "cuda":
            cell.source = "%%cuda\n" + text
        elif found := [n for n in ast.parse(text).body if getattr(n, "name", "") == cell_id]:
            first = min([found[0].lineno, *(d.lineno for d in found[0].decorator_list)])
            cell.source = "\n".join(text.split("\n")[first - 1 : found[0].end_lineno])


def _hostile(notebook, release, answers, draw, number) -> None:
    """The red team's notebooks in turns, then a cell that means to end the grader."""
    trials = [t for t in corpus.trials(["notebook"]) if not t.slow]
    choice = draw.randrange(len(trials) + 2 * len(ENDS))
    if choice < len(trials):
        scope: dict = {}
        exec(compile(trials[choice].text, str(trials[choice].path), "exec"), scope)  # ours: it makes the attack
        scope["damage"](notebook)
    else:
        text = list(ENDS.values())[choice % len(ENDS)]
        after = _place(notebook, next(iter(answers.values())))
        notebook.cells.insert(after + 1, new_code_cell(text, id=f"mine-{number}"))


def _broken(notebook, release, answers, draw, number) -> int | None:
    """By accident: cut, emptied, unfilled, cells deleted, copied or misspelt. Returns where the file ends."""
    accident = draw.randrange(6)
    first, second, *_ = answers
    if accident == 0:
        return draw.randint(0, 3000)
    if accident == 1:
        notebook.cells = copy.deepcopy(release.cells)
    elif accident == 2:
        del notebook.cells[_place(notebook, f"check-{_name(second)}")]
    elif accident == 3:
        twin = copy.deepcopy(_cell(notebook, f"check-{_name(second)}"))
        twin.id = f"copy-{number}"
        notebook.cells.append(twin)
    elif accident == 4:
        _cell(notebook, answers[first]).source += "\n    return ("
    else:
        for cell in notebook.cells:
            cell.metadata.pop("nbgrader", None)
    return None


_MAKERS = {"right": _right, "wrong": _wrong, "hostile": _hostile, "broken": _broken}


def _place(notebook: NotebookNode, cell_id: str) -> int:
    return next(i for i, cell in enumerate(notebook.cells) if cell.id == cell_id)


def _cell(notebook: NotebookNode, cell_id: str) -> NotebookNode:
    return notebook.cells[_place(notebook, cell_id)]
