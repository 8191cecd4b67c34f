"""Every planted bug is found: the right kind, on a line marked BUG, and where it says so on the right array element.

The first line of a file in bugs/ says `expect: KIND [ARRAY [INDEX]]`.
"""

import os
from pathlib import Path

import pytest
import torch
from torch import int32, randint, randn

from labutils.backends import simt

BUGS = Path(__file__).parent / "bugs"
FIRST_FATAL = {"out-of-bounds", "misaligned", "deadlock", "endless-loop", "stack-overflow", "crash", "assert"}


def f(n):
    return randn(n)


def i(n, below=8):
    return randint(0, below, (n,), dtype=int32)


# grid, block, shared bytes, arguments
LAUNCHES = {
    "barrier_missing": lambda: (1, 256, 0, f(256), f(256)),
    "barrier_missing_in_loop": lambda: (1, (16, 16), 0, f(16 * 64), f(256), 64),
    "barrier_missing_in_reduction": lambda: (1, 256, 0, f(256), f(1)),
    "barrier_missing_after_broadcast": lambda: (1, 128, 0, f(128), f(128)),
    "barrier_missing_global": lambda: (1, 64, 0, f(128)),
    "syncwarp_missing": lambda: (1, 32, 0, f(64), f(32)),
    "syncwarp_missing_exchange": lambda: (1, 32, 0, f(32), f(32)),
    "syncwarp_wrong_half": lambda: (1, 32, 0, f(32), f(32)),
    "no_bounds_check": lambda: (4, 256, 0, f(1000), f(1000), 1000),
    "off_by_one": lambda: (5, 256, 0, f(1000), f(1000), 1000),
    "negative_index": lambda: (4, 256, 0, f(1000), f(1000), 1000),
    "store_outside": lambda: (4, 256, 0, f(1000), f(1000), 1000),
    "float4_tail": lambda: (1, 256, 0, f(998), f(256), 998),
    "ldmatrix_misaligned": lambda: (1, 32, 0, f(512).half(), i(128)),
    "ldmatrix_no_syncwarp": lambda: (1, 32, 0, f(512).half(), i(128)),
    "float4_misaligned": lambda: (1, 32, 0, f(256), f(256), 256),
    "null_pointer": lambda: (1, 32, 0, f(32), f(32), 32),
    "shared_outside": lambda: (1, 128, 0, f(128), f(128)),
    "shared_row_outside": lambda: (1, 16, 0, f(256), f(16)),
    "shared_pointer_outside": lambda: (1, 128, 0, f(128), f(128)),
    "dynamic_outside": lambda: (1, 128, 256, f(128), f(128)),
    "constant_outside": lambda: (1, 32, 0, f(64), f(32)),
    "constant_written": lambda: (1, 4, 0, f(4), f(4)),
    "device_outside": lambda: (1, 32, 0, i(32), 3),
    "local_outside": lambda: (1, 32, 0, f(32), f(32), 6),
    "padding_touched": lambda: (1, 64, 0, f(64), f(64)),
    "shared_uninitialized": lambda: (1, 128, 0, f(100), f(1), 100),
    "counter_uninitialized": lambda: (1, 32, 0, f(32), f(32)),
    "barrier_in_branches": lambda: (1, 128, 0, f(128), f(128)),
    "barrier_after_return": lambda: (1, 128, 0, f(128), f(128), 100),
    "barrier_in_ragged_loop": lambda: (1, 64, 0, f(100), f(100), 100),
    "shuffle_in_branch": lambda: (1, 32, 0, f(32), f(32)),
    "barrier_against_shuffle": lambda: (1, 32, 0, f(32), f(32)),
    "shuffle_mask_without_caller": lambda: (1, 32, 0, f(32), f(32)),
    "shuffle_after_return": lambda: (1, 32, 0, f(32), f(1), 20),
    "shuffle_masks_differ": lambda: (1, 32, 0, f(32), f(32)),
    "lost_update": lambda: (1, 128, 0, i(128), i(8), 128),
    "lost_update_shared": lambda: (1, 64, 0, f(64), f(64)),
    "lost_update_between_blocks": lambda: (4, 32, 0, f(128), f(1), 128),
    "in_place_stencil": lambda: (4, 64, 0, f(256), 256),
    "overlapping_output": lambda: (3, 64, 0, f(64), f(64)),
    "plain_and_atomic": lambda: (1, 64, 0, i(1)),
    "last_block_without_fence": lambda: (4, 32, 0, f(4), f(4), f(1)),
    "endless_loop": lambda: (1, 32, 0, f(256), 256),
    "endless_arithmetic": lambda: (1, 32, 0, i(32), 63),
    "endless_emptied": lambda: (1, 32, 0, f(32), 5),
    "endless_lock": lambda: (1, 32, 0, f(1)),
    "deep_recursion": lambda: (1, 32, 0, f(1), f(32), 5000),
    "deep_frames": lambda: (1, 64, 0, f(1), f(64), 30),
    "divide_by_zero": lambda: (1, 32, 0, i(32, 4), 2),
    "assertion": lambda: (1, 32, 0, -f(32).abs(), f(32)),
    "grid_sync_skipped": lambda: (3, 32, 0, f(3)),
    "grid_sync_missing": lambda: (3, 1, 0, f(3)),
    "tile_sync_too_small": lambda: (1, 32, 0, f(32), f(32)),
}


