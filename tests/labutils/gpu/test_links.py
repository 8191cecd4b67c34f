"""Messages between ranks: when they arrive, what is counted, and what never arrives."""

import pytest

from labutils.gpu.links import BadLog, Call, Mismatch, read, simulate


def send(to, *values):
    return Call("send", to=to, values=list(values))


def recv(source, count):
    return Call("recv", source=source, count=count)


def exchange(to, values, source, count, number=0):
    return Call("exchange", to, list(values), source, count, number)


def wait(number=0):
    return Call("wait", number=number)


def reduce(*values):
    return Call("all_reduce", values=list(values))


def test_a_message_takes_latency_and_bytes_over_bandwidth():
    report = simulate([[send(1, *range(250))], [recv(0, 250)]], gbs=1.0, latency_us=2.0)
    assert report.finish == 2.0 + 1.0  # 1000 bytes at 1000 bytes in a microsecond
    assert [(m.source, m.to, m.count) for m in report.messages] == [(0, 1, 250)]
    assert report.calls[1][0].arrived == list(range(250)) and report.deadlock() is None


def test_both_directions_of_a_link_are_used_at_once_and_one_direction_is_not():
    both = [[exchange(1 - r, [r] * 250, 1 - r, 250), wait()] for r in range(2)]
    assert simulate(both, gbs=1.0, latency_us=2.0).finish == 3.0
    twice = [
        [exchange(1, [5] * 250, 1, 0, 0), exchange(1, [6] * 250, 1, 0, 1), wait(0), wait(1)],
        [exchange(0, [], 0, 250, 0), exchange(0, [], 0, 250, 1), wait(0), wait(1)],
    ]
    report = simulate(twice, gbs=1.0, latency_us=2.0)
    assert report.finish == 6.0 and [c.arrived[0] for c in report.calls[1][:2]] == [5, 6]


def test_an_order_without_exchange_takes_turns():
    ring = [[send(1, 0), recv(2, 1)], [recv(0, 1), send(2, 1)], [recv(1, 1), send(0, 2)]]
    assert simulate(ring, gbs=1.0, latency_us=1.0, item=0).finish == 3.0


@pytest.mark.parametrize("world", [2, 3, 8])
def test_a_deadlock_is_named_by_its_cycle(world):
    report = simulate([[send((r + 1) % world, 1), recv((r - 1) % world, 1)] for r in range(world)])
    assert report.cycle() == list(range(world)) and report.messages == []
    symptom, where = report.deadlock()
    assert symptom.startswith("deadlock: ranks 0 → 1") and symptom.endswith("→ 0 wait for each other")
    assert "rank 0 in send(to=1)" in where


def test_a_cycle_of_some_ranks_is_found_behind_others_that_wait_for_it():
    report = simulate([[recv(1, 1)], [recv(2, 1), send(0, 1)], [recv(1, 1)]])
    assert report.stuck == {0: 1, 1: 2, 2: 1} and report.cycle() == [1, 2]


def test_waiting_for_a_rank_that_has_returned_is_no_cycle():
    report = simulate([[recv(1, 1)], []])
    assert report.cycle() == []
    assert report.deadlock()[0] == "rank 0 waits forever in recv(source=1): rank 1 has returned"
    assert "wait() of exchange(1, 1)" in simulate([[exchange(1, [1], 1, 1), wait()], [recv(0, 1)]]).deadlock()[0]


def test_collectives_add_gather_and_wait_for_every_rank():
    report = simulate([[reduce(1, 2)], [reduce(10, 20)], [reduce(100, 200)]])
    assert [calls[0].arrived for calls in report.calls] == [[111, 222]] * 3
    gathered = simulate([[Call("all_gather", values=[r])] for r in range(3)])
    assert gathered.calls[2][0].arrived == [0, 1, 2]
    assert simulate([[reduce(1)], []]).deadlock()[0] == "rank 0 waits forever in all_reduce(): rank 1 has returned"


def test_an_all_reduce_costs_what_the_model_of_the_ring_says():
    from labutils.exercises.many_gpus import all_reduce_us

    report = simulate([[reduce(*range(1000))] for _ in range(4)], gbs=2.0, latency_us=3.0)
    assert report.finish == pytest.approx(all_reduce_us(4000, 4, 4.0, 3.0)[0])


@pytest.mark.parametrize(
    "programs, symptom",
    [
        ([[send(1, 1, 2)], [recv(0, 3)]], "rank 0 sends 2 elements to rank 1, which receives 3"),
        ([[send(2, 1)], []], "rank 0 calls send with to=2: ranks are 0 to 1"),
        ([[], [recv(1, 1)]], "rank 1 calls recv with itself"),
        ([[reduce(1)], [reduce(1, 2)]], "the ranks meet in different collectives"),
    ],
)
def test_calls_that_do_not_fit_are_named(programs, symptom):
    with pytest.raises(Mismatch, match="^" + symptom.replace("(", r"\(")):
        simulate(programs)


def test_a_loop_that_never_ends_is_refused():
    def forever():
        while True:
            yield exchange(1, [], 1, 0)

    with pytest.raises(BadLog, match="rank 0 makes more than 400 calls"):
        simulate([forever(), []])


def test_a_log_is_read_as_it_was_written():
    calls = [send(1, 4, 5), exchange(1, [6], 1, 2, 0), wait(0), reduce(7)]
    again = read([[c.to_log() for c in calls]])[0]
    assert [c.to_log() for c in again] == [c.to_log() for c in calls]


@pytest.mark.parametrize(
    "log",
    [
        None, [None], [[["send", 1, [1], -1, 0]]], [[["scatter", 1, [1], -1, 0, -1]]],
        [[["send", 1, [1.5], -1, 0, -1]]], [[["send", -1, [1], -1, 0, -1]]],
        [[["recv", -1, [], -1, 1, -1]]], [[["send", True, [1], -1, 0, -1]]],
        [[["recv", -1, [], 0, -1, -1]]],
    ],
)  # fmt: skip
def test_what_is_no_log_is_refused(log):
    with pytest.raises(BadLog):
        read(log)
