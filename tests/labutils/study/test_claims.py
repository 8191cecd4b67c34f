"""A claim card shows predicted beside measured, in a notebook and as text, and every card's line of code runs."""

import sys

import pytest

import labutils as lab
from labutils import exercises
from labutils.exercises import hunts
from labutils.study import claims
from labutils.study.claims import BLANK, ClaimCard, counted, quiz


@pytest.fixture(autouse=True)
def forgotten(monkeypatch):
    """Predictions of other tests."""
    monkeypatch.setattr(claims, "_predicted", {})


UNITS = list(dict.fromkeys(e.unit for e in exercises.all_exercises().values()))
COUNTED = ClaimCard("kilo", "A kilobyte has ___ bytes.", "bytes", line="2 ** 10")
SHARE = ClaimCard("share", "12 of 64 are ___ %.", "%", line="100 * 12 / 64")
STORED = ClaimCard("wait", "It takes ___ µs.", "µs", line='lab.hardware.stored().launch_us["launch and wait"]')
MEASURED = ClaimCard(
    "copy", "A copy moves ___ GB/s.", "GB/s", number=4000.0, source="measured: docs/measured.md on an H200."
)


def test_every_unit_has_two_to_four_cards():
    assert set(claims.stored()) >= set(UNITS) - set(hunts.UNITS)
    assert all(2 <= len(cards) <= 4 for cards in claims.stored().values())


@pytest.mark.parametrize("unit", sorted(claims.stored()))
def test_every_card_can_be_measured(unit):
    for card in quiz(unit).cards:
        found = card.measure()
        assert found > 0 and found < float("inf"), card
        assert card.claim.count(BLANK) == 1 and card.how, card


@pytest.mark.parametrize(
    ("card", "predicted", "text"),
    [
        (COUNTED, 1024, "1,024 predicted, 1,024 bytes calculated: right"),
        (COUNTED, 1023, "1,023 predicted, 1,024 bytes calculated: wrong"),
        (COUNTED, 1000, ": wrong"),
        (COUNTED, 0, "0 predicted, 1,024 bytes calculated: wrong"),
        (COUNTED, -1024, ": wrong"),
        (SHARE, 18.75, "18.75 predicted, 18.75 % calculated: right"),
        (SHARE, 19, ": right"),
        (SHARE, 18, ": right"),  # within 5 %
        (SHARE, 20, ": wrong"),
        (SHARE, -18.75, ": wrong"),
        (MEASURED, 4000, "4,000 predicted, 4,000 GB/s measured: 1 times, right"),
        (MEASURED, 3000, "0.75 times, near"),
        (MEASURED, 8800, "8,800 predicted, 4,000 GB/s measured: 2.2 times, off"),
        (MEASURED, -8800, "measured: wrong"),
        (STORED, 19, "19.81 µs measured: 0.959 times, right"),
    ],
)
def test_predicted_stands_beside_measured(card, predicted, text):
    result = card.result(predicted)
    assert text in result and (card.line or card.source) in result


def test_as_text_it_says_how_to_answer(capsys):
    lab.claims("10_reduction")
    shown = capsys.readouterr().out
    assert 'lab.claims("10_reduction", divergent=…)' in shown and "823" not in shown
    lab.claims("10_reduction", divergent=800)
    shown = capsys.readouterr().out
    assert "800 predicted, 823 branches counted: wrong" in shown and "lab.counted(" in shown
    assert "(the reference solution, case '" in shown and claims.RULE in shown


def test_earlier_answers_stay_and_a_reason_follows(capsys):
    lab.claims("09_shared_memory", padding=3)
    lab.claims("09_shared_memory", room=256)
    shown = capsys.readouterr().out.rpartition("Predict, then count")[2]
    assert "3 predicted, 2 wavefronts calculated: wrong. Neighboring words of a column" in shown
    assert "256 predicted, 256 bytes counted: right. " in shown


def test_it_works_without_ipywidgets(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "ipywidgets", None)
    assert set(quiz("10_reduction")._repr_mimebundle_()) == {"text/plain"}
    lab.claims("10_reduction")
    assert "Predict, then count" in capsys.readouterr().out


def test_the_widget_compares_what_was_typed():
    pytest.importorskip("ipywidgets")
    rule, first, *_ = quiz("10_reduction").widget().children
    assert "within 5 %" in rule.value
    claim, row, result = first.children
    box, _, button = row.children
    assert BLANK in claim.value and result.value == ""
    button.click()
    assert "prediction first" in result.value
    box.value = 823
    button.click()
    assert "right" in result.value


def test_unknown_names_are_answered(capsys):
    lab.claims("10_reductio")
    lab.claims("10_reduction", barriers=3)
    shown = capsys.readouterr().out
    assert "did you mean '10_reduction'" in shown and "there are divergent" in shown


def test_it_is_skipped_while_a_class_is_graded(monkeypatch, capsys):
    monkeypatch.setenv("NBGRADER_EXECUTION", "autograde")
    lab.claims("10_reduction")
    assert "skipped" in capsys.readouterr().out


def test_counts_of_the_reference_solution():
    assert counted("08_coalescing/transpose", "shared_load_wavefronts", per="shared_load_requests") == 32
    with pytest.raises(KeyError, match="no count 'sectors'"):
        counted("08_coalescing/transpose", "sectors")
    with pytest.raises(KeyError, match="no figures"):
        counted("01_hardware/peak", "sectors")
