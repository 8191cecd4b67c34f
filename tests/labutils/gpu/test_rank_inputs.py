"""Inputs of unit 23: sums that name their ranks, weights whose pieces cannot be confused."""

from labutils.gpu.rank_inputs import BASE, inputs, vectors, weights


def test_a_sum_over_any_ranks_fits_and_names_them():
    xs = vectors(8, 40)
    assert max(sum(values) for values in zip(*xs, strict=True)) * (BASE - 1) < 2**63
    sums = {sum(xs[r][4] for r in range(8) if chosen >> r & 1) for chosen in range(256)}
    assert len(sums) == 256


def test_no_two_weights_are_equal():
    values = [v for piece in weights(4, 8) for v in piece.flatten().tolist()]
    assert len(values) == 2 * 4 * 8 + 8 + 4 == len(set(values))
    assert [tuple(piece.shape) for piece in weights(4, 8)] == [(4, 8), (8,), (8, 4), (4,)]


def test_inputs_are_the_same_every_time():
    assert all((a == b).all() for a, b in zip(inputs(3, 4), inputs(3, 4), strict=True))