def launch(name, checked=True, **options):
    torch.manual_seed(0)
    source = (BUGS / f"{name}.cu").read_text()
    grid, block, shared_bytes, *arguments = LAUNCHES[name]()
    kernel = simt.compile(source, [name], checked=checked).kernels[name]
    arrays, values, keep = {}, [], []
    for parameter, a in zip(kernel.parameters, arguments, strict=True):
        if isinstance(a, torch.Tensor):
            # in the middle of a larger storage, which is no array of the launch
            storage = torch.zeros(a.numel() + 96, dtype=a.dtype)
            start = 32 + (-(storage.data_ptr() // 4) % 8)
            storage[start : start + a.numel()] = a
            inside = None
            if name == "padding_touched" and parameter.name == "x":
                inside = bytes([1] * 30 + [0] * 2) * 2
            address = storage.data_ptr() + 4 * start
            arrays[parameter.name] = simt.MemoryRange(address, a.numel(), 4, inside)
            keep.append(storage)
            a = address
        values.append(a)
    return source, kernel.launch(
        grid, block, shared_bytes, values, arrays=arrays, checked=checked, time_limit=1.0, **options
    )


def check(name, **options):
    source, result = launch(name, **options)
    kind, array, index, *_ = [*source.split("\n", 1)[0].removeprefix("// expect: ").split(), None, None]
    marked = {n for n, line in enumerate(source.splitlines(), 1) if "// BUG" in line}
    found = [str(x) for x in result.findings]
    hits = [x for x in result.findings if x.kind == kind]
    assert hits, found
    hit = hits[0]
    assert hit.line in marked, found
    assert hit.other_line in marked | {0}, found
    if array:
        assert hit.array == array, found
    if index:
        assert hit.index == int(index), found
    assert hit.advice and hit.message
    assert all(x.line in marked for x in result.findings), found
    if kind in FIRST_FATAL:
        assert hit.fatal
    return result


@pytest.mark.parametrize("name", sorted(LAUNCHES))
def test_bug_is_found(name):
    check(name)


def test_every_bug_has_a_launch():
    assert sorted(LAUNCHES) == sorted(p.stem for p in BUGS.glob("*.cu"))


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("name", ["barrier_missing", "syncwarp_missing", "lost_update", "shuffle_in_branch"])
def test_bug_is_found_in_other_orders(name, seed):
    check(name, seed=seed)


@pytest.mark.parametrize("name", ["no_bounds_check", "barrier_missing", "lost_update_between_blocks", "deep_recursion"])
def test_findings_repeat(name):
    assert [str(x) for x in launch(name)[1].findings] == [str(x) for x in launch(name)[1].findings]


@pytest.mark.parametrize(
    "name",
    ["endless_arithmetic", "endless_loop", "endless_lock", "shuffle_in_branch", "shuffle_mask_without_caller",
     "deep_recursion", "divide_by_zero", "assertion", "null_pointer"],
)  # fmt: skip
def test_fast_launch_ends_too(name):
    """A fast launch checks no access, but comes back from all that would hang or kill it."""
    _, result = launch(name, checked=False)
    expected = (BUGS / f"{name}.cu").read_text().split()[2]
    assert result.findings[0].kind == {"out-of-bounds": "crash"}.get(expected, expected)


def test_out_of_bounds_stops_before_the_access():
    storage = torch.full((64,), 7.0)
    kernel = simt.compile("__global__ void k(float* x) { x[threadIdx.x] = 1; }").kernels["k"]
    result = kernel.launch(1, 32, 0, [storage.data_ptr()], arrays={"x": simt.MemoryRange(storage.data_ptr(), 20, 4)})
    assert result.findings[0].index == 20
    assert (storage[:20] == 1).all() and (storage[20:] == 7).all()


def test_messages_name_block_thread_element_and_line():
    _, result = launch("no_bounds_check")
    assert str(result.findings[0]) == (
        "out-of-bounds: line 4: block 3, thread 232 reads x[1000], outside the array of 1000 elements. "
        "Guard the access with a test of the index against the array's length."
    )
    _, result = launch("barrier_missing_in_loop")
    assert "As[" in result.findings[0].message and "thread (" in result.findings[0].message


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(LAUNCHES))
def test_bug_is_found_with_clang(name, clang):
    assert os.environ["CXX"] == "clang++"
    check(name)
