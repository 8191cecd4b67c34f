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


def test_fragment_order_keeps_every_code():
    from labutils.lessons.fewer_bits_kernels import in_fragments

    words = torch.randint(-(2**31), 2**31, (3, 32), generator=torch.Generator().manual_seed(1)).to(torch.int32)
    ordered = in_fragments(words)
    for k in (0, 1, 37, 100, 127):  # the place that the kernels' comment gives
        u, b, c, t, e = k // 32, k // 16 % 2, k // 8 % 2, k // 2 % 4, k % 2
        found = ordered[:, 4 * t + u] >> 16 * e + 8 * b + 4 * c & 15
        assert torch.equal(found, words[:, k // 8] >> 4 * (k % 8) & 15)


@pytest.mark.skipif(device.has_gpu(), reason="the interpreter is chosen where there is no GPU")
def test_the_vector_kernel_multiplies_codes_as_subnormal_numbers():
    from labutils.lessons.fewer_bits_kernels import in_fragments, w4a16

    (a, words, scales, out), fp16 = fewer_bits.w4_arguments(1, 64, 512, "cpu")
    w4a16(a, in_fragments(words), scales, out)
    right = a.float() @ fp16.float().T  # the weights themselves are rounded here
    assert (out.float() - right).abs().max() < 3e-3 * right.abs().max()


@pytest.mark.gpu
def test_both_kernels_agree_with_fp16_weights_on_a_gpu():
    from labutils.lessons.fewer_bits_kernels import in_fragments, w4a16

    for M in (1, 5, 16, 64):
        (a, words, scales, out), fp16 = fewer_bits.w4_arguments(M, 512, 1024)
        w4a16(a, in_fragments(words), scales, out)
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
