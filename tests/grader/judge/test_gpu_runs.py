"""The GPU's part of judging, as far as it can be seen without one: what the runner is told, and what follows from what
it says. The runner itself is tried by the tests marked gpu."""

import base64
import gc
import weakref
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from grader.course.sources import source_notebook
from grader.judge import gpu, gpu_runs, language, plan, speed
from grader.judge.judge import Judge
from grader.judge.sandbox import Memory
from grader.judge.submission import Submission
from grader.judge.task import PlannedTask
from labutils.gpu import device
from labutils.spec.exercise import KernelExercise
from labutils.spec.verdict import Verdict

ROOT = Path(__file__).resolve().parents[3]
SCALE, SCALE_CUDA = "00_start/scale", "00_start/scale_cuda"


class Runner:
    """Stands for a GPU: keeps its jobs, and answers each as it is told to."""

    jobs: list[dict] = []
    answer = None

    def __init__(self):
        self.memory = Memory()

    def begin(self):
        pass

    def run(self, job):
        self.jobs.append(job)
        for number in range(len(job["cases"])):
            yield self.answer(number)

    def close(self):
        self.memory.close()


@pytest.fixture
def judge(monkeypatch):
    h200 = device.find("H200")
    monkeypatch.setattr(device, "current", lambda: h200)
    monkeypatch.setattr(gpu, "Runner", Runner)
    monkeypatch.setattr(speed, "DEVICE", "cpu")
    Runner.jobs = []
    return Judge(5, hidden=1, on_gpu=True)


def judged(judge, exercise_id):
    return judge.judge(Submission.of(source_notebook(ROOT / "solutions" / "00_start")), [exercise_id])[exercise_id]


@pytest.mark.parametrize("exercise_id", [SCALE, pytest.param(SCALE_CUDA, marks=pytest.mark.compiler)])
def test_the_runner_gets_machine_code_and_places_and_no_text(judge, exercise_id, monkeypatch):
    monkeypatch.setattr(Runner, "answer", lambda self, number: {"case": number})
    verdict = judged(judge, exercise_id)
    (job,) = Runner.jobs
    assert all(base64.b64decode(k["cubin"])[:4] == b"\x7fELF" and k["symbol"] for k in job["kernels"])
    assert "def " not in str(job) and "__global__" not in str(job)
    case = job["cases"][0]
    assert [a.get("output") for a in case["arguments"]] == [False, None, True]
    assert case["twice"] and all(s["kernel"] < len(job["kernels"]) for s in case["plan"]["steps"])
    # what this GPU left is the poison
    assert verdict.headline.kind == "not-written" and len(verdict.results) == len(judge._task(_of(exercise_id)).cases)


def _of(exercise_id):
    from labutils import exercises

    return exercises.get(exercise_id)


def test_other_bits_the_second_time_are_a_race(judge, monkeypatch):
    monkeypatch.setattr(Runner, "answer", lambda self, number: {"case": number, "unstable": True})
    assert "race" in {r.diagnosis.kind for r in judged(judge, SCALE).results} | {judged(judge, SCALE).headline.kind}


@pytest.mark.parametrize("kind", ["timeout", "died"])
def test_a_runner_that_is_lost_costs_its_exercise(judge, monkeypatch, kind):
    def lost(self, number):
        raise gpu.RunnerLost(kind, "the GPU stopped the kernel: illegal address")

    monkeypatch.setattr(Runner, "answer", lost)
    verdict = judged(judge, SCALE)
    assert verdict.headline.kind == kind and verdict.marks == 0


def as_recorded(self, planned, verdict, *_):
    """A step on the GPU that finds what the recorded run found."""
    return verdict


@pytest.mark.parametrize("stumbles", ["_run", "_at_full_size"])
def test_what_is_lost_once_by_accident_costs_nothing(judge, monkeypatch, stumbles):
    runners = []

    def lost_once(self, planned, verdict, runner, *_):
        runners.append(runner)
        if len(runners) == 1:
            raise gpu.RunnerLost("timeout", "the kernel did not come to an end")
        return verdict

    for step in ("_run", "_at_full_size"):
        monkeypatch.setattr(gpu_runs.GpuRuns, step, lost_once if step == stumbles else as_recorded)
    assert judged(judge, SCALE).passed and len(runners) == 2 and runners[0] is not runners[1]


