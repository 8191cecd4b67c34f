"""Outputs as text: indices at the margin, unwritten elements by name, nothing drawn that is outside."""

import torch

from labutils.check.tables import mismatch_map, side_by_side, table

BAD = torch.zeros(100, 130, dtype=torch.bool)
BAD[:50, 65:] = True
NONE = torch.zeros_like(BAD)


def test_the_first_wrong_elements_are_listed():
    got = torch.arange(13000.0).reshape(100, 130)
    lines = table("out", got, got + 1, BAD).splitlines()
    assert len(lines) == 7 and lines[1].split() == ["out[0,", "65]", "65", "66", "-1"]
    assert lines[-1].strip() == f"… and {50 * 65 - 5} more"


def test_an_unwritten_element_shows_no_number():
    bad = torch.tensor([False, True])
    _, line = table("out", torch.tensor([1.0, 6.5e31]), torch.tensor([1.0, 2.0]), bad, bad).splitlines()
    assert line.split() == ["out[1]", "not", "written", "2"]


def test_the_map_of_a_matrix_has_the_index_of_each_line():
    head, *rows = mismatch_map("out", BAD, NONE).splitlines()
    assert "a character is 9 rows by 3 columns" in head and "not written" not in head
    assert rows[0].split()[:2] == ["out[0,", ":]"] and rows[1].split()[0] == "out[9,"
    assert [set(r.split("] ")[1]) for r in rows[6:]] == [{"."}] * 6


def test_the_map_of_a_vector_ends_where_the_vector_ends():
    bad = torch.zeros(70, dtype=torch.bool)
    bad[60:] = True
    head, first, second = mismatch_map("out", bad, bad).splitlines()
    assert "'_' not written" in head and "'x'" not in head
    assert first == "  out[ 0 …] " + "." * 60 + "____"
    assert second == "  out[64 …] ______"


def test_side_by_side_shows_the_first_rows_of_a_long_array():
    lines = side_by_side([("q", torch.ones(2, 16, 3), None), ("x", torch.ones(40), None)]).splitlines()
    assert len(lines) == 10 and lines[8].strip() == "… and 24 more rows"


def test_side_by_side_marks_what_was_not_written():
    text = side_by_side([("x", torch.tensor([1.0, 2.0]), None), ("n", 3, None),
                         ("out (yours)", torch.tensor([5.0, 9e30]), torch.tensor([False, True]))])  # fmt: skip
    assert "9e+30" not in text and "— was not written" in text and text.splitlines()[1].split() == ["n", "3"]
