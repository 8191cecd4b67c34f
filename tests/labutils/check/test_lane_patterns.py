"""Where lanes go, in words: the distance and the banks that are named are those of the offsets."""

from labutils.check import lane_patterns as lanes

ALL = 0xFFFFFFFF


def test_cost_counts_sectors_and_words_of_a_bank():
    assert lanes.cost("x", 4, 0, [4 * k for k in range(32)]) == 4
    assert lanes.cost("x", 4, 4, [4 * k for k in range(32)]) == 5
    assert lanes.cost("shared", 4, 0, [4 * 33 * k for k in range(32)]) == 1
    assert lanes.cost("shared", 4, 0, [4 * 66 * k for k in range(32)]) == 2


def test_the_distance_between_neighbors_is_named():
    text = lanes.of_memory(ALL, 0, [16 * k for k in range(32)], 4)
    assert "16 bytes apart" in text and "4 elements" in text and "element 4·k" in text
    text = lanes.of_memory(ALL, 0, [512 * k for k in range(32)], 4)
    assert "128 elements" in text and "last dimension" in text


def test_contiguous_lanes_that_begin_inside_a_sector():
    assert "4 bytes into a sector" in lanes.of_memory(ALL, 32, [4 + 4 * k for k in range(32)], 4)


def test_the_lanes_of_one_bank_are_named():
    text = lanes.of_banks(ALL, [4 * 66 * k for k in range(32)], 4)
    assert (
        "66 mod 32 = 2" in text and "16 of 32 banks" in text and "lanes 0, 16 go to 2 different words of bank 0" in text
    )
    swizzled = [4 * (64 * k + (5 ^ (k & 7))) for k in range(32)]
    assert "8 of 32 banks" in lanes.of_banks(ALL, swizzled, 4) and "lanes 0, 8, 16, 24" in lanes.of_banks(
        ALL, swizzled, 4
    )
    assert lanes.of_banks(ALL, [4 * k for k in range(32)], 4) == ""


def test_the_parts_of_a_warp_are_named():
    assert "Lanes 0, 2, 4, 6, … of a warp go on without lanes 1, 3, 5, 7, …" in lanes.of_mask(0x55555555)
    assert "Lane 0 of a warp goes on" in lanes.of_mask(1)
    assert lanes.split(1) and not lanes.split(ALL)


def test_narrow_accesses_are_to_be_widened_and_lone_ones_joined():
    assert "8 neighboring elements" in lanes.of_width(2, 32) and "Try: let whole warps" in lanes.of_width(16, 8)
