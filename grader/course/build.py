"""Build the notebooks: text sources with answers in, released notebooks without answers out.

Each unit is built in a scratch folder and checked there, and its solution must pass its own check. Only a release that
passes replaces the one in notebooks/, in one step, so a failure leaves the old release as it was.
"""

import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from grader.course import cards, claims, glossary, hints, hunts, index, self_check, walkthroughs
from grader.course.holes import holes
from grader.course.locales.catalogs import editions
from grader.course.locales.edition import Translated
from grader.course.locales.tables import tables
from grader.course.nbgrader_config import NbGraderAPI, course_config
from grader.course.regions import BuildError, located
from grader.course.release_check import check_release, size_warnings
from grader.course.sources import ROOT, PointsOf, exercise_points, notebook_bytes, source_notebook, unit_names
from grader.course.stubs import release_preprocessors, stub_source


@dataclass(frozen=True)
class Built:
    """A unit's notebook with its answers, and the checked one that learners get."""

    source: NotebookNode
    release: NotebookNode


def release_notebook(unit: Path, points_of: PointsOf = exercise_points) -> NotebookNode:
    """The checked notebook that learners get. Raises BuildError if anything is wrong with the unit."""
    return build_unit(unit, points_of).release


def build_unit(unit: Path, points_of: PointsOf = exercise_points) -> Built:
    """A unit's notebooks. Raises BuildError if anything is wrong with the unit."""
    source = source_notebook(unit, points_of)
    for cell in source.cells:
        if cell.cell_type == "code":
            # nbgrader stubs the cells again; this finds a wrong region first and says where it is.
            with located(f"{unit.name}.py, cell {cell.id}"):
                stub_source(cell.source, cell.id)
    release = _through_nbgrader(source, unit.name)
    with located(f"{unit.name}.py"):
        if [cell.id for cell in release.cells] != [cell.id for cell in source.cells]:
            raise BuildError("nbgrader changed the ids of the cells")
        check_release(release, source)
    return Built(source, release)


def stale_releases(root: Path, out: Path) -> list[Path]:
    """Released notebooks whose unit has no source any more."""
    known = set(unit_names(root))
    released = (path for path in out.glob("*/*.ipynb") if path.stem == path.parent.name)
    return sorted(path for path in released if path.stem not in known)


def build(
    root: Path = ROOT,
    units: Iterable[str] = (),
    out: Path | None = None,
    check: bool = False,
    points_of: PointsOf = exercise_points,
    say: Callable[[str], None] = print,
) -> list[str]:
    """Build the named units of the course in `root`, or all of them, into `out` (by default its notebooks/).

    With `check`, write nothing and compare with what is there. Returns the problems, one sentence for each.
    """
    out = out or root / "notebooks"
    units = list(units)
    if not unit_names(root):
        return [f"{root / 'solutions'} holds no unit NN_unit/NN_unit.py"]
    answers = root / "labutils" / "exercises" / hunts.ANSWERS.name
    # first, because the checks of hunts read them
    problems = _collect_answers(root, points_of, answers, check) if answers.exists() else []
    releases, found = _releases(root, units or unit_names(root), points_of)
    problems += found
    problems = list(dict.fromkeys(problems + _claim_problems(root / "solutions", units)))
    for unit, built in releases.items():
        for warning in size_warnings(built.release):
            say(f"{unit}: warning: {warning}")
        problems += _put_notebook(built.release, out / unit / f"{unit}.ipynb", unit, check, say)
    if (source := root / "docs" / "glossary.md").exists():
        problems += _put(glossary.released(source.read_text(encoding="utf-8")).encode(), out / "glossary.md", check)
    if (source := root / "README.md").exists():
        readme = source.read_text(encoding="utf-8")
        problems += _put(notebook_bytes(index.index_notebook(readme)), out / "index.ipynb", check)
        if root == ROOT:
            course = root / "labutils" / "study" / "course.json"
            problems += _put(index.released_course(readme, out).encode(), course, check)
    if out == root / "notebooks" and (study := root / "labutils" / "study").exists():
        problems += _collect_hints(out, study / "hints.json", check)
        if root == ROOT:  # a solution's code is read from the course that this grader belongs to
            problems += _collect_walkthroughs(root, study / "walkthroughs.json", check)
        problems += _collect_cards(root, study / "claims.json", check)
    for edition in editions(root):
        problems += _put_edition(Translated(root, edition), releases, out, check, say)
    problems += [f"{path} contains answers and must not be released" for path in sorted(out.glob("**/mutants"))]
    for folder in (out, *(out / edition.name for edition in editions(root))):
        for path in [] if units else stale_releases(root, folder):
            if check:
                problems.append(f"{path.stem}: the released notebook has no source; run `python -m grader build`")
            else:
                _remove(path)
                say(f"{path.stem}: removed, it has no source")
    return problems


