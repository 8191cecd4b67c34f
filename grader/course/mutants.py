"""The mutants of an exercise: common mistakes and correct variants, each an edit of the solution.

`solutions/UNIT/mutants/EXERCISE.toml` holds a table for each:

    [half_depth]
    expect = "missing-accumulation"             # a kind of diagnosis, or "accepted"
    marks = 2                                   # optional: what an accepted one earns, where counts are worth points
    why = "Multiplies the first 16 of the tile's 32."
    edit = ['< BK', '< 16']                     # or edits = [[old, new], …]

Each old text occurs in the solution exactly once. The solution of an exercise is `answer(exercise)`: in Python the
function that is checked and whatever it needs, in CUDA C++ the `%%cuda` cell. Another starting text is named by

    base = "small.py"                           # a file in solutions/UNIT/mutants/EXERCISE/
    base = "natural"                            # another mutant of the exercise
    text = '''…'''                              # none: the answer is a different one

The mutant `unfilled` is what the build releases, so it has no table. A hunt is released as its mutant `planted`
(`grader/course/hunts.py`), and has no `unfilled`.
"""

import ast
import copy
import functools
import re
import symtable
import tomllib
from dataclasses import dataclass
from itertools import pairwise

from nbformat import NotebookNode

from grader.course.cells import is_cuda
from grader.course.edits import edited, edits_of, is_marker, without_markers
from grader.course.hunts import PLANTED
from grader.course.solutions import ROOT, code_cells
from grader.course.sources import source_notebook
from grader.course.stubs import stub_source
from labutils import exercises
from labutils.check.diagnose import KINDS

SOURCES = ROOT / "solutions"

ACCEPTED = "accepted"

_KEYS = {"expect", "marks", "why", "edit", "edits", "base", "text"}
_PLANTED_KEYS = {"cause", "also"}


@dataclass(frozen=True)
class Mutant:
    """Code to check, and the expected result: "accepted" or a kind of diagnosis.

    `text` is a Python module that defines the exercise's function or, where `language` is "cuda", CUDA C++ whose
    kernels take the place of the solution's. `marks` is what an accepted one should earn (None: all).
    """

    exercise: str
    name: str
    expect: str
    why: str
    text: str
    language: str = "python"
    marks: float | None = None


def mutants(exercise_id: str) -> list[Mutant]:
    """The mutants of an exercise by name. Raises ValueError, which names exercise and mutant, for a wrong table."""
    unit, name = exercise_id.split("/")
    path = SOURCES / unit / "mutants" / f"{name}.toml"
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, tomllib.TOMLDecodeError) as problem:
        raise ValueError(f"{exercise_id}: {path} cannot be read: {problem}") from None
    found = []
    for title, table in tables.items():
        try:
            text, language = _resolved(exercise_id, tables, title)
            found.append(_mutant(exercise_id, title, table, text, language))
        except (ValueError, OSError) as problem:
            raise ValueError(f"{exercise_id}, mutant {title}: {problem}") from None
    released = [] if PLANTED in tables else [unfilled(exercise_id)]
    return sorted([*found, *released], key=lambda mutant: mutant.name)


def unfilled(exercise_id: str) -> Mutant:
    """The exercise as it is released."""
    text = without_markers(_answer(exercise_id, _stubbed(exercise_id.split("/")[0])))
    return Mutant(exercise_id, "unfilled", "unfilled", "The cell as it is released.", text, language_of(exercise_id))


def answer(exercise_id: str) -> str:
    """The solution's text, without markers: the checked function and all it needs, or the cell of CUDA C++."""
    return without_markers(marked_answer(exercise_id))


def marked_answer(exercise_id: str) -> str:
    """The solution's text with the markers of what a learner writes."""
    return _answer(exercise_id, _source(exercise_id.split("/")[0]))


def _mutant(exercise_id: str, name: str, table: dict, text: str, language: str) -> Mutant:
    if unknown := set(table) - _KEYS - (_PLANTED_KEYS if name == PLANTED else set()):
        raise ValueError(f"{', '.join(sorted(unknown))} is not a field of a mutant")
    if table.get("expect") not in (ACCEPTED, *KINDS):
        raise ValueError(f"expect = {table.get('expect')!r} is neither a kind of diagnosis nor '{ACCEPTED}'")
    if not re.fullmatch(r".+\.", table.get("why", "")):
        raise ValueError("why must be a sentence that says what is wrong, or what is different")
    return Mutant(exercise_id, name, table["expect"], table["why"], text, language, table.get("marks"))


