"""Unit 23: formulas beside a simulation, the split MLP beside autograd, and what the checks say."""

import pytest
import torch

from labutils.exercises import get, many_gpus, tensor_parallel
from labutils.gpu.rank_inputs import inputs, vectors, weights
from labutils.gpu.simulated_comm import run
from labutils.lessons import ranks

RING = get("23_many_gpus/ring_all_reduce")
MLP = get("23_many_gpus/mlp")


def ring(rank, world, x, comm):
    """As in the notebook."""
    chunks = x.tensor_split(world)
    for step in range(2 * (world - 1)):
        mine, theirs = chunks[(rank - step) % world], chunks[(rank - step - 1) % world]
        buffer = torch.empty_like(theirs)
        comm.exchange(mine, (rank + 1) % world, buffer, (rank - 1) % world).wait()
        theirs.copy_(theirs + buffer if step < world - 1 else buffer)


def problem(function, world=4, n=16):
    sizes = {"world": world, "n": n}
    return RING.examine(sizes, sizes, ranks.all_reduce(function, world, n))


@pytest.mark.parametrize("world, n", [(2, 8), (4, 16), (8, 64), (3, 30)])
def test_the_simulated_ring_takes_the_predicted_time(world, n):
    from labutils.gpu.simulated_comm import replay

    report = replay(ranks.all_reduce(ring, world, n), gbs=1.0, latency_us=2.0)
    assert report.finish == pytest.approx(many_gpus.all_reduce_us(4 * n, world, 2.0, 2.0)[0])


@pytest.mark.parametrize("world, n", [(1, 5), (2, 1), (8, 3), (3, 10), (7, 40)])
def test_a_ring_of_any_size_passes(world, n):
    assert problem(ring, world, n) is None


def test_every_wrong_sum_of_ranks_is_decoded():
    xs = vectors(3, 4)
    assert many_gpus._contributions(xs[0][2] + 2 * xs[2][2], 2, 3) == [1, 0, 2]
    assert many_gpus._contributions(xs[0][2] + 1, 2, 3) is None


def test_the_links_are_counted():
    def around_both_ways(rank, world, x, comm):
        ring(rank, world, x, comm)
        comm.exchange(x[:1], (rank - 1) % world, torch.empty(1, dtype=x.dtype), (rank + 1) % world).wait()

    symptom, advice = problem(around_both_ways)
    assert "rank 0 sends 25 elements; 6 chunks of 4 are 24" in symptom and "one chunk in a step" in advice


def test_a_deadlock_names_its_ranks():
    def send_first(rank, world, x, comm):
        comm.send(x, (rank + 1) % world)
        comm.recv(x, (rank - 1) % world)

    symptom, advice = problem(send_first)
    assert symptom == "deadlock: ranks 0 → 1 → 2 → 3 → 0 wait for each other" and "rank 0 in send(to=1)" in advice


def test_a_forged_result_is_refused():
    outcome = ranks.all_reduce(ring, 4, 16)
    sizes = {"world": 4, "n": 16}
    assert RING.examine(sizes, sizes, outcome) is None
    for results in (None, [], outcome["results"][:3], [[1.5] * 16] * 4, [None] * 4):
        assert RING.examine(sizes, sizes, outcome | {"results": results}) is not None


@pytest.mark.parametrize("gpus", [1, 2, 3, 8, 72])
def test_a_ring_never_moves_more_than_twice_the_buffer(gpus):
    ring_us, tree_us = many_gpus.all_reduce_us(10**9, gpus, 900.0, 0.0)
    assert ring_us <= 2 * 10**9 / 450e3 and (gpus == 1 or ring_us <= tree_us)


# --- the split MLP -------------------------------------------------------------------------------------------------


def test_gradients_are_those_of_autograd():
    whole = [w.double().requires_grad_() for w in weights(6, 12)]
    x, dy = (v.double() for v in inputs(5, 6))
    x.requires_grad_()
    y = tensor_parallel.forward(x, *whole)
    expected = torch.autograd.grad(y, [x, *whole], dy)
    found = tensor_parallel.backward(x, *whole, dy)
    for value, right in zip(found.values(), expected, strict=True):
        torch.testing.assert_close(value, right)


def test_pieces_of_all_ranks_are_the_whole():
    whole = weights(4, 12)
    pieces = [tensor_parallel.shard(*whole, rank, 3) for rank in range(3)]
    assert torch.equal(torch.cat([p[0] for p in pieces], 1), whole[0])
    assert torch.equal(torch.cat([p[2] for p in pieces]), whole[2])


def test_every_explained_mistake_differs_from_the_right_result():
    whole, (x, dy) = weights(4, 8), inputs(3, 4)
    y = tensor_parallel.forward(x, *whole)
    assert all(not torch.equal(wrong, y) for wrong, _ in tensor_parallel._output_mistakes(x, 2, whole, 0))
    full = tensor_parallel.backward(x, *whole, dy)
    own = tensor_parallel.backward(x, *tensor_parallel.shard(*whole, 0, 2), dy) | {"dx": full["dx"]}
    for name in tensor_parallel.GRADIENTS:
        for wrong, text in tensor_parallel._gradient_mistakes(name, x, dy, 2, whole, 0):
            assert not torch.equal(wrong, own[name]), text


def test_a_collective_too_many_is_counted():
    def forward(x, part, comm):
        y = torch.relu(x @ part[0] + part[1]) @ part[2]
        comm.all_reduce(y)
        comm.all_gather(y)
        return y + part[3]

    def backward(x, part, dy, comm):
        found = tensor_parallel.backward(x, *part, dy)
        comm.all_reduce(found["dx"])
        return tuple(found.values())

    sizes = {"tokens": 3, "width": 4, "hidden": 8, "world": 2}
    outcome = ranks.mlp(tensor_parallel.shard, forward, backward, **sizes)
    assert MLP.examine(sizes, sizes, outcome)[0].startswith("forward: 2 collectives, with an all_gather")
    right = ranks.mlp(tensor_parallel.shard, lambda x, part, comm: reduced(x, part, comm), backward, **sizes)
    assert MLP.examine(sizes, sizes, right) is None


def reduced(x, part, comm):
    y = torch.relu(x @ part[0] + part[1]) @ part[2]
    comm.all_reduce(y)
    return y + part[3]


def test_a_run_without_data_between_ranks_has_an_empty_log():
    assert run(lambda rank, comm: rank, 2) == {"log": [[], []], "results": [0, 1]}