def _releases(root: Path, units: list[str], points_of: PointsOf) -> tuple[dict[str, Built], list[str]]:
    """The notebooks of the units that are complete and right, and what is wrong with the others, in sentences."""
    releases, problems = {}, []
    for unit in units:
        if left := holes(root, unit):
            problems += left
            continue
        try:
            releases[unit] = build_unit(root / "solutions" / unit, points_of)
        except BuildError as problem:
            problems.append(str(problem))
    for unit, found in self_check.problems_of(root / "solutions" / unit for unit in releases).items():
        if found:
            problems += found
            del releases[unit]
    return releases, problems


def _put_notebook(release: NotebookNode, target: Path, name: str, check: bool, say: Callable[[str], None]) -> list[str]:
    """Write a released notebook, or with `check` say if it is not there."""
    content = notebook_bytes(release)
    same = target.exists() and target.read_bytes() == content
    if not check:
        if not same:
            _replace(target, content)
        say(f"{name}: {'unchanged' if same else 'written'}, {len(release.cells)} cells")
    elif not same:
        state = "differs from its source" if target.exists() else "is missing"
        return [f"{name}: the released notebook {state}; run `python -m grader build {target.stem}`"]
    return []


def _put_edition(
    translated: Translated, units: Mapping[str, Built], out: Path, check: bool, say: Callable[[str], None]
) -> list[str]:
    """Write an edition's notebooks of the units, and its documents; returns what is wrong."""
    problems = []
    folder = out / translated.edition.name
    for unit, built in units.items():
        name = f"{translated.edition.name}/{unit}"
        try:
            with located(name):
                source = translated.source(built.source, unit)
                release = translated.release(built.release, source)
                check_release(release, source)
        except BuildError as problem:
            problems.append(str(problem))
            continue
        problems += _put_notebook(release, folder / unit / f"{unit}.ipynb", name, check, say)
    for name, content in translated.beside_notebooks().items():
        problems += _put(content, folder / name, check, f"{translated.edition.name}/{name}")
    if out == translated.root / "notebooks":
        for name, content in (translated.documents() | tables(translated, out)).items():
            problems += _put(content, translated.root / name, check, name)
    return problems


def _put(content: bytes, target: Path, check: bool, name: str = "") -> list[str]:
    """Write what stands beside the units' folders, or with `check` say if it is not there."""
    if target.exists() and target.read_bytes() == content:
        return []
    if check:
        state = "it differs from its source" if target.exists() else "it is missing"
        return [f"{name or target.name}: {state}; run `python -m grader build`"]
    _replace(target, content)
    return []


def _collect_hints(notebooks: Path, target: Path, check: bool) -> list[str]:
    """Put the notebooks' hints where `lab.hint` reads them, or with `check` say if they are not there."""
    content = hints.released(notebooks).encode()
    if target.exists() and target.read_bytes() == content:
        return []
    if check:
        return [f"{target.name}: it does not hold the hints of the notebooks; run `python -m grader build`"]
    _replace(target, content)
    return []


