"""Units 14 and 15: references against PyTorch, ledgers by hand, hidden sizes, the model of the L2, the counts."""

import random

import pytest
import torch

from grader.course.solutions import load, solution_text
from labutils.exercises import all_exercises, get
from labutils.gpu import device
from labutils.lessons import ladder, tiles
from labutils.spec.exercise import KernelExercise
from labutils.spec.inputs import make_run

KERNELS = [t for t in all_exercises().values() if t.unit[:2] in ("14", "15") and isinstance(t, KernelExercise)]


def unit_of(name, folder):
    """The solutions of a unit as a module."""
    path = folder / f"{name}.py"
    path.write_text(solution_text(name), encoding="utf-8")
    return load(str(path))


@pytest.mark.parametrize("task", KERNELS, ids=lambda t: t.id)
def test_the_reference_is_what_the_library_computes(task):
    run = make_run(task, task.cases[4], 3)
    inputs = run.inputs()
    (expected,) = task.expected(inputs).values()
    assert torch.allclose(expected, task.library(**inputs))


@pytest.mark.parametrize("task", KERNELS, ids=lambda t: t.id)
def test_hidden_sizes_are_small_and_differ(task):
    drawn = [tuple(task.draw(random.Random(k)).values()) for k in range(40)]
    assert len(set(drawn)) > 20
    assert max(task.cost(task.draw(random.Random(k)), 4).flops for k in range(40)) < 2**23


def test_loaded_bytes_by_counting():
    task = get("14_matmul_triton/loaded_bytes")
    for M, N, K, m, n in ((7, 9, 5, 4, 2), (8, 8, 3, 4, 8)):
        count = 0
        for i in range(0, M, m):
            for j in range(0, N, n):
                count += K * (min(m, M - i) + min(n, N - j))
        assert task.reference(M, N, K, m, n, 2) == 2 * count


