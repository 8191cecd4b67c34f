"""Functions on simulated ranks: the same run every time, errors and endless waits that end."""

import threading

import pytest
import torch

from labutils.gpu.links import BadLog, Mismatch
from labutils.gpu.simulated_comm import POISON, replay, run


def shift(rank, comm):
    """Each rank gets the number of the previous one."""
    buffer = torch.empty(1, dtype=torch.int64)
    work = comm.exchange(torch.tensor([rank]), (rank + 1) % comm.world, buffer, (rank - 1) % comm.world)
    before = buffer.tolist()
    work.wait()
    return [before, buffer.tolist()]


def test_a_buffer_is_poison_until_its_message_is_waited_for():
    outcome = run(shift, 4)
    assert outcome["results"] == [[[POISON], [(rank - 1) % 4]] for rank in range(4)]
    assert outcome == run(shift, 4)


def test_the_replay_of_a_log_is_the_run():
    report = replay(run(shift, 4), gbs=1.0, latency_us=2.0)
    assert len(report.messages) == 4 and report.finish == pytest.approx(2.004)


def test_send_recv_and_collectives_move_values_into_slices():
    def work(rank, comm):
        x = torch.full((4,), rank, dtype=torch.int64)
        comm.send(x[:2], 1) if rank == 0 else comm.recv(x[2:], 0)
        comm.all_reduce(x[:1])
        return [x.tolist(), [piece.tolist() for piece in comm.all_gather(x[1:2])]]

    assert run(work, 2)["results"] == [[[1, 0, 0, 0], [[0], [1]]], [[1, 1, 0, 0], [[0], [1]]]]


def test_ranks_that_wait_forever_end_without_a_result_and_without_a_thread():
    before = threading.active_count()

    def work(rank, comm):
        if rank < 2:
            comm.send(torch.tensor([1]), 1 - rank)
        return rank

    outcome = run(work, 3)
    assert outcome["results"] == [None, None, 2]
    assert replay(outcome).cycle() == [0, 1]
    assert threading.active_count() == before


def test_an_error_of_a_rank_is_raised_here_and_the_others_end():
    before = threading.active_count()

    def work(rank, comm):
        if rank == 1:
            raise ValueError("rank 1 fails")
        comm.recv(torch.empty(1), 1)

    with pytest.raises(ValueError, match="rank 1 fails"):
        run(work, 2)
    assert threading.active_count() == before


def test_a_tensor_must_not_change_while_it_is_sent():
    def work(rank, comm):
        x, buffer = torch.zeros(2, dtype=torch.int64), torch.empty(2, dtype=torch.int64)
        exchange = comm.exchange(x, 1 - rank, buffer, 1 - rank)
        x += 1
        exchange.wait()

    with pytest.raises(RuntimeError, match="changed while exchange"):
        run(work, 2)


def test_a_second_wait_changes_nothing():
    def work(rank, comm):
        x, buffer = torch.tensor([rank]), torch.empty(1, dtype=torch.int64)
        exchange = comm.exchange(x, 1 - rank, buffer, 1 - rank)
        exchange.wait()
        x += buffer
        buffer += 5
        exchange.wait()
        return [x.item(), buffer.item()]

    outcome = run(work, 2)
    assert outcome["results"] == [[1, 6], [1, 5]]
    assert [len(calls) for calls in outcome["log"]] == [2, 2]


def test_a_mismatch_is_an_outcome_and_raised_by_the_replay():
    def work(rank, comm):
        x = torch.zeros(2 + rank, dtype=torch.int64)
        comm.exchange(x, 1 - rank, torch.empty_like(x), 1 - rank).wait()

    outcome = run(work, 2)
    assert set(outcome) == {"mismatch"}
    with pytest.raises(Mismatch, match="sends 3 elements to rank 0, which receives 2|sends 2 elements to rank 1"):
        replay(outcome)


@pytest.mark.parametrize("outcome", [None, [], {"log": []}, {"mismatch": "one"}, {"mismatch": [1, 2]}])
def test_what_is_no_outcome_is_refused(outcome):
    with pytest.raises(BadLog):
        replay(outcome)
