"""Every engine gives the same results, survives the deaths of its workers, and takes no more jobs than it has room."""

import contextlib
import os
import subprocess
import sys
import threading
import time

import pytest

from grader import engines
from grader.engines import worker_process
from grader.engines.local import pinned, shares
from grader.engines.worker_process import Lost, WorkerProcess
from grader.grading.options import GradeOptions
from grader.judge.gpulock import GpuLock, visible_gpus

NAMES = [f"student {n}" for n in range(5)] + ["kills", "kills once"]


def job(key, right=True):
    text = '{"cells": [], "text": "%s * n"}' % (3 if right else 2)
    return {"key": key, "notebook": text, "seed": 1, "exercises": ["unit/a"], "limits": {}}


def opened(name, tmp_path, work, workers=2):
    return engines.open_engine(name, workers, work=work, out=tmp_path / "out")


@pytest.mark.parametrize("name", ["local", "dask", "array"])
def test_an_engine_does_every_job_once_and_survives_deaths(name, tmp_path, pretend, slurm_stand_in):
    engine = opened(name, tmp_path, pretend)
    try:
        found = list(engine.run(job(n, right=n != "student 3") for n in NAMES))
    finally:
        engine.close()
    results = dict(found)
    assert sorted(key for key, _ in found) == sorted(NAMES)
    lost = {key: r.pop("lost") for key, r in results.items() if "lost" in r}
    assert list(lost) == ["kills"] and "3 times" in lost["kills"]
    marks = {key: r["verdicts"]["unit/a"]["marks"] for key, r in results.items() if r}
    assert marks == {n: float(n != "student 3") for n in NAMES if n != "kills"}


CLUSTER = """
from distributed import LocalCluster

if __name__ == "__main__":
    cluster = LocalCluster(n_workers=1, threads_per_worker=2, dashboard_address=None, host="127.0.0.1")
    print(cluster.scheduler_address, flush=True)
    input()
"""