@pytest.mark.compiler
def test_a_submission_has_one_try_more_and_leaves_nothing_behind(judge, monkeypatch):
    tried, rings, drawn = [], [], gpu_runs.GpuRuns.drawn

    def lost(self, planned, verdict, runner, ring):
        tried.append(runner)
        raise gpu.RunnerLost("timeout", "the kernel did not come to an end")

    def noted(*args):
        rings.append(weakref.ref(ring := drawn(*args)))
        return ring

    monkeypatch.setattr(gpu_runs.GpuRuns, "_run", as_recorded)
    monkeypatch.setattr(gpu_runs.GpuRuns, "_at_full_size", lost)
    monkeypatch.setattr(gpu_runs.GpuRuns, "drawn", staticmethod(noted))
    gc.disable()  # gigabytes must not wait for a collection
    try:
        both = judge.judge(Submission.of(source_notebook(ROOT / "solutions" / "00_start")), [SCALE, SCALE_CUDA])
        assert len(rings) == 4 and not any(ring() for ring in rings)
    finally:
        gc.enable()
    assert [v.headline.kind for v in both.values()] == ["timeout"] * 2
    assert len(set(map(id, tried))) == len(tried) == 3 and all(r.memory.fd < 0 for r in tried)


def test_a_runner_that_cannot_begin_costs_no_try(judge, monkeypatch):
    runners = []

    def fails(self):
        runners.append(self)
        raise gpu.RunnerLost("died", "the runner ended")

    monkeypatch.setattr(Runner, "begin", fails)
    tried = []

    def noted(self, planned, verdict, runner, *_):
        tried.append(runner)
        return verdict

    for step in ("_run", "_at_full_size"):
        monkeypatch.setattr(gpu_runs.GpuRuns, step, noted)
    assert judged(judge, SCALE).passed and len(runners) == 1 and runners[0] not in tried


def test_a_launch_that_the_gpu_refuses_says_so(judge, monkeypatch):
    monkeypatch.setattr(Runner, "answer", lambda self, number: {"case": number, "refused": "too much shared memory"})
    assert judged(judge, SCALE).headline.symptom.startswith("too much shared memory")


