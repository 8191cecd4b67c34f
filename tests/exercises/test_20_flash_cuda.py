"""Unit 20: who holds what agrees with the emulator, the tables, the picture; wrong answers that look alike."""

import torch

from labutils.exercises import get
from labutils.lessons import fragments


def test_who_holds_what_covers_each_matrix_once():
    for name, (rows, columns) in fragments.SHAPES.items():
        cells = [cell for lane in range(32) for cell in fragments.holds(name, lane)]
        assert sorted(cells) == [(i, j) for i in range(rows) for j in range(columns)]


def test_the_graded_formulas_are_the_pictures():
    row, column = (get(f"20_flash_cuda/{n}").reference for n in ("row_of", "column_of"))
    for lane in range(32):
        assert fragments.holds("d", lane) == [(row(lane, i), column(lane, i)) for i in range(4)]


def test_the_picture_says_what_it_shows():
    explorer = fragments.explorer()
    assert "Lane 6 holds" in explorer.figure().alt and "of d (1, 4), (1, 5), (9, 4), (9, 5)" in explorer.figure().alt
    explorer.set(lane=31)
    assert "Lane 31 holds" in explorer.figure().alt


def test_a_single_key_gives_no_wrong_answer_away():
    q, k, v = (torch.randn(1, n, 64, dtype=torch.float64) for n in (3, 1, 1))
    exercise = get("20_flash_cuda/tensor")
    right = exercise.reference(q, k, v)
    for mistake in exercise.known_mistakes:
        for name, wrong in exercise.expected(dict(q=q, k=k, v=v)).items():
            assert wrong.shape == right[name].shape
        if mistake.diagnosis in ("off-by-one", "padded-lanes"):
            torch.testing.assert_close(mistake.compute(q, k, v)["out"], right["out"])
