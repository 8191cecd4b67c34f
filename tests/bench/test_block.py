"""The benchmark of the block and the loss, on small arrays without a GPU: all competitors agree, wrong ones are out."""

import functools

import pytest
import torch

from bench import block as bench
from labutils.exercises import block_capstone
from labutils.lessons import blocks, capstone
from labutils.timing.stopwatch import Sample

SIZES = block_capstone.sizes_of(B=2, T=8, C=32, H=2, HK=1, D=16, F=16)


class Watch:
    """Calls each competitor once. The first one takes 10 ms, each further one a millisecond more."""

    def take_turns(self, rings):
        for ring in rings.values():
            ring[0]()
        return {name: Sample(name, (0.010 + 0.001 * k,) * 9) for k, name in enumerate(rings)}


@pytest.fixture(autouse=True)
def on_cpu(monkeypatch):
    monkeypatch.setattr(bench, "DEVICE", "cpu")
    fp16 = functools.partial(capstone.data, dtype="float16")  # Triton's interpreter computes with the bits of bf16
    monkeypatch.setattr(capstone, "data", fp16)
    monkeypatch.setattr(bench, "stopwatch", Watch)
    monkeypatch.setattr(bench, "parts", lambda call: {"a kernel": 1.0})
    monkeypatch.setattr(torch, "compile", lambda fn, **options: fn)
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: None)


def test_the_block_is_compared_with_the_faster_mode(capsys):
    found = bench.measure_block(SIZES)
    assert list(found["seconds"]) == ["ours", "eager", *(f"torch.compile, {mode}" for mode in bench.MODES)]
    assert found["speedup"]["over"] == f"torch.compile, {bench.MODES[0]}"
    assert found["speedup"]["value"] == pytest.approx(1.2)
    assert "reached speedup" in capsys.readouterr().out


def test_a_wrong_block_is_not_timed(monkeypatch, capsys):
    class Wrong:
        @staticmethod
        def block(x, out, **_):
            out.copy_(x)

    monkeypatch.setattr(bench, "solution", lambda unit: Wrong)
    found = bench.measure_block(SIZES)
    assert "ours" not in found["seconds"] and "speedup" not in found
    assert "left out: ours: differs by more" in capsys.readouterr().out


def test_what_fails_is_left_out(capsys):
    def broken():
        raise RuntimeError("no such operator")

    assert list(bench.usable({"broken": broken, "right": lambda: 1.0}, lambda result: 0.0)) == ["right"]
    assert "no such operator" in capsys.readouterr().out


def test_the_loss_is_compared_with_pytorch(monkeypatch, capsys):
    def data(rows, width, vocabulary):
        g = torch.Generator().manual_seed(0)
        x, w = (torch.randn(n, width, generator=g).half() for n in (rows, vocabulary))
        targets = torch.randint(0, vocabulary, (rows,), generator=g, dtype=torch.int32)
        return x, w, targets, torch.empty(1), torch.empty_like(x)

    monkeypatch.setattr(blocks, "loss_data", data)
    monkeypatch.setattr(blocks, "loss_peaks", lambda loss, *sizes: {"PyTorch": 400, "in chunks": 120})
    found = bench.measure_loss((5, 16, 70))
    assert list(found["seconds"]) == ["ours", "eager", "torch.compile"]
    printed = capsys.readouterr().out
    assert "reached time of eager's: 0.909" in printed and "MISSED  memory of PyTorch's: 0.300" in printed
