"""The order of programs, waits that end because others run, and what a program may see that is old."""

import numpy as np
import pytest
import torch

import labutils  # noqa: F401  (before triton: its interpreter)

triton = pytest.importorskip("triton")
tl = triton.language

from labutils.backends import errors, hooks, interpreter, turns  # noqa: E402
from labutils.backends.access import WAVE, Recorder  # noqa: E402

if not hooks.interpreting():
    pytest.skip("Triton's interpreter is off where there is a GPU", allow_module_level=True)
interpreter.require()


@pytest.mark.parametrize("total", [1, 15, 16, 100])
def test_every_program_has_its_turn_and_waves_stay_together(total):
    order = turns.drawn_order(total, 5)
    assert sorted(order) == list(range(total))
    waves = order // WAVE
    assert (np.diff(waves) != 0).sum() == len(set(waves)) - 1
    assert (order.tolist() == list(range(total))) == (total == 1)
    assert turns.drawn_order(total, 0).tolist() == list(range(total))


def launch(kernel, grid, *tensors, order=3, **more):
    recorder = Recorder()
    for name, t in zip("abcdef", tensors, strict=False):
        recorder.track(name, t.data_ptr(), t.element_size(), np.ones(t.numel(), bool))
    with hooks.recording(recorder, order=order):
        kernel[grid](*tensors, **more)
    return recorder


def kinds(recorder):
    return {f.kind for f in recorder.findings}


@triton.jit
def turn_kernel(count_ptr, out_ptr):
    pid = (tl.program_id(0) * tl.num_programs(1) + tl.program_id(1)) * tl.num_programs(2) + tl.program_id(2)
    tl.store(out_ptr + pid, tl.atomic_add(count_ptr, 1))


def test_programs_run_in_the_drawn_order():
    count, out = torch.zeros(1, dtype=torch.int32), torch.zeros(24, dtype=torch.int32)
    recorder = launch(turn_kernel, (2, 3, 4), count, out)
    assert not recorder.findings and recorder.counts.programs == 24
    assert np.argsort(out.numpy()).tolist() == turns.drawn_order(24, 3).tolist()


@triton.jit
def look_back_kernel(flags_ptr, sums_ptr):
    pid = tl.program_id(0)
    before = 0
    if pid > 0:
        while tl.atomic_add(flags_ptr + pid - 1, 0) == 0:
            pass
        before = tl.load(sums_ptr + pid - 1)
    tl.store(sums_ptr + pid, before + pid)
    tl.atomic_xchg(flags_ptr + pid, 1)


@pytest.mark.parametrize("order", [0, 3, 4])
def test_a_wait_ends_because_the_other_program_runs(order):
    flags, sums = torch.zeros(40, dtype=torch.int32), torch.zeros(40, dtype=torch.int32)
    recorder = launch(look_back_kernel, (40,), flags, sums, order=order)
    assert not recorder.findings and torch.equal(sums.long(), torch.arange(40).cumsum(0))


@triton.jit
def all_meet_kernel(count_ptr, parts_ptr, out_ptr, n):
    pid = tl.program_id(0)
    tl.store(parts_ptr + pid, pid)
    tl.atomic_add(count_ptr, 1)
    while tl.atomic_add(count_ptr, 0) < n:
        pass
    offs = tl.arange(0, 16)
    tl.store(out_ptr + pid, tl.sum(tl.load(parts_ptr + offs, mask=offs < n, other=0)))


def test_all_programs_can_meet():
    count, parts, out = (torch.zeros(16, dtype=torch.int32) for _ in range(3))
    recorder = launch(all_meet_kernel, (12,), count, parts, out, n=12)
    assert not recorder.findings and (out[:12] == 66).all()


def test_a_wait_for_nobody_is_a_deadlock():
    count, parts, out = (torch.zeros(16, dtype=torch.int32) for _ in range(3))
    with pytest.raises(Exception) as caught:  # noqa: B017 (Triton wraps it in one of its own)
        launch(all_meet_kernel, (3,), count, parts, out, n=4)
    problem = errors.explain(caught.value)
    assert problem.kind == "timeout" and "no other program" in problem.message and problem.line


