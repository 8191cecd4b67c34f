"""Who takes the course, from tables as platforms write them; who submitted nothing is found by number, mail or name."""

import pytest

from grader.intake.platforms import MOODLE, number, read_table
from grader.intake.roster import Entry, RosterError, absent, match, read_roster
from grader.marks.results import Origin

CANVAS = """\
Student,ID,SIS User ID,SIS Login ID,Section,Unit 6 (99),Final Score
,,,,,Manual Posting,
    Points Possible,,,,,100,(read only)
"Duarte, Ana",501,u1,ana@example.org,A,,
"O'Neil, Bén",502,u2,ben,A,,
"Student, Test",503,,x,A,,
"""


def roster(tmp_path, text):
    (tmp_path / "roster.csv").write_text(text, encoding="utf-8-sig")
    return read_roster(tmp_path / "roster.csv")


def test_canvas(tmp_path):
    ana, ben = roster(tmp_path, CANVAS)
    assert ana == Entry("Duarte, Ana", "501", "ana@example.org", "canvas") and ana.student == "duarteana"
    assert (ben.id, ben.email) == ("502", "")
    text = CANVAS.replace(",", ";").replace("Duarte; Ana", "Duarte, Ana").replace("O'Neil; Bén", "O'Neil, Bén")
    assert [e.id for e in roster(tmp_path, text)][:2] == ["501", "502"], "as Canvas writes it where 0,5 is a half"
    names = "LastName,FirstName,ID,SIS Login ID,Section\nDuarte,Ana,501,x,A\n"
    assert roster(tmp_path, names)[0].name == "Duarte Ana"


@pytest.mark.parametrize("language", MOODLE, ids=lambda c: c.language)
def test_moodles_worksheet_in_each_language(tmp_path, language):
    c = language
    text = f"{c.identifier},{c.name},{c.email},{c.grade},{c.maximum},{c.modified}\nX 12345,Ana Duarte,a@b.org,,100,-\n"
    assert roster(tmp_path, text) == [Entry("Ana Duarte", "12345", "a@b.org", "moodle")]


def test_moodles_participants_and_nbgraders_students(tmp_path):
    text = "Vorname,Nachname,E-Mail-Adresse,Gruppen\nAna,Duarte,a@b.org,\n"
    assert roster(tmp_path, text) == [Entry("Ana Duarte", "", "a@b.org", "moodle")]
    (ana,) = roster(tmp_path, "id,first_name,last_name,email\nad7,Ana,Duarte,a@b.org\n")
    assert ana == Entry("Ana Duarte", "ad7", "a@b.org", "nbgrader") and ana.student == "ad7"
    assert [e.student for e in roster(tmp_path, "Name;Group\nAna;1\nBen\n\nAna;2\n")] == ["Ana", "Ben"]


@pytest.mark.parametrize("text", ["", "\n\n", "Group,Room\n1,2\n"])
def test_a_roster_that_names_nobody_is_rejected(tmp_path, text):
    with pytest.raises(RosterError, match="roster.csv"):
        roster(tmp_path, text)


def missing(entries, *submitted):
    return [e.name for e in absent(entries, submitted)[0]]


def test_a_submission_belongs_to_a_number_before_a_name():
    twins = [Entry("Ana Duarte", "1", "", "moodle"), Entry("Ana Duarte", "2", "", "moodle")]
    left, found = absent(twins, [("Ana Duarte", Origin("moodle", "2", "Ana Duarte"))])
    assert left == twins[:1] and found == twins[1:]
    other_assignment = ("Ana Duarte", Origin("moodle", "77", "Ana Duarte"))
    assert absent(twins, [other_assignment])[0] == twins[1:], "one of them has submitted, and only one"
    assert match(twins, [other_assignment]) == {}, "points go to nobody by a name that two have"


def test_names_match_whatever_their_order_and_accents():
    entries = [Entry("Duarte, Ana"), Entry("José Núñez"), Entry("Cem Öz", email="CEM@x.org"), Entry("Dora")]
    submitted = [("ana duarte", None), ("nunezjose", Origin("canvas", "5", "nunezjose"))]
    assert missing(entries, *submitted, ("c", Origin("folder", "", "c", "cem@x.org"))) == ["Dora"]
    assert missing([Entry("Dora")], ("dorana", None)) == ["Dora"]


def test_a_group_submits_once_for_all():
    entries = [Entry("Ana Duarte"), Entry("Ben", email="ben@x.org"), Entry("Cem")]
    group = Origin("gradescope", "7", "Ana Duarte and B. Ode", "ana@x.org, ben@x.org")
    assert missing(entries, ("Ana Duarte and B. Ode", group)) == ["Cem"]


@pytest.mark.parametrize(
    ("text", "value"),
    [("100", 100), ("100,00", 100), ("12.5", 12.5), ("1.000,00", 1000), ("1,000.50", 1000.5), ("-", None)],
)
def test_numbers_of_any_language(text, value):
    assert number(text) == value


def test_what_separates_columns():
    assert [read_table(t)[1] for t in ("a,b;c,d\n", "a;b,c;d;e\n", "a\tb\tc,d\n")] == [",", ";", "\t"]