@pytest.mark.parametrize("share", [1.0, 0.5])
def test_what_is_not_timed_is_compared_at_a_large_size_too(judge, monkeypatch, share):
    def scaled(self, number):
        x, factor, out = self.jobs[-1]["cases"][number]["arguments"]
        count = int(x["bytes"] // 4 * share)
        at = [torch.frombuffer(self.memory.bytes, dtype=torch.float32, count=count, offset=a["at"]) for a in (x, out)]
        torch.mul(at[0], factor["number"], out=at[1])
        return {"case": number}

    monkeypatch.setattr(gpu_runs.GpuRuns, "_run", as_recorded)
    monkeypatch.setattr(Runner, "answer", scaled)
    verdict = judged(judge, SCALE)
    (job,) = Runner.jobs
    assert len(job["cases"]) == 1 and job["cases"][0]["arguments"][0]["bytes"] > 10**6
    assert verdict.passed == (share == 1.0)
    if share < 1:
        assert verdict.headline.kind == "wrong-values" and "elements of out are wrong" in verdict.headline.symptom


@pytest.mark.parametrize(
    "share, copy_gbs, kind", [(1.0, 4000, None), (1.0, 3000, None), (0.85, 4000, "wrong-values"), (0.85, 9000, None)]
)
def test_no_floor_is_higher_than_what_the_reference_has_shown(judge, monkeypatch, share, copy_gbs, kind):
    task = judge._task(_of("06_elementwise_triton/gelu"))
    reference = 2 * 4 * task.timed.sizes["n"] / 4e12
    payload = {"seconds": {"a": [share * reference] * 50, "b": [reference] * 50}, "copy_gbs": copy_gbs}
    measured = payload | {"inputs_kept": True, "distinct": [1]}
    verdict = judge.gpu._judge_race(PlannedTask(task), Verdict(task.exercise.id, ""), measured, [])
    assert (verdict.headline and verdict.headline.kind) == kind
    assert not verdict.notes


@pytest.mark.parametrize(("text", "kind"), [("out[i] = x[i];", "race"), ("atomicAdd(out, x[i]);", None)])
def test_timed_runs_with_other_bits_are_a_race_unless_atomics_explain_them(judge, text, kind):
    task = judge._task(_of("06_elementwise_triton/gelu"))
    payload = {"seconds": {"a": [1e-3] * 50, "b": [1e-3] * 50}, "copy_gbs": 4000}
    measured = payload | {"inputs_kept": True, "distinct": [1, 2]}
    spec = {"language": "cuda", "source": f"__global__ void k(float* out, float* x) {{ {text} }}"}
    made = plan.Plan([], [spec], [], atomics=language.calls_atomics(spec))
    verdict = judge.gpu._judge_race(PlannedTask(task, timed_plan=made), Verdict(task.exercise.id, ""), measured, [])
    assert (verdict.headline and verdict.headline.kind) == kind


def test_large_cases_are_of_exercises_that_are_cheap_to_compare():
    from labutils import exercises

    large = {e.id: speed.large_case(e) for e in exercises.all_exercises().values() if isinstance(e, KernelExercise)}
    assert sum(c is not None for c in large.values()) > 30
    assert large["06_elementwise_triton/vector_add"].sizes["n"] > 10**6
    assert not large["19_decode_attention/partial"] and not large["17_flash_attention/forward"]


def test_a_size_that_follows_from_another_is_halved_with_it():
    from labutils import exercises

    for name in ("swiglu", "swiglu_backward"):
        task = exercises.get(f"24_block_kernels/{name}")
        for case in (speed.timed_case(task), speed.large_case(task)):
            assert case.sizes["W"] == 2 * case.sizes["N"], name


def test_without_a_race_a_large_run_takes_its_place(judge):
    task = _of("06_elementwise_triton/gelu")
    assert task.points.speed
    unraced = Judge(5, hidden=1, on_gpu=True, race=False)
    assert judge._task(task).timed == speed.timed_case(task) != speed.large_case(task) == unraced._task(task).timed
    assert judge.gpu._races(judge._task(task)) and not unraced.gpu._races(unraced._task(task))


def test_judges_of_one_class_share_kernels_references_and_the_lock(judge):
    other = Judge(6, hidden=1, on_gpu=True, beside=judge)
    assert other.gpu._room is judge.gpu._room
    assert other.compiled is judge.compiled and other.seed != judge.seed
    assert other.gpu._references is judge.gpu._references and other.gpu._one_at_a_time is judge.gpu._one_at_a_time


@pytest.mark.compiler
def test_room_for_arrays_is_given_back_whatever_happens(judge, monkeypatch):
    for kind in ("timeout", "died"):

        def lost(self, number, kind=kind):
            raise gpu.RunnerLost(kind, "the GPU stopped the kernel")

        monkeypatch.setattr(Runner, "answer", lost)
        for _ in range(gpu_runs.READY + 1):  # the exercise after a lost one gets a new runner
            both = judge.judge(Submission.of(source_notebook(ROOT / "solutions" / "00_start")), [SCALE, SCALE_CUDA])
            assert {v.headline.kind for v in both.values()} == {kind}
    assert all(judge.gpu._room.acquire(blocking=False) for _ in range(gpu_runs.READY))


def test_arrays_and_a_context_are_ready_before_the_gpu_is_taken(judge, monkeypatch):
    taken, drawn, begun, sizes = [], [], [], []

    def begin(self):
        begun.append(bool(taken))
        sizes.append(self.memory.size)

    monkeypatch.setattr(Runner, "begin", begin)
    monkeypatch.setattr(Runner, "answer", lambda self, number: {"case": number})
    monkeypatch.setattr(speed, "fill", lambda run, seed, number: drawn.append(bool(taken)))

    class Lock:
        def __enter__(self):
            taken.append(1)

        def __exit__(self, *_):
            taken.pop()

    judge.gpu._one_at_a_time = Lock()
    judged(judge, SCALE)
    assert drawn == begun == [False] and not taken
    places = [a for job in Runner.jobs for case in job["cases"] for a in case["arguments"] if "at" in a]
    assert len(places) > 2 and max(a["at"] + a["bytes"] for a in places) <= sizes[0] > 10**6


@pytest.mark.parametrize("kind", ["float32", "float16"])
def test_a_ring_lies_in_shared_memory_and_its_seed_draws_it(kind):
    task = _of("06_elementwise_triton/bias_scale")
    case = replace(speed.timed_case(task), sizes={"M": 300, "N": 200}, dtype=kind)
    rings = [gpu_runs.GpuRuns.drawn(Runner(), task, case, seed, 3) for seed in (4, 4, 5)]
    inputs = [{n: b.view.clone() for n, b in run.buffers.items()} for ring in rings for run in ring.runs.values()]
    for mine, again, other, next_one in zip(inputs[0:2], inputs[3:5], inputs[6:8], inputs[1:3], strict=True):
        for name, x in mine.items():
            assert torch.equal(x, again[name])
            if not rings[0].runs[0].buffers[name].is_output:
                assert not torch.equal(x, other[name]) and not torch.equal(x, next_one[name])
                assert abs(float(x.float().mean())) < 0.3 and 0.8 < float(x.float().std()) < 1.2
    ring = rings[0]
    for name, b in ring.runs[2].buffers.items():
        raw = torch.frombuffer(ring._memory.bytes, dtype=b.view.dtype, count=b.view.numel(), offset=ring.at(2, name))
        assert torch.equal(raw, b.view.flatten())
        b.view[0] = 7
        assert raw[0] == 7


def test_only_what_runs_on_the_gpu_is_prepared(judge, monkeypatch):
    prepared = []
    monkeypatch.setattr(judge.gpu, "prepare", prepared.extend)
    judge.prepare([SCALE, "00_start/number_of_programs"])
    assert [task.exercise.id for task in prepared] == [SCALE]
    Judge(5, hidden=1, on_gpu=False).prepare([SCALE])
    assert len(prepared) == 1
