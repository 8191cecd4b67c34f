"""The simulated queues: forty plans derived by hand, missing waits, and what makes a plan slow."""

import pytest

from bench.launch import parse, plans
from labutils.exercises.launch_plans import best_plan
from labutils.gpu.queue_advice import why_slow
from labutils.gpu.queue_order import problem_of
from labutils.gpu.queue_times import Work, simulate
from labutils.gpu.queues import BadPlan, Event, QueueRecorder, Stream, read

PLANS = plans()


def test_the_table_has_forty_plans_and_ten_run_on_a_gpu():
    assert len(PLANS) == 40 and sum(p["gpu"] for p in PLANS) == 10
    assert len({p["name"] for p in PLANS}) == 40 and all(p["why"] for p in PLANS)


@pytest.mark.parametrize("plan", PLANS, ids=lambda p: p["name"])
def test_finish_times_are_those_derived_by_hand(plan):
    assert simulate(plan["operations"], plan["work"], plan["costs"]).finish == pytest.approx(plan["finish"], abs=1e-9)


@pytest.mark.parametrize("pieces", [1, 2, 3, 9, 40])
def test_the_best_plan_is_ordered_and_reaches_n_plus_two_steps(pieces):
    assert problem_of(best_plan(pieces), pieces) is None
    finish = simulate(best_plan(pieces), Work(200, 200, 200)).finish
    assert 200 * (pieces + 2) <= finish <= 200 * (pieces + 2) + 10


@pytest.mark.parametrize("pieces", [3, 6])
def test_every_wait_of_the_best_plan_is_needed(pieces):
    plan = best_plan(pieces)
    for index, operation in enumerate(plan):
        if operation[0] == "wait":
            _, advice = problem_of(plan[:index] + plan[index + 1 :], pieces)
            assert "does not wait for stream" in advice  # not "wait first": later waits are for later work


def test_a_race_is_refused_even_where_the_times_fall_well():
    plan = parse("pin; in 0 0 @0; sync; in 1 1 @0; k 0 0 @1; out 0 0 @1; k 1 1 @1; out 1 1 @1; sync")
    spans = {(s.verb, s.piece): s for s in simulate(plan, Work(1, 500, 1)).spans if s.engine != "host"}
    assert spans["copy_in", 1].end < spans["kernel", 1].start
    assert "kernel of piece 1 does not wait for its copy-in" in problem_of(plan, 2)[0]


def test_one_stream_is_told_apart_from_pageable_memory():
    serial = "in 0 0 @0; k 0 0 @0; out 0 0 @0; in 1 1 @0; k 1 1 @0; out 1 1 @0; sync"
    for text, word in (("pin; " + serial, "One stream"), (serial, "pageable")):
        plan = read(parse(text))
        assert word in why_slow(plan, simulate(plan, Work(100, 100, 100)))


@pytest.mark.parametrize(
    "plan, word",
    [
        (None, "not a NoneType"),
        ([["fly", 1]], "which is none of"),
        ([["kernel", 0, 0]], "needs piece, slot, stream"),
        ([["kernel", 0, 2, 0]], "no slot 2"),
        ([["kernel", 0, 0.5, 0]], "whole numbers"),
        ([["wait", 0, 0]], "has not been recorded"),
        ([["capture", 0], ["synchronize"]], "not while a graph is captured"),
        ([["capture", 0]], "never ended"),
        ([["replay", 0, 0]], "no graph 0"),
        ([["pin"]] * 5000, "more than 4000"),
    ],
)
def test_what_is_no_plan_is_refused_in_a_sentence(plan, word):
    with pytest.raises(BadPlan, match=word):
        read(plan)


def test_the_recorder_knows_streams_from_events():
    machine = QueueRecorder()
    stream = machine.stream()
    event = machine.record(stream)
    assert (stream, event) == (Stream(0), Event(0))
    with pytest.raises(TypeError, match="needs a stream here, not an Event"):
        machine.wait(event, stream)
