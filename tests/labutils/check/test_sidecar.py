"""The recording process beside a GPU: the function travels as text, the verdict names the lines it has here."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from labutils.backends import Problem
from labutils.backends.extract import NotExtractable
from labutils.backends.interpreter import Interpreter
from labutils.check.evaluate import evaluate
from labutils.check.sidecar import Sidecar
from labutils.exercises import get

triton = pytest.importorskip("triton")
import triton.language as tl  # noqa: E402

EXERCISE = "06_elementwise_triton/vector_add"
BLOCK = 256
SOURCE = Path(__file__).read_text().splitlines()


@triton.jit
def vector_add_kernel(x_ptr, y_ptr, out_ptr, n, masked: tl.constexpr, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    x = tl.load(x_ptr + offs, mask=mask)
    y = tl.load(y_ptr + offs, mask=mask if masked else None)
    tl.store(out_ptr + offs, x + y, mask=mask)


def vector_add(x, y, out):
    vector_add_kernel[(triton.cdiv(x.numel(), BLOCK),)](x, y, out, x.numel(), True, BLOCK)


def vector_add_reading_too_far(x, y, out):
    vector_add_kernel[(triton.cdiv(x.numel(), BLOCK),)](x, y, out, x.numel(), False, BLOCK)


def ask(fn):
    return Sidecar(EXERCISE, fn, 2024, 0, 30).verdict()


def test_jobs_one_after_another():
    good, bad = (Sidecar(EXERCISE, fn, 2024, 0, 30) for fn in (vector_add, vector_add_reading_too_far))
    refused, accepted = bad.verdict(), good.verdict()
    assert accepted.passed and accepted.counts["moved_bytes"] == accepted.counts["compulsory_bytes"]
    assert refused.headline.kind == "tail-unmasked"
    line = int(refused.headline.symptom.split("(line ")[1].split(":")[0])
    assert "y = tl.load(y_ptr + offs, mask=mask if masked" in SOURCE[line - 1]


def test_a_job_that_dies_does_not_take_the_process_along():
    def fatal(x, y, out):
        import os

        os._exit(1)

    assert ask(fatal).headline.kind == "died"
    assert ask(vector_add).passed


def test_figures_come_in_two_answers_and_a_process_that_dies_between_them_says_so():
    text = """
import os, sys
from labutils.check import sidecar_server
def recorded(exercise, fn, seed):
    yield {"compile": []}
    if seed:
        os._exit(1)
    yield {"figures": {}, "compile": []}
sidecar_server.recorded, sidecar_server.load = recorded, lambda module: {"f": print}
sidecar_server.main()
"""
    job = {"task": "figures", "exercise": EXERCISE, "entry": "f", "module": {}}
    jobs = "".join(json.dumps({**job, "seed": seed, "ticket": seed}) + "\n" for seed in (0, 1))
    done = subprocess.run([sys.executable, "-c", text], input=jobs, capture_output=True, text=True, timeout=120)
    assert [json.loads(line) for line in done.stdout.splitlines()] == [
        {"ticket": 0, "compile": []},
        {"ticket": 0, "figures": {}, "compile": []},
        {"ticket": 1, "compile": []},
        {"ticket": 1, "failed": "the recording process failed"},
    ], done.stderr


def test_what_cannot_travel_says_so():
    with pytest.raises(NotExtractable):
        ask(lambda x, y, out: None)


def test_cuda_kernels_travel_with_the_launcher_that_names_them():
    from labutils import cuda
    from labutils.backends import simt

    if simt.available() is not None:
        pytest.skip(f"needs a C++ compiler: {simt.available()}")
    source = """
    __global__ void scale(const float* x, float factor, float* out, int n) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < n) out[i] = factor * x[i];
    }"""
    globals()["scale_on_its_way"] = cuda.compile(source, "scale")
    verdict = Sidecar("00_start/scale_cuda", launch_scale, 2024, 2, 30).verdict()
    assert verdict.passed and "emulator" in verdict.backend
    assert verdict.counts["global_load_requests"] > 0
    globals()["scale_on_its_way"] = cuda.compile(source.replace("if (i < n) ", ""), "scale")
    assert Sidecar("00_start/scale_cuda", launch_scale, 2024, 2, 30).verdict().headline.kind == "tail-unmasked"


def launch_scale(x, factor, out):
    scale_on_its_way[triton.cdiv(x.numel(), 256), 256](x, factor, out, x.numel())  # noqa: F821 (bound by the test)


class StandInForAGpu(Interpreter):
    """Runs like the interpreter and cannot record, as a GPU cannot; keeps what it was asked to launch."""

    can = frozenset({"time"})

    def __init__(self):
        super().__init__(targets=())
        self.launched, self.left_behind = [], None

    def broken(self):
        return self.left_behind

    def run(self, fn, runs, time_limit=10.0):
        self.launched.append(fn)
        return super().run(fn, runs, time_limit)


def test_a_gpu_is_spared_what_the_recording_refuses():
    gpu = StandInForAGpu()
    refused = evaluate(get(EXERCISE), vector_add_reading_too_far, backend=gpu)
    assert refused.headline.kind == "tail-unmasked" and not gpu.launched
    assert "was not launched on the GPU" in refused.notes[-1]
    accepted = evaluate(get(EXERCISE), vector_add, backend=gpu)
    assert accepted.passed and gpu.launched == [vector_add]
    assert accepted.counts["moved_bytes"] == accepted.counts["compulsory_bytes"]


def test_a_broken_gpu_says_so_at_once():
    gpu = StandInForAGpu()
    gpu.left_behind = Problem("died", "an earlier kernel never ended: restart")
    verdict = evaluate(get(EXERCISE), vector_add, backend=gpu)
    assert verdict.headline.symptom == "an earlier kernel never ended: restart" and not gpu.launched


def test_figures_come_from_the_mended_interpreter():
    """Triton 3.6 alone cannot run a loop over a tensor's length. In the recording process, nothing else mends it."""
    text = f"""
from labutils.backends import interpreter
from labutils.check import figures, sidecar_server
mended = []
interpreter.self_test = lambda: mended.append(True)
figures.child.fork = lambda jobs, limit: iter(["stopped"] if mended else ["the interpreter is as Triton made it"])
figures.child.end = lambda said: type("Ended", (), {{"message": said}})
job = {{"task": "figures", "exercise": "{EXERCISE}", "entry": "f", "seed": 1}}
sidecar_server.load = lambda module: {{"f": print}}
print(*sidecar_server._answers(job | {{"module": {{}}}}))
"""
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=120)
    assert done.stdout == "{'failed': 'stopped'}\n", done.stderr