@pytest.fixture
def scheduler(tmp_path):
    """The address of a Dask cluster that was started elsewhere and has never heard of the grader."""
    script = tmp_path / "cluster.py"
    script.write_text(CLUSTER)
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    pipes = dict(stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    with subprocess.Popen([sys.executable, str(script)], cwd=tmp_path, env=environment, text=True, **pipes) as process:
        yield process.stdout.readline().strip()
        process.communicate("\n")


def test_a_dask_cluster_need_not_know_the_grader(scheduler, pretend):
    with contextlib.closing(engines.open_engine("dask", 2, work=pretend, scheduler=scheduler)) as engine:
        found = dict(engine.run(job(f"student {n}") for n in range(3)))
    assert len(found) == 3 and all(r["verdicts"]["unit/a"]["marks"] == 1 for r in found.values())


def test_of_a_dask_cluster_that_runs_its_own_cores_count(scheduler, pretend, monkeypatch):
    monkeypatch.setattr(os, "cpu_count", lambda: 1)
    options = GradeOptions(executor="dask", scheduler=scheduler, work=pretend)
    with contextlib.closing(options.open_engine(None)) as engine:
        assert engine.workers == 2
    assert engines.workers_for("dask", 5, None, scheduler) == 5


def test_a_dask_cluster_that_cannot_grade_gives_no_marks(scheduler, pretend, monkeypatch, tmp_path):
    monkeypatch.setattr("grader.engines.dask.ROOT", tmp_path)
    engine = engines.open_engine("dask", 2, work=pretend, scheduler=scheduler)
    with contextlib.closing(engine), pytest.raises(engines.NoEngine, match="No module named 'grader'"):
        list(engine.run(job(f"student {n}") for n in range(3)))


def test_a_job_is_made_only_when_there_is_room(tmp_path, pretend):
    made, engine = [], opened("local", tmp_path, pretend)

    def jobs():
        for n in range(40):
            made.append(n)
            yield job(f"student {n}")

    try:
        for seen, _ in enumerate(engine.run(jobs()), start=1):
            assert len(made) - seen <= 4
    finally:
        engine.close()
    assert len(made) == 40


def test_who_is_running_and_for_how_long(tmp_path, pretend):
    engine = opened("local", tmp_path, pretend)
    running = threading.Thread(target=lambda: list(engine.run([job("slow one")])))
    running.start()
    deadline = time.monotonic() + 20
    while not engine.running() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert list(engine.running()) == ["slow one"]
    running.join()
    engine.close()
    assert engine.running() == {}


def test_what_shares_a_worker_with_a_killer_is_not_blamed(pretend, monkeypatch):
    monkeypatch.setenv("PRETEND_SECONDS", "0.5")
    process, done = WorkerProcess(4, work=pretend), {}
    names = ["kills", "a", "b", "c"]
    threads = [threading.Thread(target=lambda n=n: done.update({n: process.persist(job(n))})) for n in names]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    process.close()
    assert "lost" in done["kills"] and not any("lost" in done[n] for n in "abc")


def test_a_worker_that_is_ended_removes_what_it_made_and_waits_for_no_job(pretend, tmp_path, monkeypatch):
    monkeypatch.setenv("PRETEND_FOLDER", str(tmp_path))
    process = WorkerProcess(2, work=pretend)
    assert process.do(job("leaves a folder"))["verdicts"]
    waiting = threading.Thread(target=process.persist, args=[job("slow")])
    waiting.start()
    time.sleep(0.2)
    begin = time.monotonic()
    process.close()
    assert time.monotonic() - begin < 0.7 and (tmp_path / "tidied").exists()
    waiting.join(5)
    assert not waiting.is_alive()


def test_a_worker_that_does_not_end_is_ended(pretend, tmp_path, monkeypatch):
    monkeypatch.setenv("PRETEND_FOLDER", str(tmp_path))
    monkeypatch.setattr(worker_process, "END_LIMIT", 0.3)
    one = WorkerProcess(1, work=pretend)
    assert one.do(job("leaves a folder for long"))["verdicts"]
    begin = time.monotonic()
    one.close()
    assert 0.25 < time.monotonic() - begin < 5 and not (tmp_path / "tidied").exists()


def test_an_engine_that_is_still_preparing_ends_at_once(tmp_path, pretend, monkeypatch):
    monkeypatch.setenv("PRETEND_PREPARE", "30")
    engine = opened("local", tmp_path, pretend, workers=12)
    time.sleep(0.5)
    begin = time.monotonic()
    engine.close()
    assert len(engine.worker_processes) == 3 and time.monotonic() - begin < 1.5


def test_the_thread_that_starts_sandboxes_lives_as_long_as_the_worker(pretend):
    with contextlib.closing(WorkerProcess(2, work=pretend)) as one:
        one.do(job("student"))
        time.sleep(0.2)
        assert one.do(job("thread")) == {"alive": True}


def test_a_worker_that_cannot_prepare_says_why(pretend, monkeypatch):
    monkeypatch.setenv("PRETEND_PREPARE", "never")
    with contextlib.closing(WorkerProcess(1, work=pretend)) as one, pytest.raises(Lost, match="could not convert"):
        one.do(job("student"))


def test_gpus_in_turns():
    assert shares(2, []) == [(2, {})] and [n for n, _ in shares(9, [])] == [5, 4]
    four = shares(8, ["0", "1", "2", "3"])
    assert [(n, env["CUDA_VISIBLE_DEVICES"]) for n, env in four] == [(2, "0"), (2, "1"), (2, "2"), (2, "3")]
    assert [(n, env["CUDA_VISIBLE_DEVICES"]) for n, env in shares(12, ["0", "1"])] == [(3, "0"), (3, "1")] * 2
    assert len(shares(2, ["0", "1", "2", "3"])) == 2 and pinned(["5", "7"], 3)["CUDA_VISIBLE_DEVICES"] == "7"


def test_the_gpus_that_a_job_was_given(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2, GPU-abc")
    assert visible_gpus() == ["2", "GPU-abc"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert visible_gpus() == []


def test_four_gpus_do_four_times_as_much_as_one(tmp_path, pretend, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))  # where the workers' locks are
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1,2,3")
    rates = {}
    for gpus in (1, 4):
        engine = engines.open_engine("local", engines.WORKERS_OF_A_GPU * gpus, work=pretend, gpus=gpus)
        try:
            ended = [time.monotonic() for _ in engine.run(job(f"GPU {n}") for n in range(60))]
        finally:
            engine.close()
        rates[gpus] = 30 / (ended[45] - ended[15])
    assert 8 < rates[1] <= 10.5 and rates[4] > 3.5 * rates[1]


def test_workers_are_as_many_as_cores_and_gpus_have_use_for(monkeypatch):
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1,2,3")
    assert [engines.workers_here(None, n) for n in (None, 2, 1)] == [16, 8, 8]
    assert engines.workers_here(3, 2) == 3
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert engines.workers_here(None) == 8
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    assert engines.workers_here(None) == 2


def test_a_gpu_is_for_one_process_at_a_time(tmp_path):
    hold = "import sys, time; from pathlib import Path; from grader.judge.gpulock import GpuLock\n"
    hold += "with GpuLock('1', Path(sys.argv[1])): print('held', flush=True); time.sleep(60)"
    root = str(engines.__file__).rsplit("/", 3)[0]
    other = subprocess.Popen(
        [sys.executable, "-c", hold, str(tmp_path)], cwd=root, stdout=subprocess.PIPE, env=dict(os.environ)
    )
    assert other.stdout.readline() == b"held\n"
    taken = []

    def take(name):
        with GpuLock(name, tmp_path):
            taken.append(name)

    waiting = threading.Thread(target=take, args=("1",))
    waiting.start()
    take("0")  # another GPU
    waiting.join(0.5)
    assert taken == ["0"]
    other.kill()  # a lock ends with its process
    waiting.join(10)
    other.wait()
    other.stdout.close()
    assert taken == ["0", "1"]


def test_who_waits_for_a_gpu_is_not_overtaken(tmp_path):
    served, ended = [], threading.Event()

    def greedy():
        while not ended.is_set():
            with GpuLock("0", tmp_path):
                served.append(0)
                time.sleep(0.005)

    crowd = [threading.Thread(target=greedy) for _ in range(3)]
    for one in crowd:
        one.start()
    waited = []
    for _ in range(10):
        before = len(served)
        with GpuLock("0", tmp_path):
            waited.append(len(served) - before)
            time.sleep(0.005)
    ended.set()
    for one in crowd:
        one.join()
    # of one turn nothing is promised: between asking and waiting a busy machine may serve many
    assert sorted(waited)[5] <= len(crowd) + 1


def test_an_engine_that_cannot_be_had_says_so(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(engines.NoEngine, match="sbatch"):
        opened("array", tmp_path, None)
    monkeypatch.setitem(sys.modules, "distributed", None)
    monkeypatch.delitem(sys.modules, "grader.engines.dask", raising=False)
    with pytest.raises(engines.NoEngine, match="'distributed'.*pip install"):
        opened("dask", tmp_path, None)
