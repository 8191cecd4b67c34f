"""The picture of unit 10's trees: the threads that it marks are those that the kernels let add."""

from labutils.lessons import trees


def warps(way: str, s: int) -> int:
    return len({t // 32 for t in range(64) if trees.WAYS[way](t, s)})


def test_both_trees_add_as_many_times_and_the_second_in_one_warp():
    first, second = trees.WAYS
    for s in (1, 2, 4, 8, 16, 32):
        assert sum(trees.WAYS[first](t, s) for t in range(64)) == sum(trees.WAYS[second](t, s) for t in range(64))
    assert [warps(first, s) for s in (1, 16, 32)] == [2, 2, 1]
    assert [warps(second, s) for s in (1, 16, 32)] == [1, 1, 1]


def test_the_picture_has_a_row_for_each_tree():
    fig = trees.who_adds()
    assert [axis.get_title() for axis in fig.axes] == list(trees.WAYS)
    assert fig.alt.startswith("V1: both warps")
