"""Ranks as processes: right results over gloo and NCCL, and an end to ranks that hang or fail."""

import time

import pytest
import torch

from labutils.lessons import distributed
from labutils.lessons.distributed import RanksFailed, run

SIZES = {"sizes": [4 * 5, 4 * 1001]}


def ring(rank, world, x, comm):
    chunks = x.tensor_split(world)
    for step in range(2 * (world - 1)):
        mine, theirs = chunks[(rank - step) % world], chunks[(rank - step - 1) % world]
        buffer = torch.empty_like(theirs)
        comm.exchange(mine, (rank + 1) % world, buffer, (rank - 1) % world).wait()
        theirs.copy_(theirs + buffer if step < world - 1 else buffer)


def wrong(rank, world, x, comm):
    x *= world


def hangs(rank, world, x, comm):
    if rank == 0:
        while True:
            pass


def fails(rank, world, x, comm):
    if rank == 1:
        raise ValueError("chunk 7 does not exist")


def shard(w_up, b_up, w_down, b_down, rank, world):
    return w_up.chunk(world, 1)[rank], b_up.chunk(world)[rank], w_down.chunk(world)[rank], b_down


def mlp(x, part, comm):
    y = torch.relu(x @ part[0] + part[1]) @ part[2]
    comm.all_reduce(y)
    return y + part[3]


def mlp_backward(x, part, dy, comm):
    dx = ((dy @ part[2].T) * (x @ part[0] + part[1] > 0)) @ part[0].T
    comm.all_reduce(dx)
    return (dx,)


MLP = {"shard": shard, "mlp": mlp, "mlp_backward": mlp_backward}


def test_a_ring_of_processes_gives_the_librarys_bits():
    found = run("all_reduces", {"ring_all_reduce": ring}, SIZES, "gloo", 3)
    assert len(found) == 3 and all(row["right"] for own in found for row in own["rows"])
    assert found[0]["gbs"] > 0 and all(row["ring_us"] > 0 and row["library_us"] > 0 for row in found[0]["rows"])


def test_a_wrong_result_is_reported():
    found = run("all_reduces", {"ring_all_reduce": wrong}, SIZES, "gloo", 2)
    assert [row["right"] for row in found[0]["rows"]] == [False, False]


def test_a_rank_that_hangs_is_ended():
    begin = time.monotonic()
    with pytest.raises(RanksFailed, match="did not return within 12 s: does each send meet a receive"):
        run("all_reduces", {"ring_all_reduce": hangs}, SIZES, "gloo", 2, seconds=12)
    assert time.monotonic() - begin < 40


def test_a_rank_that_fails_says_why():
    with pytest.raises(RanksFailed, match="rank 1 failed: ValueError: chunk 7 does not exist"):
        run("all_reduces", {"ring_all_reduce": fails}, SIZES, "gloo", 2)


def test_a_function_without_a_text_is_refused():
    with pytest.raises(RanksFailed, match="is not a function"):
        run("all_reduces", {"ring_all_reduce": print}, SIZES, "gloo", 2)


def test_the_split_mlp_is_the_whole_one():
    found = run("mlp_step", MLP, {"tokens": 8, "width": 16, "hidden": 64}, "gloo", 2)
    assert max(own["error"] for own in found) < 1e-5


def test_a_notebook_prints_why_there_are_no_times(monkeypatch, capsys):
    monkeypatch.setattr(distributed, "backend_and_world", lambda: ("gloo", 2))
    distributed.race(fails, lambda *_: (0.0, 0.0))
    assert capsys.readouterr().out == "No times: rank 1 failed: ValueError: chunk 7 does not exist\n"


@pytest.mark.gpu
@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
def test_a_ring_over_nccl_gives_the_librarys_bits_and_the_split_mlp_is_the_whole_one():
    world = min(torch.cuda.device_count(), 8)
    found = run("all_reduces", {"ring_all_reduce": ring}, {"sizes": [20, 4 * 1001, 1 << 24]}, "nccl", world)
    assert all(row["right"] for own in found for row in own["rows"])
    found = run("mlp_step", MLP, {"tokens": 256, "width": 512, "hidden": 2048}, "nccl", 2)
    assert max(own["error"] for own in found) < 1e-4