@triton.jit
def critical_kernel(flag_ptr, out_ptr, TAKE: tl.constexpr, GIVE: tl.constexpr, WAITS: tl.constexpr):
    if WAITS:
        while tl.atomic_cas(flag_ptr, 0, 1, sem=TAKE) != 0:
            pass
    else:
        tl.atomic_add(flag_ptr, 0, sem=TAKE)
    tl.store(out_ptr, tl.load(out_ptr) + 1)
    tl.atomic_xchg(flag_ptr, 0, sem=GIVE) if WAITS else tl.atomic_add(flag_ptr, 1, sem=GIVE)


@pytest.mark.parametrize(
    "take, give, waits, found",
    [
        ("acquire", "release", True, set()),
        ("acq_rel", "acq_rel", True, set()),
        ("relaxed", "release", True, {"race"}),
        ("acquire", "relaxed", True, {"race"}),
        ("acquire", "release", False, {"race"}),
    ],
)
def test_a_lock_orders_by_its_semantics_and_only_who_waits(take, give, waits, found):
    flag, out = torch.zeros(1, dtype=torch.int32), torch.zeros(1, dtype=torch.int32)
    assert kinds(launch(critical_kernel, (4,), flag, out, TAKE=take, GIVE=give, WAITS=waits)) == found


@triton.jit
def last_stores_kernel(sums_ptr, count_ptr, out_ptr, ADD: tl.constexpr, COUNT: tl.constexpr, EARLY: tl.constexpr):
    offs = tl.arange(0, 128)
    ticket = 0
    if EARLY:
        ticket = tl.atomic_add(count_ptr, 1, sem=COUNT)
    tl.atomic_add(sums_ptr + offs, offs + 1, sem=ADD)
    tl.debug_barrier()  # one thread counts, for all that have added
    if not EARLY:
        ticket = tl.atomic_add(count_ptr, 1, sem=COUNT)
    if ticket == tl.num_programs(0) - 1:
        tl.store(out_ptr + offs, tl.load(sums_ptr + offs))


@pytest.mark.parametrize("add", ["relaxed", "acq_rel"])
@pytest.mark.parametrize("count, early, found", [("acq_rel", False, set()), ("relaxed", False, {"race"}),
                                                 ("acq_rel", True, {"race"})])  # fmt: skip
def test_the_last_program_reads_what_came_before_the_others_count(add, count, early, found):
    """An atomic orders what comes before it, if its value is looked at: additions may come in any order."""
    tensors = [torch.zeros(128, dtype=torch.int32) for _ in range(3)]
    assert kinds(launch(last_stores_kernel, (5,), *tensors, ADD=add, COUNT=count, EARLY=early)) == found
    assert torch.equal(tensors[2], 5 * torch.arange(1, 129, dtype=torch.int32))


@triton.jit
def counted_wait_kernel(ticket_ptr, count_ptr, parts_ptr, out_ptr, n, ADD: tl.constexpr, MAX: tl.constexpr):
    """Half of the programs store a part each, the others wait for all parts."""
    ticket = tl.atomic_add(ticket_ptr, 1)
    offs = tl.arange(0, 16)
    if ticket < n:
        tl.store(parts_ptr + ticket, ticket)
        tl.atomic_add(count_ptr, 1)
    else:
        if MAX >= 0:
            while tl.atomic_max(count_ptr, MAX) < n:
                pass
        else:
            while tl.atomic_add(count_ptr, ADD) < n:
                pass
        tl.store(out_ptr + ticket - n, tl.sum(tl.load(parts_ptr + offs, mask=offs < n, other=0)))


@pytest.mark.parametrize("order", [0, 5])
@pytest.mark.parametrize("add, maximum, found", [(0, -1, set()), (1, -1, {"race"}), (0, 0, set()), (0, 8, {"race"})])
def test_a_wait_that_changes_its_counter_orders_nothing(order, add, maximum, found):
    """The tickets let every counted part come first here; on a GPU the waiting programs may count themselves on."""
    tensors = [torch.zeros(16, dtype=torch.int32) for _ in range(4)]
    assert kinds(launch(counted_wait_kernel, (16,), *tensors, n=8, ADD=add, MAX=maximum, order=order)) == found
    assert tensors[0][0] == 16 and (add or maximum > 0 or tensors[1][0] == 8)


@triton.jit
def look_kernel(flag_ptr, out_ptr, VOLATILE: tl.constexpr):
    pid = tl.program_id(0)
    tl.store(out_ptr + pid, tl.load(flag_ptr, volatile=VOLATILE))
    tl.atomic_add(flag_ptr, 1)


