"""`lab.evidence` shows cases, values and counts, and no diagnosis."""

import pytest

from labutils import exercises
from labutils.spec.verdict import CaseResult, Diagnosis, Verdict
from labutils.study import hunt

HUNT = exercises.get("08_hunt/gelu")
SECRET = Diagnosis("wrong-stride", "the stride is wrong", "use the stride", "out[1] is 3, expected 4")


def shown(*results, counts=None, headline=None):
    return hunt.text(HUNT, Verdict(HUNT.id, "here", list(results), headline, counts or {}))


def test_no_word_of_a_diagnosis_is_shown():
    text = shown(CaseResult("n = 1"), CaseResult("n = 2", SECRET, 5.0), headline=SECRET)
    assert "✓ n = 1\n" in text and "✗ n = 2   wrong values" in text and "out[1] is 3, expected 4" in text
    assert not any(word in text for word in ("stride", "wrong-stride"))


@pytest.mark.parametrize(
    "error, details, said",
    [(None, "", "ended early"), (0.5, "", hunt.REPORTED), (3.0, "", "wrong values"), (0.0, "a table", "wrong values")],
)
def test_how_a_case_fails(error, details, said):
    found = Diagnosis("race", "two threads", "an atomic", details)
    text = shown(CaseResult("n = 1", found, error))
    assert f"✗ n = 1   {said}" in text and ("may be right" in text) == (said == hunt.REPORTED)


def test_counts_are_shown_for_right_results():
    counts = {"case": "n = 4", "global_load_bytes": 224, "global_load_requests": 1}
    assert "Counted (n = 4)" in shown(CaseResult("n = 1"), counts=counts)


def test_what_is_no_kernel_is_refused_by_a_sentence(capsys):
    hunt.evidence("08_hunt/no_such")
    hunt.evidence("08_hunt/bug")
    hunt.evidence("08_hunt/gelu", None)
    out = capsys.readouterr().out
    assert "lab.evidence: no exercise" in out and "has no kernel" in out
    assert "there is no function called gelu" in out


def test_a_bug_of_triton_is_shown_by_its_cases(capsys):
    from grader.course.mutants import mutants
    from grader.course.solutions import load_text

    (planted,) = [m for m in mutants("08_hunt/bias_scale") if m.name == "planted"]
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        hunt.evidence("08_hunt/bias_scale", load_text(planted.text, folder).bias_scale)
    out = capsys.readouterr().out
    assert "✗ 17 × 300, padded rows   wrong values" in out and "✓ one element" in out and "out[1, 0]" in out
    assert "stride" not in out and "What is wrong" not in out
