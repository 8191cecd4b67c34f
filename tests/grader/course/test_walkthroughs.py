"""Every kernel has a walkthrough, within the limits, and its figures are stored ones."""

import json
import re

import pytest

from grader.course import claims, walkthroughs
from grader.course.regions import BuildError
from grader.course.sources import ROOT
from labutils import exercises
from labutils.study import walkthroughs as shown

UNITS = sorted({e.unit for e in exercises.all_exercises().values()})
GOOD = 'why = "{}"\nproduction = "A library."\ntried = "A loop."\n'.format("word " * 60)


def unit(tmp_path, table: str):
    folder = tmp_path / "solutions" / "00_start"
    folder.mkdir(parents=True)
    (folder / walkthroughs.FILE).write_text(table)
    return folder


def test_every_kernel_has_one():
    assert walkthroughs.missing(ROOT) == []


def test_the_stored_file_is_that_of_the_sources():
    assert walkthroughs.released(ROOT) == shown.PATH.read_text(encoding="utf-8")
    found = json.loads(shown.PATH.read_text(encoding="utf-8"))
    assert found["exercises"].keys() == exercises.all_exercises().keys()
    assert all(entry["code"].strip() and "SOLUTION" not in entry["code"] for entry in found["exercises"].values())


def test_every_question_for_a_written_answer_has_a_model_answer():
    for name in UNITS:
        for question, model in walkthroughs.questions(ROOT / "solutions" / name):
            assert question.startswith("**") and len(question.split()) >= 5, (name, question)
            assert len(model.split()) >= 5 and "SOLUTION" not in question + model, (name, question)


@pytest.mark.parametrize("name", UNITS)
def test_every_measured_figure_is_a_stored_one(name):
    """A rate, a time, a share or a factor with a decimal point is in docs/measured.md, a claim, or the unit itself."""
    folder = ROOT / "solutions" / name
    stored = (ROOT / "docs/measured.md").read_text(encoding="utf-8") + (folder / f"{name}.py").read_text("utf-8")
    stored += " ".join(claim.value for claim in claims.read_claims(ROOT / "solutions").values())
    for exercise, table in walkthroughs.texts(folder).items():
        for text in table.values():
            for figure in re.findall(r"\d[\d.,]*(?= (?:TFLOP/s|GB/s|TB/s|µs|ms|%))|\b\d+\.\d+\b", text):
                assert re.search(rf"(?<![\d.]){re.escape(figure.rstrip('.,'))}(?![\d])", stored), (exercise, figure)


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        ("[nothing]\n" + GOOD, "no exercise of this unit"),
        ('[scale]\nwhy = "short"\n', "must have why, production, tried"),
        ('[scale]\nwhy = "short"\nproduction = "a"\ntried = "b"\n', "3 words"),
        ("[scale]\n" + GOOD.replace("A loop.", "A loop. {claim: nowhere}"), "nowhere"),
        ("[scale\n", "walkthroughs.toml"),
    ],
)
def test_a_wrong_table_is_refused(tmp_path, table, problem):
    with pytest.raises(BuildError, match=problem):
        walkthroughs.texts(unit(tmp_path, table))


def test_claims_are_filled_in(tmp_path):
    folder = unit(tmp_path, "[scale]\n" + GOOD.replace("A loop.", "It took {claim: slow}."))
    (folder / "claims.toml").write_text('[slow]\nvalue = "9 µs"\nsource = "measured"\n')
    assert walkthroughs.texts(folder)["scale"]["tried"] == "It took 9 µs."


@pytest.mark.parametrize(("chosen", "units"), [("[]", set()), ('["00_start"]', {"00_start"})])
def test_a_course_ships_what_it_chooses(tmp_path, chosen, units):
    (tmp_path / "course.toml").write_text(f"walkthroughs = {chosen}\n")
    (tmp_path / "solutions").symlink_to(ROOT / "solutions")
    found = json.loads(walkthroughs.released(tmp_path))
    assert {name.split("/")[0] for name in found["exercises"]} == units
    assert set(found["questions"]) <= units


def test_a_hunt_tells_line_cause_evidence_and_practice():
    shown = walkthroughs.texts(ROOT / "solutions" / "08_hunt")["bias_scale"]
    assert (
        shown["bug"].startswith("Line 17, `x = tl.load(x_ptr + row * N + offs_n") and ": wrong stride. " in shown["bug"]
    )
    assert set(shown) == {"bug", "evidence", "practice"}
