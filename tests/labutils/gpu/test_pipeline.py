"""Schedules of a pipeline: times derived by hand, deadlocks, memory."""

import pytest

from labutils.gpu import pipeline
from labutils.gpu.pipeline import BadSchedule, all_forward_first, one_forward_one_backward


@pytest.mark.parametrize("make", [one_forward_one_backward, all_forward_first])
@pytest.mark.parametrize("stages, microbatches", [(1, 1), (1, 5), (2, 1), (4, 8), (8, 3), (5, 17)])
def test_equal_stages_lose_the_bubble_and_nothing_else(make, stages, microbatches):
    schedule = make(stages, microbatches)
    timeline = pipeline.simulate(schedule, [1.0] * stages, [2.0] * stages)
    assert pipeline.missing(schedule, microbatches) is None and not timeline.stuck
    assert timeline.finish == 3 * (microbatches + stages - 1)
    assert all(timeline.idle(stage) == 3 * (stages - 1) for stage in range(stages))


@pytest.mark.parametrize("stages, microbatches", [(1, 5), (4, 8), (8, 3)])
def test_1f1b_holds_at_most_the_stages_that_follow_and_gpipe_everything(stages, microbatches):
    holds = [pipeline.held(passes) for passes in one_forward_one_backward(stages, microbatches)]
    assert holds == [min(stages - stage, microbatches) for stage in range(stages)]
    assert {pipeline.held(passes) for passes in all_forward_first(stages, microbatches)} == {microbatches}


def test_two_stages_by_hand():
    """F0 at 0 to 1, sent until 1.5; on stage 1 F0 to 3.5, B0 to 6.5, sent until 7; on stage 0 B0 to 9."""
    schedule = [[("F", 0), ("B", 0)], [("F", 0), ("B", 0)]]
    timeline = pipeline.simulate(schedule, [1.0, 2.0], [2.0, 3.0], send=0.5)
    assert [(p.stage, p.kind, p.start, p.end) for p in timeline.passes] == [
        (0, "F", 0.0, 1.0), (1, "F", 1.5, 3.5), (1, "B", 3.5, 6.5), (0, "B", 7.0, 9.0),
    ]  # fmt: skip
    assert [timeline.idle(stage) for stage in range(2)] == [6.0, 4.0]


def test_stages_that_wait_for_each_other_are_a_cycle():
    timeline = pipeline.simulate([[("F", 0), ("B", 0), ("F", 1)], [("F", 1), ("F", 0)]], [1, 1], [2, 2])
    assert timeline.stuck == {0: 1, 1: 0} and pipeline.cycle(timeline.stuck) == [0, 1]
    own = pipeline.simulate([[("B", 0), ("F", 0)]], [1], [2])
    assert own.stuck == {0: 0} and pipeline.cycle(own.stuck) == [0]


@pytest.mark.parametrize(
    "passes, found",
    [
        ([("F", 0), ("B", 0)], "stage 0: the forward pass of microbatch 1 is missing"),
        ([("F", 0), ("B", 0), ("F", 1), ("F", 1)], "stage 0: the forward pass of microbatch 1 is there 2 times"),
        ([("F", 0), ("B", 0), ("F", 1), ("B", 1), ("F", 2)], "stage 0: microbatch 2 does not exist; they are 0 to 1"),
    ],
)
def test_a_pass_is_there_exactly_once(passes, found):
    assert pipeline.missing([passes], 2) == found


@pytest.mark.parametrize("schedule", [None, [None], [[("F", 0)], []], [[("F", 0.0)]], [[("G", 0)]], [["F0"]]])
def test_what_is_no_schedule_is_refused(schedule):
    with pytest.raises(BadSchedule):
        pipeline.read(schedule, 1)
