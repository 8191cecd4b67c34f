"""The benchmark of unit 24, on small arrays without a GPU: every part runs, and a wrong kernel is not timed."""

import types

import pytest
import torch

from bench import block_kernels as bench
from bench.common import solution


class Calls:
    """In place of a table: calls each competitor once and takes a second for it."""

    def __init__(self):
        self.rows = []

    def compare(self, name, moved, rings):
        for ring in rings.values():
            ring[0]()
        seconds = dict.fromkeys([*rings, "copy"], 1.0)
        self.rows.append({"name": name, "bytes": moved, "seconds": seconds})
        return seconds


@pytest.fixture
def table(monkeypatch):
    monkeypatch.setattr(bench, "DEVICE", "cpu")
    torch.manual_seed(0)
    return Calls()


PARTS = [(bench.rope, (1, 64, 2, 1)), (bench.swiglu, (3, 40)), (bench.swiglu_backward, (3, 40)), (bench.norm, (9, 40))]


@pytest.mark.parametrize(("part", "shape"), PARTS)
def test_ours_and_pytorch_are_compared(part, shape, table):
    part(table, solution(bench.UNIT), *shape)
    (row,) = table.rows
    assert {"ours", "PyTorch"} <= row["seconds"].keys() and row["reached"]["copy"] == 1.0


@pytest.mark.parametrize(("part", "shape"), PARTS)
def test_a_wrong_kernel_is_not_timed(part, shape, table, capsys):
    idle = types.SimpleNamespace(
        rope=lambda *_: None, swiglu=lambda *_: None, swiglu_backward=lambda *_: None, rms_norm_backward=lambda *_: None
    )
    part(table, idle, *shape)
    assert not table.rows and "off by" in capsys.readouterr().out


def test_what_fails_is_left_out(table, capsys):
    def broken():
        raise RuntimeError("no such operator")

    bench.in_turns(table, "nothing", 1, [()], {"ours": lambda: None, "Liger": broken})
    assert "Liger" not in table.rows[0]["seconds"] and "no such operator" in capsys.readouterr().out


def test_every_kernel_has_variants_that_run(table, monkeypatch):
    """The first and the last variant of each kernel, on small arrays."""
    names = []

    def tune(name, moved, variants, ring, best):
        names.append(name.split(",")[0])
        for variant in (next(iter(variants)), list(variants)[-1]):
            variants[variant](*ring[0])

    table.tune = tune
    card = types.SimpleNamespace(multi_processor_count=16)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: card)
    monkeypatch.setattr(bench, "ROPE", ((1, 8, 2, 1),))
    monkeypatch.setattr(bench, "GATES", ((2, 600),))
    monkeypatch.setattr(bench, "NORMS", ((9, 512),))
    bench.tune(table)
    assert names == ["rope", "swiglu", "swiglu_backward", "rms_norm_backward", "column_sums", "column_sums"]