@pytest.mark.parametrize("volatile, found", [(True, set()), (False, {"race"})])
def test_a_plain_load_races_with_an_atomic_and_a_volatile_one_does_not(volatile, found):
    flag, out = torch.zeros(1, dtype=torch.int32), torch.zeros(4, dtype=torch.int32)
    assert kinds(launch(look_kernel, (4,), flag, out, VOLATILE=volatile)) == found


@triton.jit
def two_atomics_kernel(out_ptr):
    tl.atomic_xchg(out_ptr, tl.atomic_add(out_ptr, 0) + 1)


def test_two_atomics_are_not_one():
    out = torch.zeros(1, dtype=torch.int32)
    launch(two_atomics_kernel, (4,), out)
    assert out.item() < 4


@triton.jit
def wide_kernel(x_ptr, y_ptr, first, n, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    wide = tl.load((x_ptr + first + 2 * offs).to(tl.pointer_type(tl.int64)), mask=2 * offs < n, other=0)
    tl.store((y_ptr + 2 * offs).to(tl.pointer_type(tl.int64)), wide, mask=2 * offs < n)


@pytest.mark.parametrize("first, n, found", [(0, 16, set()), (0, 15, {"out-of-bounds"}), (1, 8, {"misaligned"})])
def test_a_wide_access_is_checked_as_a_whole(first, n, found):
    x, y = torch.arange(n + first, dtype=torch.int32), torch.zeros(n, dtype=torch.int32)
    x = x.clone() if x.data_ptr() % 8 == 0 else x
    assert kinds(launch(wide_kernel, (1,), x, y, first=first, n=n, BLOCK=16)) == found
    if not found:
        assert torch.equal(x, y)


@triton.jit
def overlap_kernel(y_ptr):
    pid = tl.program_id(0)
    tl.store((y_ptr + 2 * pid).to(tl.pointer_type(tl.int64)), pid.to(tl.int64) << 32)
    tl.store(y_ptr + (2 * pid + 3) % 8, 7)


def test_a_wide_store_races_with_each_of_its_elements():
    assert kinds(launch(overlap_kernel, (4,), torch.zeros(8, dtype=torch.int32))) == {"race"}


@triton.jit
def tail_kernel(x_ptr, out_ptr, n, USED: tl.constexpr):
    offs = tl.arange(0, 16)
    x = tl.load(x_ptr + offs, mask=offs < n)
    tl.store(out_ptr, tl.sum(x if USED else tl.where(offs < n, x, 0)))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.int32])
def test_masked_lanes_hold_what_shows(dtype):
    x, out = torch.ones(10, dtype=dtype), torch.zeros(1, dtype=dtype)
    launch(tail_kernel, (1,), x, out, n=10, USED=False)
    assert out.item() == 10
    launch(tail_kernel, (1,), x, out, n=10, USED=True)
    assert out.item() != 10


@triton.jit
def crowded_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, BLOCK))
    tl.store(out_ptr + tl.zeros((BLOCK,), tl.int32), tl.cumsum(x, 0))


@pytest.mark.parametrize(("value", "found"), [(1, {"race"}), (0, set())])
def test_lanes_that_store_to_one_place_must_agree(value, found):
    x, out = torch.full((16,), value, dtype=torch.int32), torch.full((1,), -1, dtype=torch.int32)
    assert kinds(launch(crowded_kernel, (1,), x, out, BLOCK=16)) == found


@triton.jit
def shift_kernel(x_ptr, out_ptr, DISTANCE: tl.constexpr, LEFT: tl.constexpr):
    offs = tl.arange(0, 16)
    x = tl.load(x_ptr + offs)
    tl.store(out_ptr + offs, x << DISTANCE if LEFT else x >> DISTANCE)


@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("dtype", [torch.int32, torch.uint8, torch.int64])
def test_a_shift_by_the_width_of_the_type_holds_what_shows(dtype, left):
    x, out, width = torch.ones(16, dtype=dtype), torch.zeros(16, dtype=dtype), 8 * dtype.itemsize
    launch(shift_kernel, (1,), x, out, DISTANCE=width - 2, LEFT=left)
    assert torch.equal(out, torch.full_like(x, 1 << width - 2 if left else 0))
    launch(shift_kernel, (1,), x, out, DISTANCE=width, LEFT=left)
    assert len(out.unique()) > 1
