"""Units 11 to 13: references beside PyTorch, the random numbers beside Triton's, known mistakes that say something."""

import math
import random

import pytest
import torch

from labutils.exercises import all_exercises, fusion, fusion_dropout, get, online_softmax, softmax
from labutils.spec.exercise import KernelExercise, named
from labutils.spec.inputs import make_run

UNITS = ("11_softmax", "12_online_softmax", "13_fusion", "13_fusion_dropout")
KERNELS = [t for t in all_exercises().values() if t.unit in UNITS and isinstance(t, KernelExercise)]


@pytest.mark.parametrize("task", KERNELS, ids=lambda t: t.id)
def test_an_honest_result_in_fp32_is_within_the_tolerance(task):
    for case in task.cases:
        run = make_run(task, case, 3)
        inputs = run.inputs()
        expected = task.expected(inputs)
        size = named(task.magnitude(**inputs), tuple(task.outputs))
        single = {n: v.float() if isinstance(v, torch.Tensor) else v for n, v in inputs.items()}
        for name, got in task.expected(single).items():
            y = expected[name]
            limit = task.contract.tolerance(y, size[name], case.sizes, task.dtype(case, name))
            finite = torch.isfinite(y)
            assert torch.equal(torch.isnan(got), torch.isnan(y)), (case.name, name)
            assert ((got.double() - y).abs() <= limit)[finite].all(), (case.name, name)


@pytest.mark.parametrize("task", KERNELS, ids=lambda t: t.id)
def test_every_known_mistake_differs_from_the_right_answer_somewhere(task):
    telling = set()
    for case in task.cases:
        inputs = make_run(task, case, 5).inputs()
        expected = task.expected(inputs)
        for number, mistake in enumerate(task.known_mistakes):
            for name, wrong in named(mistake.compute(**inputs), tuple(task.outputs)).items():
                if not torch.allclose(wrong.double(), expected[name], 1e-6, 1e-30, equal_nan=True):
                    telling.add(number)
    assert [s.sentence for k, s in enumerate(task.known_mistakes) if k not in telling] == []


@pytest.mark.parametrize("task", KERNELS, ids=lambda t: t.id)
def test_hidden_sizes_are_small_enough_to_interpret(task):
    for seed in range(50):
        sizes = task.draw(random.Random(seed))
        assert sizes["M"] >= 1 and sizes["N"] >= 1 and sizes["M"] * sizes["N"] <= 200_000


def test_a_row_of_nothing_but_minus_infinity():
    x = torch.full((2, 3), -torch.inf, dtype=torch.float64)
    assert torch.isnan(get("11_softmax/softmax").reference(x)).all()
    both = get("12_online_softmax/split_softmax").reference(x)
    assert torch.isnan(both["out"]).all() and torch.equal(both["lse"], torch.full((2,), -torch.inf).double())
    assert online_softmax._merged_sum(-math.inf, 0.0, -math.inf, 0.0) == 0.0


def test_the_launchers_tile_and_the_known_mistakes_agree():
    assert [softmax.rows_per_program(n) for n in (1, 128, 129, 4096, 5000)] == [8, 8, 4, 1, 1]
    assert [softmax.block_threads(n) for n in (1, 2048, 2049, 5000, 32_768)] == [64, 64, 96, 160, 1024]
    assert softmax.threads_of(2052)[[3, 4, 4 * 95, 4 * 96]].tolist() == [0, 1, 95, 0]
    assert softmax.threads_of(2049)[[3, 95, 96, 2048]].tolist() == [3, 95, 0, 32]


def test_philox_gives_the_published_numbers():
    """Known answers of the authors' library (Random123, kat_vectors) for a counter of zeros and a key of zeros."""
    got = [int(c) for c in fusion_dropout.philox(0, torch.zeros(1, dtype=torch.int64))]
    assert got == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]


def test_random_numbers_are_tritons(tmp_path):
    triton = pytest.importorskip("triton")
    tl = pytest.importorskip("triton.language")

    @triton.jit
    def draw(out_ptr, seed, BLOCK: tl.constexpr):
        numbers = tl.rand4x(seed, tl.arange(0, BLOCK))
        for k in tl.static_range(4):
            tl.store(out_ptr + 4 * tl.arange(0, BLOCK) + k, numbers[k])

    for seed in (1, 12345, 2**31 - 1):
        out = torch.empty(64)
        draw[(1,)](out, seed, BLOCK=16)
        assert torch.equal(out.double(), fusion_dropout.uniform(seed, 1, 64)[0])


def test_rows_draw_from_counters_of_their_own():
    """Rows of 5 take two counters each: the second row begins at counter 2."""
    whole = fusion_dropout.uniform(7, 1, 16)[0]
    assert torch.equal(fusion_dropout.uniform(7, 2, 5), torch.stack([whole[:5], whole[8:13]]))


def test_the_mask_is_random():
    """Mean, rows, columns and neighbours within four standard deviations."""
    u = fusion_dropout.uniform(99, 256, 1024)
    kept = (u >= 0.25).double() - 0.75
    n = kept.numel()
    assert abs(kept.mean()) < 4 * math.sqrt(0.1875 / n)
    assert kept.mean(1).abs().max() < 4.5 * math.sqrt(0.1875 / 1024)
    assert kept.mean(0).abs().max() < 4.5 * math.sqrt(0.1875 / 256)
    for axis in (0, 1):
        assert abs((kept * kept.roll(1, axis)).mean()) / 0.1875 < 4 / math.sqrt(n)
    assert u.min() >= 0 and u.max() < 1


def test_norms_are_pytorchs():
    x, w, b = torch.randn(5, 33).double(), torch.randn(33).double(), torch.randn(33).double()
    F = torch.nn.functional
    torch.testing.assert_close(get("13_fusion/layer_norm").reference(x, w, b), F.layer_norm(x, (33,), w, b, 1e-5))
    torch.testing.assert_close(get("13_fusion/rms_norm").reference(x, w), F.rms_norm(x, (33,), w, 1e-6))


def test_the_backward_pass_is_the_forward_passes():
    h = torch.randn(3, 50, dtype=torch.float64, requires_grad=True)
    bias, dy = torch.randn(50).double(), torch.randn(3, 50).double()
    y = get("13_fusion_dropout/dropout_gelu").reference(h, bias, 0.25, 11)
    (expected,) = torch.autograd.grad(y, h, dy)
    got = get("13_fusion_dropout/dropout_gelu_backward").reference(h.detach(), bias, dy, 0.25, 11)
    torch.testing.assert_close(got, expected)


def test_six_chains():
    gains = {}
    for name, (links, fused, peak) in fusion.CHAINS.items():
        gains[name] = fusion._fusion_speedup(links, fused, fusion.COPY, peak)
    worth = [name for name, gain in gains.items() if gain > 1.05]
    lost = [name for name, gain in gains.items() if gain < 0.95]
    assert worth[0] == "bias, GELU, dropout" and len(gains) == 6
    assert "two matmuls, the first recomputed for each tile of the second" in lost
    print(gains)
