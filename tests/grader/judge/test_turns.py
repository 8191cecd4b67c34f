"""Every configuration of an autotuned kernel has its turn."""

from grader.judge import turns, wire
from grader.judge.plan import Choice, Launch, Plan
from grader.judge.task import PlannedTask, Task
from labutils import exercises
from labutils.check.evaluate import cases_of
from labutils.spec.inputs import make_run

EXERCISE = exercises.get("06_elementwise_triton/vector_add")
SEED = 7


def _spec(which):
    return {"language": "triton", "constants": {"BLOCK": 256, "WHICH": which}, "options": {"num_warps": 4}}


def _plan(run, configurations):
    n = run.case.sizes["n"]
    launches = [Launch(k, (-(-n // 256), 1, 1), {}) for k in range(configurations)]
    step = Choice(tuple(launches)) if configurations > 1 else launches[0]
    return Plan([step], [_spec(k) for k in range(configurations)], [])


def _planned(configurations):
    cases = cases_of(EXERCISE, SEED, 4)
    runs = tuple(make_run(EXERCISE, c, SEED, allocate=wire.plain_bytes) for c, _ in cases)
    return PlannedTask(Task(EXERCISE, cases, runs=runs), tuple(_plan(run, configurations) for run in runs))


def _ran(planned):
    found = []
    for plan, turn in zip(planned.plans, planned.turns, strict=True):
        choices = plan.steps[0].launches
        found.append(choices[turn % len(choices)].kernel)
    return found


def test_every_configuration_runs_and_those_without_a_case_run_on_a_small_one():
    before = _planned(40)
    after = turns.with_turns(before, SEED)
    public = sum(not hidden for _, hidden in before.task.cases)
    assert set(_ran(after)) == set(range(40))
    assert _ran(after)[:public] == list(range(public))  # counts are those of the same configurations for everybody
    more = after.task.cases[len(before.task.cases) :]
    assert len(after.plans) == len(after.task.runs) == len(after.task.cases) == len(after.turns)
    assert all(hidden for _, hidden in more)
    programs = {p.steps[0].launches[0].grid[0] for p in after.plans[len(before.plans) :]}
    assert programs == {min(g for p in before.plans if (g := p.steps[0].launches[0].grid[0]) > 1)}


def test_nobody_knows_which_configuration_meets_a_hidden_case():
    planned, public = _planned(40), len(EXERCISE.cases)
    drawn = {tuple(turns.with_turns(planned, seed).turns[public : public + 4]) for seed in range(3)}
    assert len(drawn) == 3


def test_few_configurations_need_no_more_cases_and_one_has_no_turns():
    assert len(turns.with_turns(_planned(3), SEED).plans) == len(_planned(3).plans)
    assert turns.with_turns(_planned(1), SEED).turns == ()
