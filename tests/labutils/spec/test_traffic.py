"""Bytes requested, sectors moved, and sectors that were needed."""

import pytest

from labutils.spec import traffic

FULL = {"global_load_sectors": 4, "global_load_bytes": 128}
STRIDED = {"global_store_sectors": 32, "global_store_bytes": 128}
BROADCAST = {"global_load_sectors": 1, "global_load_bytes": 128}
REDUCTION = {
    **{f"global_{kind}_sectors": 4 for kind in ("atomic", "reduction")},
    **{f"global_{kind}_bytes": 128 for kind in ("atomic", "reduction")},
}
ATOMIC = {"global_atomic_sectors": 32, "global_atomic_bytes": 128}


@pytest.mark.parametrize(
    ("lines", "sectors", "needed"),
    [
        ([FULL], 4, 4),
        ([FULL, STRIDED], 36, 8),  # a store counts, too
        ([BROADCAST, STRIDED], 33, 5),  # a line that needs less makes up for no other line
        ([REDUCTION], 4, 4),
        ([ATOMIC], 64, 8),  # there and back
        ([], 0, 0),
    ],
)
def test_sectors_that_could_not_be_left_out(lines, sectors, needed):
    whole: dict = {}
    for line in lines:
        for name, count in line.items():
            whole[name] = whole.get(name, 0) + count
    assert (traffic.sectors(whole), traffic.needed(lines, whole)) == (sectors, needed)
    assert traffic.in_sectors(whole) == 32 * sectors


def test_bulk_copies_move_only_what_is_needed():
    whole = {"tma_load_bytes": 8192, "load_bytes": 8192}
    assert traffic.sectors(whole) == traffic.needed([], whole) == 256 and traffic.requested(whole) == 8192