def test_orders_and_what_the_l2_saves():
    rows = tiles.by_rows(4, 4)
    squares = [(2 * (g // 2) + w // 2, 2 * (g % 2) + w % 2) for g in range(4) for w in range(4)]
    assert sorted(rows) == sorted(squares)
    # a wave of 4 tiles needs 1 + 4 strips in a row, 2 + 2 in a square; with nothing kept between waves
    assert tiles.from_memory(rows, k_tiles=3, running=4, l2_tiles=5) == (96, 60)
    assert tiles.from_memory(squares, k_tiles=3, running=4, l2_tiles=4) == (96, 48)
    assert tiles.from_memory(rows, k_tiles=3, running=4, l2_tiles=99) == (96, 24)


def test_the_stepper_draws_every_step():
    pytest.importorskip("matplotlib")
    explorer = tiles.stepper(tiles.by_rows(3, 2), k_tiles=2, running=4, l2_tiles=6)
    for step in range(4):
        explorer.set(step=step)
        assert explorer.figure().alt.startswith(f"Step {step} of 3")
    assert tiles.stepper(None, 1, 1, 1) is None


def test_the_ladder_counts(tmp_path):
    cores, tensor_cores = unit_of("15_matmul_cuda", tmp_path), unit_of("15_matmul_tensor_cores", tmp_path)
    fp32 = {"columns": cores.by_columns, "register": cores.register}
    table = ladder.counts(fp32, {"pipelined": tensor_cores.pipelined})
    assert table["columns"]["sectors each"] == 16.5
    assert table["register"]["loaded/stored"] == 1 and table["register"]["shared/stored"] == 16
    assert "conflicts" not in table["pipelined"]


def test_the_ladder_shows_stored_rates_of_the_levels_it_is_given(monkeypatch, capsys):
    monkeypatch.setattr(device, "has_gpu", lambda: False)
    ladder.show_rates({"vector": None}, {})
    shown = capsys.readouterr().out
    assert "vector" in shown and "cuBLAS fp32" in shown
    assert "cuBLAS fp16" not in shown and "naive  " not in shown


@pytest.mark.parametrize("sizes", [(37, 150, 89), (257, 20, 200)], ids=str)
def test_the_pipeline_in_other_sizes(sizes, tmp_path):
    """The checks run small tiles: large ones, and other numbers of stages, without a GPU."""
    unit, (M, N, K) = unit_of("15_matmul_tensor_cores", tmp_path), sizes
    a, b = torch.randn(M, K).half(), torch.randn(K, N).half()
    for config in (unit.LARGE, (2, 4, 64, 2), (1, 1, 32, 4)):
        c = torch.full((M, N), torch.nan, dtype=torch.float16)
        unit.pipelined(a, b, c, config=config)
        assert torch.allclose(c.float(), a.float() @ b.float(), rtol=2e-3, atol=0.02), config


SMALL, DEEP, LARGE = ("small", 128, 128, 56832), ("<2,2,64,3>", 128, 128, 107520), ("<4,2,64,3>", 256, 256, 162816)
"""Kernel, rows of a tile, threads and shared memory of a block."""


@pytest.mark.parametrize(
    "capability, shape, depth, expected",
    [
        ((9, 0), (4096, 4096), 4096, LARGE),
        ((9, 0), (1024, 512), 255, SMALL),
        ((9, 0), (1024, 512), 256, DEEP),
        ((8, 9), (8192, 8192), 4096, SMALL),
        (None, (8192, 8192), 64, SMALL),
        (None, (128, 128), 300, DEEP),
    ],
    ids=["H200", "too few tiles", "long K", "99 KB", "no GPU", "no GPU, long K"],
)
def test_large_tiles_where_they_fit(capability, shape, depth, expected, tmp_path, monkeypatch):
    unit = unit_of("15_matmul_tensor_cores", tmp_path)
    gpu = capability and device.GPU("", capability, 132, device.limits_for(capability), "")
    monkeypatch.setattr(device, "current", lambda: gpu)
    launched = []

    class Kernel:
        def __init__(self, name):
            self.name, self.module = name, self

        def __getitem__(self, key):
            return Kernel(key) if isinstance(key, str) else launched.append((self.name, *key))

    unit.matmul_pipelined, unit.in_vectors = Kernel("small"), lambda *_: None
    unit.pipelined(torch.empty(shape[0], depth, device="meta"), None, torch.empty(shape, device="meta"))
    name, rows, threads, shared = expected
    name = name if name == "small" else f"matmul_pipelined{name}"
    assert launched == [(name, shape[0] // rows * (shape[1] // 128), threads, shared)]


@pytest.mark.gpu
@pytest.mark.skipif(not device.has_gpu(), reason="needs a CUDA GPU")
@pytest.mark.parametrize(
    "sizes",
    [
        (1, 1, 1),
        (127, 129, 127),
        (1000, 777, 333),
        (1024, 512, 256),
        (4100, 2049, 333),
        (100, 136, 5000),
        (3000, 2000, 64),
    ],
    ids=str,
)
def test_large_sizes_on_a_gpu(sizes, tmp_path):
    M, N, K = sizes
    for name, entries in (
        ("14_matmul_triton", ("matmul_relu",)),
        ("14_matmul_triton_persistent", ("persistent", "split_k", "matmul")),
        ("15_matmul_cuda", ("naive", "shared", "register")),
        ("15_matmul_cuda_vector", ("vector", "double")),
        ("15_matmul_tensor_cores", ("tensor", "pipelined")),
    ):
        unit = unit_of(name, tmp_path)
        for entry in entries:
            half = name.startswith("14") or entry in ("tensor", "pipelined")
            a, b = (
                torch.randn(s, device="cuda").to(torch.float16 if half else torch.float32) for s in ((M, K), (K, N))
            )
            c = torch.full((M, N), torch.nan, device="cuda", dtype=a.dtype)
            getattr(unit, entry)(a, b, c)
            x, y = a.double(), b.double()
            expected = (x @ y).clamp_min(0) if name.startswith("14") else x @ y
            shape, dtype = {"M": M, "N": N, "K": K}, str(a.dtype).removeprefix("torch.")
            contract = get(f"{name}/{entry if entry != 'matmul' else 'split_k'}").contract
            limit = contract.tolerance(expected, x.abs() @ y.abs(), shape, dtype)
            assert ((c.double() - expected).abs() <= limit).all(), entry
