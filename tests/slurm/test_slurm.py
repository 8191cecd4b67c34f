"""The engines on a real Slurm, of one node with two pretended GPUs: a worker dies in the middle, and results are those
of the local engine. Skipped where Slurm is not installed or may not be started."""

import os
import shutil
import subprocess
import threading
import time
from pathlib import Path

import pytest

from grader import engines

SCRIPT = Path(__file__).with_name("single_node.sh")
WORK = "tests.grader.engines.pretend"
NAMES = [f"student {n:02}" for n in range(12)] + ["kills once"]

pytestmark = [pytest.mark.slow, pytest.mark.timeout(280)]


@pytest.fixture(scope="module")
def slurm(tmp_path_factory):
    for command in ("slurmctld", "slurmd", "munged", "sbatch"):
        if shutil.which(command, path=f"{os.environ['PATH']}:/usr/sbin") is None:
            pytest.skip(f"{command} is not installed (apt-get install slurm-wlm munge)")
    if os.geteuid() != 0:
        pytest.skip("only root can start Slurm's services")
    folder = tmp_path_factory.mktemp("slurm")
    started = subprocess.run([SCRIPT, "start", folder], capture_output=True, text=True)
    if started.returncode:
        pytest.skip(f"Slurm does not start here: {started.stderr[-300:]}")
    yield folder
    subprocess.run([SCRIPT, "stop", folder], check=False)


@pytest.fixture
def env(slurm, tmp_path, monkeypatch):
    (tmp_path / "marks").mkdir()
    monkeypatch.setenv("SLURM_CONF", str(slurm / "slurm.conf"))
    monkeypatch.setenv("PRETEND_FOLDER", str(tmp_path / "marks"))
    monkeypatch.setenv("PRETEND_SECONDS", "1")
    monkeypatch.setattr("grader.engines.array.ASK_EVERY", 2.0)
    monkeypatch.setattr("grader.engines.slurm.START_LIMIT", 90)


def job(name):
    text = '{"cells": [], "text": "%s * n"}' % (2 if name.endswith("3") else 3)
    return {"key": name, "notebook": text, "seed": 1, "exercises": ["unit/a"], "limits": {}}


def results(engine):
    try:
        found = list(engine.run(job(name) for name in NAMES))
    finally:
        engine.close()
    assert sorted(key for key, _ in found) == sorted(NAMES)
    return {key: result["verdicts"]["unit/a"]["marks"] for key, result in found}


def slurm_says(*command):
    return subprocess.run(command, capture_output=True, text=True).stdout.split()


def kill_one(name):
    """End a running Slurm job of this name with all its processes, once it has worked for a while."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        running = slurm_says("squeue", "--noheader", "--states=running", f"--name={name}", "--format=%i")
        if running:
            time.sleep(2.5)
            subprocess.run(["scancel", "--signal=KILL", "--full", running[0]], check=False)
            return
        time.sleep(0.3)


@pytest.mark.parametrize("name, job_name", [("array", "grader"), ("slurm", "dask-worker")])
def test_grades_stay_equal_when_a_worker_is_killed(env, tmp_path, name, job_name):
    expected = {n: 0.0 if n.endswith("3") else 1.0 for n in NAMES}
    engine = engines.open_engine(name, 2, work=WORK, out=tmp_path / "out", slurm=["--gres=gpu:1"])
    killer = threading.Thread(target=kill_one, args=(job_name,))
    killer.start()
    found = results(engine)
    killer.join()
    assert found == expected
    local = engines.open_engine("local", 2, work=WORK)
    assert results(local) == found


def test_each_worker_of_an_array_sees_the_gpu_it_was_given(env):
    line = ["srun", "--gres=gpu:1", "python3", "-c", "import os; print(os.environ['CUDA_VISIBLE_DEVICES'])"]
    assert slurm_says(*line)[0] in ("0", "1")
