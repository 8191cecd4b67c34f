"""Widgets without a browser: state, pictures, words; and the picture that stays when nothing is live."""

import sys

import pytest

import labutils as lab
from labutils import plots
from labutils.gpu.roofline import Ledger, nbytes
from labutils.plots import explorer

ALL = ("occupancy", "waves", "latency", "divergence", "coalescing", "banks", "roofline", "ladder", "formats")


@pytest.mark.parametrize("name", ALL)
def test_every_widget_draws_its_state_and_says_it(name):
    widget = getattr(lab.widgets, name)()
    bundle = widget._repr_mimebundle_()
    picture = widget.figure()
    assert picture.get_figwidth() <= 8 and len(picture.alt) > 40
    assert bundle["text/plain"] == picture.alt
    assert "<img alt=" in bundle["text/html"] and "max-width:100%" in bundle["text/html"]
    assert explorer.VIEW not in bundle  # no notebook is listening
    assert isinstance(widget.state, dict) and widget.state


def test_occupancy_names_what_limits():
    widget = lab.widgets.occupancy(threads=128, registers=160, gpu="H100 SXM")
    assert "12 of 64 warps, 18.75 %. The limit is registers" in widget.figure().alt
    widget.set(threads=256, registers=40, shared_kb=32)
    assert widget.state == {"threads": 256, "registers": 40, "shared_kb": 32, "gpu": "H100 SXM"}
    assert "48 of 64 warps, 75 %. The limit is registers and shared memory" in widget.figure().alt
    widget.set(gpu="T4")
    assert "of 32 warps" in widget.figure().alt
    with pytest.raises(ValueError, match="threads per block goes from 32 to 1024"):
        widget.set(threads=4096)
    with pytest.raises(ValueError, match="no control 'blocks'"):
        widget.set(blocks=1)


def test_controls_move_the_picture():
    widget = lab.widgets.waves()
    view = widget.widget()
    controls, picture = view.children
    assert "160 blocks on 148 SMs" in picture.value
    controls.children[0].value = 148
    assert widget.state["blocks"] == 148 and "100.0% of all places" in picture.value
    widget.set(blocks=149)
    assert controls.children[0].value == 149 and "2 waves, 1 block in the last" in picture.value


KERNEL = """
__global__ void spread(const float* x, float* y) {
    __shared__ float s[64];
    int i = threadIdx.x;
    s[2 * i] = x[2 * i];
    __syncthreads();
    y[i] = s[62 - 2 * i];
}
"""


def test_from_a_recorded_and_a_compiled_kernel():
    torch = pytest.importorskip("torch")
    from labutils.cuda import nvrtc

    if not nvrtc.available():
        pytest.skip("needs NVRTC")
    kernel = lab.cuda.compile(KERNEL, "spread")
    with pytest.raises(ValueError, match="not recorded yet"):
        lab.widgets.coalescing(kernel)
    with lab.record():
        kernel[1, 32](torch.zeros(64), torch.zeros(32))
    sectors = lab.widgets.coalescing(kernel)
    assert "line 5: s[2 * i] = x[2 * i]; makes 1 requests of warps with 8 sectors, 8 each; 4 would do" in (
        sectors.figure().alt
    )
    assert "with 2 wavefronts, 2 each; 1 would do" in lab.widgets.banks(kernel).figure().alt
    taken = lab.widgets.occupancy(kernel, threads=32, gpu="A100 80GB")
    assert taken.state["shared_kb"] == 1 and 4 < taken.state["registers"] < 64


def test_accesses_of_a_triton_launch():
    triton, torch = pytest.importorskip("triton"), pytest.importorskip("torch")
    import triton.language as tl

    @triton.jit
    def every_other_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
        offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(out_ptr + offs, tl.load(x_ptr + 2 * offs))

    def every_other(x, out):
        every_other_kernel[(2,)](x, out, BLOCK=32)

    widget = lab.widgets.coalescing(every_other, torch.zeros(128), torch.zeros(64))
    assert "touch 8 sectors, 256 bytes moved for 128 asked for" in widget.figure().alt
    widget.set(access=2)
    assert "touch 4 sectors" in widget.figure().alt


def test_roofline_takes_ledgers_and_measured_ones():
    x = nbytes(1 << 20)
    add = Ledger({"x": x, "y": x}, {"out": x}, flops=1 << 20)
    widget = lab.widgets.roofline({"add": (add, 3 * x / 2.4e12), "also add": add}, gpu="H200")
    said = widget.figure().alt
    assert "add, 0.0833 FLOP/byte, memory-bound, 50% of its roof" in said
    assert "also add, 0.0833 FLOP/byte, memory-bound, at most 400 GFLOP/s" in said
    widget.set(precision="fp16")
    assert "H200 fp16 has its ridge at 206" in widget.figure().alt
    widget.set(precision="fp4")  # an H200 has none
    assert "H200 fp32" in widget.figure().alt


def test_without_matplotlib_or_while_grading_a_sentence_stands_there(monkeypatch):
    widget = lab.widgets.waves()
    monkeypatch.setenv("NBGRADER_EXECUTION", "autograde")
    assert widget._repr_mimebundle_() == {"text/plain": "picture skipped while grading"}
    monkeypatch.delenv("NBGRADER_EXECUTION")
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    plots._picture.cache_clear()
    assert "No picture: matplotlib cannot be loaded" in widget._repr_mimebundle_()["text/plain"]
    plots._picture.cache_clear()