def _resolved(exercise_id: str, tables: dict, name: str, above: tuple[str, ...] = ()) -> tuple[str, str]:
    """Text and language of a mutant, from its base and its edits."""
    if name in above or name not in tables:
        raise ValueError(f"there is no base {name!r}")
    table = tables[name]
    edits = edits_of(table)
    if not edits and not {"base", "text"} & set(table) or "text" in table and {"base", "edit", "edits"} & set(table):
        raise ValueError("a mutant has edits, a base, or a text")
    language = language_of(exercise_id)
    if "text" in table:
        return table["text"], language
    base = table.get("base")
    if base is None:
        text = answer(exercise_id)
    elif "." in base:
        unit, folder = exercise_id.split("/")
        text = (SOURCES / unit / "mutants" / folder / base).read_text(encoding="utf-8")
        language = "cuda" if base.endswith(".cu") else "python"
    else:
        text, language = _resolved(exercise_id, tables, base, (*above, name))
    return edited(text, edits), language


def language_of(exercise_id: str) -> str:
    """In which language an exercise is answered: "cuda" or "python"."""
    return "cuda" if getattr(exercises.get(exercise_id), "language", "") == "cuda" else "python"


@functools.cache
def _source(unit: str) -> NotebookNode:
    return source_notebook(ROOT / "solutions" / unit)


@functools.cache
def _stubbed(unit: str) -> NotebookNode:
    notebook = copy.deepcopy(_source(unit))
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.source = stub_source(cell.source, cell.id)
    return notebook


def _answer(exercise_id: str, notebook: NotebookNode) -> str:
    needed = _needed(notebook, exercises.get(exercise_id).entry)
    if language_of(exercise_id) == "python":
        parts = [part for _, part in needed]
        text = parts[0]
        for before, part in pairwise(parts):
            text += ("\n\n\n" if "\n" in before + part else "\n") + part
        return text + "\n"
    cells = {cell_id for cell_id, _ in needed}
    solved = [c for c in notebook.cells if c.id in cells and c.metadata.get("nbgrader", {}).get("solution")]
    answers = [cell for cell in solved if is_cuda(cell.source)]
    if len(answers) != 1:
        raise ValueError(f"{exercise_id}: {len(answers)} cells of CUDA C++ answer it, not one")
    return answers[0].source.partition("\n")[2] + "\n"


def _needed(notebook: NotebookNode, entry: str) -> list[tuple[str, str]]:
    """(id of the cell, statement) of all that a function of the notebook needs, itself included."""
    statements = []
    for cell_id, text in code_cells(notebook):
        text += "\n"
        lines = text.split("\n")
        for node in ast.parse(text).body:
            first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))])
            last = node.end_lineno
            # the markers around what a learner writes belong to it
            first -= first > 1 and is_marker(lines[first - 2])
            last += last < len(lines) and is_marker(lines[last])
            statement = "\n".join(lines[first - 1 : last])
            statements.append((cell_id, statement, *_names(statement)))
    wanted, kept, before = {entry}, set(), -1
    while len(kept) > before:
        before = len(kept)
        for number, (_, _, defined, used) in enumerate(statements):
            if defined & wanted:
                kept.add(number)
                wanted |= used
    return [statements[number][:2] for number in sorted(kept)]


def _names(statement: str) -> tuple[set[str], set[str]]:
    """The names that a module's statement defines, and those of the module that it uses."""
    module = symtable.symtable(statement, "statement", "exec")
    defined = {s.get_name() for s in module.get_symbols() if s.is_assigned() or s.is_imported()}
    used, tables = {s.get_name() for s in module.get_symbols()}, list(module.get_children())
    while tables:
        table = tables.pop()
        used |= {s.get_name() for s in table.get_symbols() if s.is_global()}
        tables += table.get_children()
    return defined, used
