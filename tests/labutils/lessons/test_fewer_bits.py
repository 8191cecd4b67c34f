"""Unit 22's lesson: errors grow as bits go, fragment order keeps the weights, and it runs without a GPU."""

import pytest
import torch

from labutils.gpu import device
from labutils.lessons import fewer_bits


def test_blocks_keep_outliers_apart():
    table = {name: (bits, plain, spiked) for name, bits, plain, spiked in fewer_bits.error_table(256)}
    assert table["fp16"][1] < table["bf16"][1] < table["E4M3, blocks of 128"][1] < table["NVFP4"][1]
    assert table["E4M3, a scale per row"][2] < 0.05, "its exponents reach far enough"
    assert table["E2M1, a scale per row"][2] > 0.9 and table["NVFP4"][2] < 0.5
    assert table["NVFP4"][0] == 4.5 and table["MXFP4"][0] == 4.25


def test_blocks_of_128_come_back():
    x = torch.randn(256, 256, generator=torch.Generator().manual_seed(1))
    codes, scales = fewer_bits.blocks_of_128(x, 128)
    assert codes.dtype == torch.uint8 and scales.shape == (2, 2)
    back = codes.view(torch.float8_e4m3fn).float() * scales.repeat_interleave(128, 0).repeat_interleave(128, 1)
    assert ((back - x).abs() <= x.abs() / 16 + scales.max() * 2**-10).all()


def words_and_scales(rows, groups):
    g = torch.Generator().manual_seed(1)
    words = torch.randint(-(2**31), 2**31, (rows, 16 * groups), generator=g).to(torch.int32)
    return words, torch.rand(rows, groups, generator=g)


@pytest.mark.parametrize("rows, t_place, c_place", [(16, 4, 2), (32, 4, 2), (64, 2, 8)])
def test_fragment_order_keeps_every_code(rows, t_place, c_place):
    from labutils.lessons.fewer_bits_kernels import in_fragments

    words, scales = words_and_scales(128, 2)
    ordered, in_tiles = in_fragments(words, scales, rows)
    assert ordered.shape == (128 // rows, 2, rows, 16)
    assert torch.equal(in_tiles[:, 1].flatten(), scales[:, 1])
    for k in (0, 1, 37, 100, 127):  # the place that the kernel's comment gives
        word, bit = 4 * (k // t_place % 4) + k // 32, 16 * (k % 2) + 8 * (k // 16 % 2) + 4 * (k // c_place % 2)
        found = ordered[:, 1, :, word] >> bit & 15
        assert torch.equal(found.flatten(), words[:, 16 + k // 8] >> 4 * (k % 8) & 15)


def codes_of(words):
    return torch.stack([words >> 4 * j & 15 for j in range(8)], -1).flatten(-2)


def fragments(words):
    """What the kernels' function of this name does, with codes instead of numbers."""
    x = torch.stack([words, words >> 8], -1)
    return torch.stack([torch.stack([x >> bit & 15, x >> bit + 4 & 15], -1) for bit in (0, 16)], -1)


def test_reshapes_give_the_rows_of_each_warp():
    """What `rows_kernel` does, in PyTorch."""
    from labutils.lessons.fewer_bits_kernels import WARPS, in_fragments

    words, scales = words_and_scales(16 * WARPS, 1)
    x = fragments(in_fragments(words, scales, 16 * WARPS)[0][0, 0]).reshape(2, WARPS, 8, 4, 4, 2, 2, 2)
    x = x.permute(1, 0, 2, 4, 5, 6, 3, 7).reshape(16 * WARPS, 128)
    rows = torch.arange(16 * WARPS).reshape(2, WARPS, 8).permute(1, 0, 2).flatten()
    assert torch.equal(x, codes_of(words)[rows])


@pytest.mark.parametrize("split", [2, 4])
@pytest.mark.parametrize("rows", [16, 32])
def test_reshapes_give_each_warp_its_group(rows, split):
    """What `row_kernel` does, in PyTorch."""
    from labutils.lessons.fewer_bits_kernels import in_fragments

    words, scales = words_and_scales(rows, split)
    ordered = in_fragments(words, scales, rows)[0][0].reshape(-1, 16)
    r = torch.arange(split * rows)
    x = fragments(ordered[r // 8 % split * rows + r // (8 * split) * 8 + r % 8])
    x = x.reshape(rows // 8, split, 8, 4, 4, 2, 2, 2).permute(1, 0, 2, 4, 5, 3, 6, 7).reshape(split, rows, 128)
    assert torch.equal(x, codes_of(words.reshape(rows, split, 16)).transpose(0, 1))


@pytest.mark.gpu
@pytest.mark.parametrize(
    "M, rows, K",
    [
        (1, 16, 512),
        (1, 16, 1024),
        (1, 32, 1024),
        (1, 16, 16384),
        (1, 16, 16896),
        (5, 64, 1024),
        (16, 64, 1024),
        (64, 64, 1024),
    ],
)
def test_the_kernel_agrees_with_fp16_weights_on_a_gpu(M, rows, K):
    from labutils.lessons.fewer_bits_kernels import in_fragments, w4a16

    (a, words, scales, out), fp16 = fewer_bits.w4_arguments(M, 512, K)
    w4a16(a, *in_fragments(words, scales, rows), out)
    right = a.float() @ fp16.float().T
    assert (out.float() - right).abs().max() < 3e-3 * right.abs().max()


@pytest.mark.gpu
def test_the_gluon_product_is_right():
    if not device.runs(fewer_bits.HOPPER):
        pytest.skip("needs a Hopper GPU")
    calls, right, c = fewer_bits.fp8_calls(512)
    calls["Gluon"]()
    assert (c[:128].float() - right).abs().max() < 5e-3 * right.abs().max()


def test_without_a_gpu_everything_prints(capsys):
    if device.has_gpu():
        pytest.skip("this is about machines without one")
    fewer_bits.errors()
    fewer_bits.fp8_race(None)
    fewer_bits.w4_race(None)
    fewer_bits.gradients(
        lambda values, smallest, scale: sum(abs(v * scale) <= smallest / 2 for v in values) / len(values)
    )
    fewer_bits.claims(lambda exponent, mantissa, top: (240.0 if top == "ieee" else 448.0,))
    printed = capsys.readouterr().out
    for part in ("NVFP4", "for k in range(steps)", "No Hopper GPU", "3.88", "fp8 e5m2", "1620 GB", "228 GB", "4500"):
        assert part in printed