def _collect_walkthroughs(root: Path, target: Path, check: bool) -> list[str]:
    """Put the walkthroughs where `lab.walkthrough` reads them, or with `check` say if they are not there."""
    try:
        left, content = walkthroughs.missing(root), walkthroughs.released(root).encode()
    except (BuildError, ValueError) as problem:
        return [str(problem)]
    found = [f"{name}: {walkthroughs.FILE} has no text of this exercise" for name in left]
    return found + _put(content, target, check)


def _collect_cards(root: Path, target: Path, check: bool) -> list[str]:
    """Put the claim cards where `lab.claims` reads them, or with `check` say if they are not there."""
    try:
        return _put(cards.released(root).encode(), target, check)
    except BuildError as problem:
        return [str(problem)]


def _collect_answers(root: Path, points_of: PointsOf, target: Path, check: bool) -> list[str]:
    """Put the hashes of the hunts' answers where their check reads them, or with `check` say if they are not there."""
    found = {}
    for unit in unit_names(root):
        if 'cell="hunt"' not in (root / "solutions" / unit / f"{unit}.py").read_text(encoding="utf-8"):
            continue
        try:
            folder = root / "solutions" / unit
            found |= hunts.hashes(source_notebook(folder, points_of), folder)
        except BuildError as problem:
            return [str(problem)]
    return _put(hunts.released(found).encode(), target, check)


def _claim_problems(solutions: Path, units: list[str]) -> list[str]:
    """What is wrong with the claims of all units; unused claims are reported only for the units that are built."""
    try:
        known = claims.read_claims(solutions)
    except BuildError as problem:
        return [str(problem)]
    return claims.unused(solutions, known, units)


def add_arguments(parser) -> None:
    parser.add_argument("units", nargs="*", metavar="UNIT", help="units to build, such as 00_start; default: all")
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a release is out of date")
    parser.add_argument("--out", type=Path, metavar="DIR", help="output folder instead of notebooks/")
    parser.add_argument("--root", type=Path, default=ROOT, metavar="DIR", help="the course; default: this repository")


def main(args) -> int:
    problems = build(args.root, args.units, args.out, args.check)
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


def _through_nbgrader(source: NotebookNode, unit: str) -> NotebookNode:
    """The release that nbgrader makes of a source notebook, in a course folder of its own."""
    with tempfile.TemporaryDirectory(prefix="grader-build-") as scratch:
        course = Path(scratch)
        path = course / "source" / unit / f"{unit}.ipynb"
        path.parent.mkdir(parents=True)
        path.write_bytes(notebook_bytes(source))
        config = course_config(course)
        config.GenerateAssignment.preprocessors = release_preprocessors()
        # A release needs no gradebook; making one takes longer than all the rest.
        config.GenerateAssignment.no_database = True
        config.SaveCells.enabled = False
        result = NbGraderAPI(config=config).generate_assignment(unit)
        if not result["success"]:
            lines = (result.get("log") or result["error"]).strip().splitlines()
            reason = next((line for line in reversed(lines) if "Error: " in line), lines[-1])
            raise BuildError(f"{unit}.py: nbgrader cannot create the release: {reason.strip()}")
        return nbformat.read(course / "release" / unit / f"{unit}.ipynb", as_version=nbformat.NO_CONVERT)


def _replace(target: Path, content: bytes) -> None:
    """Write a file atomically: a reader sees the old content or the new."""
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        partial.write_bytes(content)
        os.replace(partial, target)
    finally:
        partial.unlink(missing_ok=True)


def _remove(path: Path) -> None:
    """Remove a released notebook, and its folder if nothing of anyone else's is in it."""
    path.unlink()
    shutil.rmtree(path.parent / ".ipynb_checkpoints", ignore_errors=True)
    if not any(path.parent.iterdir()):
        path.parent.rmdir()
