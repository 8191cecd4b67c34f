"""Unit 23, second notebook: the checks of schedules, waiting times and placements."""

import math

import pytest

from labutils.exercises import get, pipeline_parallel, placement
from labutils.gpu import pipeline
from labutils.gpu import placement as model_of

UNIT = "23_pipeline_parallel"


def examine(name, case, yours):
    exercise = get(f"{UNIT}/{name}")
    return exercise.examine(case.sizes, exercise.arguments(case), yours)


def test_gpipe_is_refused_for_its_memory_alone():
    case = get(f"{UNIT}/schedule").cases[0]
    symptom, _ = examine("schedule", case, pipeline.all_forward_first(4, 8))
    assert symptom == "stage 0 holds the activations of 8 microbatches at once; 4 are enough"


def test_every_schedule_that_is_fast_and_small_passes():
    """Stages may hold more than 1F1B does, up to their number."""
    case = get(f"{UNIT}/schedule").cases[0]
    eager = pipeline.one_forward_one_backward(4, 8)
    eager[1].remove(("F", 3))
    eager[1].insert(3, ("F", 3))  # before B 0, so that the stage holds 4 in place of 3
    assert pipeline.held(eager[1]) == 4
    assert examine("schedule", case, eager) is None


def test_a_deadlock_of_stages_is_named():
    case = get(f"{UNIT}/schedule").cases[1]
    waits = [[("F", 0), ("B", 0), ("F", 1), ("B", 1), ("F", 2), ("B", 2)], [("F", 1), ("B", 1), ("F", 0), ("B", 0)]]
    waits[1] += [("F", 2), ("B", 2)]
    symptom, _ = examine("schedule", case, waits)
    assert symptom.startswith("deadlock: stages 0 → 1 → 0 wait for each other")


@pytest.mark.parametrize("case", get(f"{UNIT}/lost_ms").cases, ids=lambda c: c.name)
def test_lost_time_is_the_step_minus_the_work(case):
    arguments = get(f"{UNIT}/lost_ms").arguments(case)
    timeline = pipeline.simulate(**{"schedule" if k == "plan" else k: v for k, v in arguments.items()})
    m = case.sizes["microbatches"]
    work = [m * (f + b) for f, b in zip(arguments["forward"], arguments["backward"], strict=True)]
    found = pipeline_parallel.lost_ms(**arguments)
    assert found == pytest.approx([timeline.finish - w for w in work]) and min(found) >= -1e-9


@pytest.mark.parametrize("seed", range(1, 30))
def test_random_schedules_have_every_pass_and_no_deadlock(seed):
    plan = pipeline_parallel.shuffled(3, 4, seed)
    assert pipeline.missing(plan, 4) is None
    assert not pipeline.simulate(plan, [1.0] * 3, [2.0] * 3).stuck


def test_variants_of_the_formulas_are_the_formulas_where_nothing_is_changed():
    for case in get(f"{UNIT}/cost").cases:
        arguments = get(f"{UNIT}/cost").arguments(case)
        place = [arguments[k] for k in ("dp", "tp", "pp")]
        model, machine = arguments["model"], arguments["machine"]
        assert placement._memory(model, *place) == pytest.approx(model_of.memory_gb(model, *place))
        assert placement._step(model, machine, *place) == pytest.approx(model_of.step_ms(model, machine, *place))


def test_no_idle_variant_is_the_right_one():
    """With transfers, different stages and a random order, each explained mistake gives other times."""
    arguments = pipeline_parallel._lost_arguments(3, 4, 2, 0, 250, 3)
    right = pipeline_parallel.lost_ms(**arguments)
    for wrong, text in pipeline_parallel._lost_mistakes(**arguments):
        assert not pipeline_parallel._near(wrong, right), text


def test_the_cases_of_place_need_each_rule():
    """Without one of the rules, some case has a better placement."""
    for rule in ("memory", "batch", "gpus"):
        assert any(_better_without(rule, case) for case in get(f"{UNIT}/place").cases), rule


def _better_without(rule, case):
    arguments = get(f"{UNIT}/place").arguments(case)
    model, machine = arguments["model"], arguments["machine"]
    best = model_of.best(model, machine)
    limit = math.inf if best is None else model_of.step_ms(model, machine, *best)
    for tp in (t for t in range(1, machine["node"] + 1) if machine["node"] % t == 0):
        for pp in range(1, model["layers"] + 1):
            dp, rest = divmod(machine["gpus"], tp * pp)
            kept = {
                "memory": dp and model_of.memory_gb(model, dp, tp, pp) <= machine["memory_gb"],
                "batch": dp and model["batch"] % dp == 0,
                "gpus": rest == 0,
            }
            others = all(ok for name, ok in kept.items() if name != rule)
            if dp and others and not kept[rule] and model_of.step_ms(model, machine, dp, tp, pp) < limit:
                return True
    return False


@pytest.mark.parametrize(
    "yours, symptom",
    [
        ((2, 2, 8), "uses 32 GPUs; there are 64"),
        ((4, 16, 1), "16 tensor ranks do not fit into nodes of 8 GPUs"),
        ((64, 1, 1), "GB on a GPU, which has 141"),
        ((1, 4, 16), "ms a step"),
        ((2.5, 2, 16), "not (dp, tp, pp)"),
        (None, "place returned None, but (2, 2, 16) fits"),
    ],
)
def test_a_placement_that_breaks_a_rule_is_told_which(yours, symptom):
    assert symptom in examine("place", get(f"{UNIT}/place").cases[0], yours)[0]
