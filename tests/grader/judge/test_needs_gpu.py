"""What only a GPU can run: never called wrong, its points open; on a GPU judged there alone."""

import pytest

from grader.judge import language, wire
from grader.judge.judge import Judge
from grader.judge.submission import Submission
from grader.redteam import corpus, run
from labutils.check.diagnose import NEEDS_GPU
from labutils.gpu import device
from tests.grader.judge.test_gpu_runs import Runner, judge  # noqa: F401  (a fixture)

PTX = "controls/inline_ptx"


def judged(name, change=lambda text: text, by=None):
    (trial,) = corpus.trials([name])
    submission = run.submission(trial)
    cells = tuple((cell, change(text)) for cell, text in submission.cells)
    return (by or Judge(3, hidden=1, on_gpu=False)).judge(Submission(cells), [trial.exercise])[trial.exercise]


@pytest.mark.parametrize(
    "name",
    ["inline_ptx", *(pytest.param(n, marks=pytest.mark.compiler) for n in ("cuda_inline_ptx", "cuda_std_limits"))],
)
def test_without_a_gpu_all_points_are_open(name):
    verdict = judged(f"controls/{name}")
    assert verdict.headline.kind == NEEDS_GPU and "GPU" in verdict.headline.advice
    assert (verdict.marks, verdict.open) == (0, verdict.points) and not verdict.passed
    assert {r.diagnosis.kind for r in verdict.results} == {NEEDS_GPU}
    shown = verdict.text()
    assert "wrong:" not in shown and f"{verdict.points:g} still open" in shown


def test_a_kernel_that_no_gpu_takes_is_refused_all_the_same():
    verdict = judged(PTX, lambda text: text.replace("add.f32 $0", "add.f99 $0"))
    assert verdict.headline.kind == "does-not-compile" and verdict.open == 0


def test_a_case_that_is_wrong_decides():
    change = "    if n < 100:\n        out.zero_()\n        return\n    add_kernel["
    verdict = judged(PTX, lambda text: text.replace("    add_kernel[", change))
    assert verdict.headline.kind != NEEDS_GPU and verdict.open == 0


def test_nothing_but_the_kernels_text_makes_it_one_for_a_gpu():
    """A process beside the submission's code could claim it; so could the launcher."""
    raised = "from labutils.backends.errors import NeedsGpu\n\n\ndef vector_add(x, y, out):\n    raise NeedsGpu('no')\n"
    verdict = judged(PTX, lambda text: raised if "add_kernel" in text else text)
    assert verdict.headline.kind == "error" and verdict.open == 0
    claimed = {"kind": NEEDS_GPU, "message": "so they say"}
    assert wire.problem_in(claimed).kind == "error"
    plain = {"language": "triton", "module": [["@triton.jit\ndef k(x):\n    pass\n", "file", 1]], "kernel": "k"}
    assert not language.needs_gpu(plain)
    assert not language.needs_gpu({"language": "cuda", "source": "__global__ void k() { /* asm */ }", "name": "k"})


def test_on_a_gpu_it_is_judged_there_alone(judge, monkeypatch):  # noqa: F811
    """The stand-in writes nothing, so that the GPU's verdict shows: no output was written."""
    Runner.answer = staticmethod(lambda number: {})
    monkeypatch.setattr(device, "has_gpu", lambda: True)
    verdict = judged(PTX, by=judge)
    assert Runner.jobs, "it never came to the GPU"
    assert verdict.headline.kind == "not-written" and verdict.open == 0
    assert verdict.counts == {} and any("on the GPU alone" in note for note in verdict.notes)
