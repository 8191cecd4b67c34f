"""Claim cards are data: a wrong one is reported with file and card, and the stored file is that of the units."""

import pytest

from grader.course import cards
from grader.course.claims import read_claims
from grader.course.regions import BuildError
from grader.course.sources import ROOT
from labutils.study import claims

GOOD = '[one]\nclaim = "It moves ___ bytes."\nunit = "bytes"\nline = "8"\n'
OTHER = GOOD.replace("one", "two")


def found(tmp_path, text: str, known: str = ""):
    folder = tmp_path / "solutions" / "00_start"
    folder.mkdir(parents=True)
    (folder / cards.FILE).write_text(text)
    (folder / "claims.toml").write_text(known)
    return cards.cards(folder, read_claims(folder.parent))


def test_the_stored_file_is_that_of_the_units():
    assert cards.released(ROOT) == claims.PATH.read_text(encoding="utf-8")


def test_a_measured_card_takes_number_and_source_from_the_claim(tmp_path):
    known = '[slow]\nvalue = "9 µs"\nnumber = 9\nsource = "measured, docs/measured.md"\ngpu = "H200"\n'
    text = GOOD + OTHER.replace('line = "8"', 'measured = "slow"')
    assert found(tmp_path, text, known)[1] == {
        "name": "two", "claim": "It moves ___ bytes.", "unit": "bytes", "number": 9,
        "source": "measured, docs/measured.md on an H200.",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (GOOD, "has 1 cards"),
        (GOOD + OTHER.replace("___", "8"), "two must leave out one number"),
        (GOOD + OTHER.replace('line = "8"', ""), "two must have claim and unit"),
        (GOOD + OTHER.replace('line = "8"', 'measured = "nothing"'), "names nothing"),
        (GOOD + OTHER.replace("[two]", '["2 two"]'), "must be a name"),
        ("[one", "cards.toml"),
    ],
)
def test_a_wrong_card_is_refused(tmp_path, text, problem):
    with pytest.raises(BuildError, match=problem):
        found(tmp_path, text)
