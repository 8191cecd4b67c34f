"""Marks are read strictly: what is not a plain number of points, with a verdict behind it, earns nothing."""

import pytest
from nbformat.v4 import new_code_cell, new_output
from nbgrader.utils import determine_grade

from grader.gradebook.gradebook import _outputs_for
from grader.marks.marks import Result, exercise_of, marks_of, sentence
from labutils.check.check import VERDICT_MIME
from labutils.spec.verdict import CaseResult, Diagnosis, Verdict

ADD = "06_elementwise_triton/add_bytes"
GRADING = {
    "grade": True,
    "solution": False,
    "locked": True,
    "task": False,
    "points": 1.0,
    "grade_id": "check-add_bytes",
}


def check_cell(*outputs, exercise=ADD, points=1.0):
    metadata = {"nbgrader": {**GRADING, "points": points}}
    return new_code_cell(f'lab.check("{exercise}")', outputs=list(outputs), metadata=metadata)


def shown(text):
    return new_output("execute_result", data={"text/plain": text}, execution_count=1)


def published(passed=True, exercise=ADD, **changes):
    message = None if passed else Diagnosis("wrong-values", "add_bytes(1, 4) is 8, expected 12", "Count again.")
    verdict = Verdict(exercise, "plain Python", [CaseResult("n = 1", message)], headline=message, points=1.0)
    return new_output("display_data", data={VERDICT_MIME: {**verdict.to_json(), **changes}, "text/plain": ""})


def test_a_verdict_and_its_marks_count():
    result = marks_of(check_cell(published(), shown("1.0")))
    assert (result.marks, result.verdict.exercise, result.sentence) == (1.0, ADD, "1 of 1 points.")


def test_a_refusal_says_what_was_seen_and_what_to_try():
    result = marks_of(check_cell(published(passed=False), shown("0.0")))
    assert result == Result(0.0, result.verdict, "add_bytes(1, 4) is 8, expected 12. Count again.")


@pytest.mark.parametrize(
    "text", ["nan", "np.float64(1.0)", "-1.0", "inf", "tensor(1.)", "True", "1_0", "0x1", "", "'1.0'", "1.0\n2.0", "٣"]
)
def test_only_a_plain_number_gives_marks(text):
    result = marks_of(check_cell(published(), shown(text)))
    assert result.marks == 0 and "not a plain number" in result.sentence


def test_more_than_the_maximum_gives_nothing():
    result = marks_of(check_cell(published(), shown("99.0")))
    assert result.marks == 0 and "99 of 1 points, which is impossible" in result.sentence


def test_the_last_result_counts():
    assert marks_of(check_cell(shown("1.0"), published(passed=False), shown("0.0"))).marks == 0


@pytest.mark.parametrize(
    "outputs",
    [
        [],
        [published()],
        [shown("1.0")],
        [published(passed=False), shown("1.0")],
        [published(exercise="06_elementwise_triton/gelu"), shown("1.0")],
        [published(results="none"), shown("1.0")],
        [published(results=[{"case": 1, "diagnosis": None}]), shown("1.0")],
        [published(marks="many"), shown("1.0")],
        [new_output("display_data", data={VERDICT_MIME: [1]}), shown("1.0")],
        [published(), shown("1.0"), new_output("error", ename="ValueError", evalue="no", traceback=[])],
    ],
)
def test_marks_without_a_sound_verdict_behind_them_do_not_count(outputs):
    result = marks_of(check_cell(*outputs))
    assert result.marks == 0 and result.sentence.endswith(".")


def test_an_error_is_told_without_colours():
    error = new_output("error", ename="ValueError", evalue="\x1b[31mbad\x1b[0m value", traceback=[])
    assert marks_of(check_cell(error)).sentence == "The check stopped with ValueError: bad value."
    died = new_output("error", ename="KernelDied", evalue="this cell killed the kernel (signal SIGSEGV)", traceback=[])
    assert marks_of(check_cell(died)).sentence == "This cell killed the kernel (signal SIGSEGV)."


def test_a_check_of_no_exercise_of_the_course_shows_its_own_points():
    assert marks_of(check_cell(shown("2.5"), exercise="06_elementwise_triton/none", points=3)).marks == 2.5


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ('lab.check("06_unit/a", f)', "06_unit/a"),
        ('%time\nx = 1\nlab.check("06_unit/a")', "06_unit/a"),
        ("lab.check(name)", None),
        ("check('06_unit/a')", None),
        ("lab.check(", None),
        ("%%cuda\n__global__ void f() {}", None),
    ],
)
def test_the_exercise_is_the_first_argument_of_lab_check(source, expected):
    assert exercise_of(source) == expected


@pytest.mark.parametrize(
    ("outputs", "marks"),
    [
        ([new_output("stream", name="stderr", text="UserWarning\n"), shown("1.0")], 1.0),
        ([shown("nan")], 0.0),
        ([shown("99.0")], 0.0),
        ([], 0.0),
        ([shown("1.0"), new_output("error", ename="E", evalue="", traceback=[])], 0.0),
    ],
)
def test_nbgrader_reads_the_same_marks(outputs, marks):
    cell = check_cell(*outputs)
    cell.outputs = _outputs_for(cell, Result(marks, None, "What happened."))
    assert determine_grade(cell) == (marks, 1.0)
    assert "What happened." in str(cell.outputs)
    assert ("UserWarning" in str(outputs)) == ("UserWarning" in str(cell.outputs))


def test_sentences_begin_and_end_as_such():
    assert sentence("it broke") == "It broke."
    assert sentence("Why?") == "Why?" and sentence("") == "."
