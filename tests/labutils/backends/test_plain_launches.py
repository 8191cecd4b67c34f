"""Launches outside of a check, as a learner makes them who has pasted somebody's kernel into a notebook."""

import pytest
import torch

triton = pytest.importorskip("triton", reason="Triton is for Linux only")
import triton.language as tl  # noqa: E402

from labutils.backends import driver, hooks, interpreter, trace  # noqa: E402
from labutils.backends.access import Guard, Recorder  # noqa: E402

pytestmark = pytest.mark.skipif(not interpreter.ready(), reason="needs Triton's interpreter")


@triton.jit
def doubled_kernel(pointers_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """Row `program` of out is twice the vector that the pointer of this program leads to."""
    x_ptr = tl.load(pointers_ptr + tl.program_id(0)).to(tl.pointer_type(tl.float32))
    offs = tl.arange(0, BLOCK)
    tl.store(out_ptr + tl.program_id(0) * n + offs, 2 * tl.load(x_ptr + offs, mask=offs < n, other=0), mask=offs < n)


@triton.autotune(configs=[triton.Config({"BLOCK": 4}), triton.Config({"BLOCK": 8})], key=["n"])
@triton.jit
def tuned_kernel(x_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(x_ptr + offs, 1, mask=offs < n)


@pytest.mark.parametrize("recorder", [Guard(), Recorder()], ids=["guarded", "recorded"])
def test_a_loaded_pointer_leads_to_its_tensor(recorder):
    vectors = [torch.arange(5.0), torch.arange(5.0) + 10]
    pointers, out = torch.tensor([v.data_ptr() for v in vectors]), torch.zeros(2, 5)
    with hooks.recording(recorder, follow_pointers=True):
        doubled_kernel[(2,)](pointers, out, 5, BLOCK=8)
    assert torch.equal(out, 2 * torch.stack(vectors)) and recorder.findings == []


def test_past_the_end_of_a_loaded_pointers_tensor_is_outside():
    x, out, recorder = torch.ones(5), torch.zeros(1, 8), Guard()
    with hooks.recording(recorder, follow_pointers=True):
        doubled_kernel[(1,)](torch.tensor([x.data_ptr()]), out, 8, BLOCK=8)
    assert out[0, :5].sum() == 10
    (finding,) = recorder.findings
    assert (finding.array, finding.index, finding.count) == ("tensor(5)", 5, 3)


def test_a_number_that_is_no_tensors_address_leads_nowhere():
    out, recorder = torch.zeros(1, 8), Guard()
    with hooks.recording(recorder, follow_pointers=True):
        doubled_kernel[(1,)](torch.tensor([4096]), out, 8, BLOCK=8)
    assert [f.kind for f in recorder.findings] == ["out-of-bounds"]


def test_pointers_are_not_followed_unless_asked_to():
    x, recorder = torch.ones(8), Recorder()
    with hooks.recording(recorder):
        doubled_kernel[(1,)](torch.tensor([x.data_ptr()]), torch.zeros(1, 8), 8, BLOCK=8)
    assert [f.kind for f in recorder.findings] == ["out-of-bounds"]


def test_an_autotuned_launcher_runs_outside_of_a_check(monkeypatch):
    from triton.runtime.autotuner import Autotuner
    from triton.runtime.interpreter import GridExecutor

    monkeypatch.setattr(GridExecutor, "__call__", GridExecutor.__call__)  # both are put back afterwards
    monkeypatch.setattr(Autotuner, "_bench", Autotuner._bench)
    hooks.guard_plain_launches(pytest.fail)
    for n in (10, 20):  # the second key takes the second configuration
        x = torch.zeros(n, dtype=torch.int32)
        tuned_kernel[lambda meta, n=n: (triton.cdiv(n, meta["BLOCK"]),)](x, n)
        assert x.min() >= 1


def test_the_driver_answers_what_launchers_ask_and_nothing_that_needs_hardware():
    active = driver.WithoutGpu()
    target = active.get_current_target()
    assert (target.backend, target.arch) == ("cuda", 80)
    assert active.get_device_capability() == (8, 0)
    assert active.utils.get_device_properties(0)["multiprocessor_count"] == 108
    assert torch.empty(2, device=active.get_active_torch_device()).is_cpu
    with pytest.raises(driver.NoGpu, match="no GPU here, so nothing can be timed") as refused:
        active.get_benchmarker()
    assert refused.value._render_traceback_() == [str(refused.value)]


def test_a_trace_follows_pointers():
    x = torch.ones(4)

    def launch(out):
        doubled_kernel[(1,)](torch.tensor([x.data_ptr()]), out, 4, BLOCK=4)

    assert trace.trace(launch, torch.zeros(1, 4)) is not None


@triton.jit
def scaled_kernel(a_ptr, out_ptr, N: tl.constexpr):
    offs = tl.arange(0, N)[:, None] * N + tl.arange(0, N)[None, :]
    a = tl.load(a_ptr + offs)
    tl.store(out_ptr + offs, tl.dot_scaled(a, None, "e4m3", a, None, "e4m3"))


def test_what_the_interpreter_lacks_asks_for_a_gpu():
    a = torch.ones(32, 32).to(torch.float8_e4m3fn)
    with pytest.raises(Exception, match="tl.dot_scaled runs on an NVIDIA GPU only"):
        scaled_kernel[(1,)](a, torch.zeros(32, 32), N=32)
