"""Unit 22: codes beside the library's casts and the scalar formats, packed words, formulas of the plain exercises."""

import pytest
import torch

from labutils.check.evaluate import compare_plain
from labutils.exercises import _codes, get
from labutils.exercises import low_precision_blocks as blocks
from labutils.exercises import low_precision_matmul as matmul
from labutils.exercises import low_precision_weights as weights
from labutils.gpu.formats import FORMATS
from labutils.spec.inputs import make_run

E4M3, E2M1 = FORMATS["fp8 e4m3"], FORMATS["fp4 e2m1"]


def numbers(of, count=4000):
    g = torch.Generator().manual_seed(3)
    x = torch.randn(count, generator=g, dtype=torch.float64) * of.largest / 3
    return torch.cat([x, _codes.midpoints((count,), g, of), torch.tensor([0.0, -0.0, of.largest, -of.smallest / 2])])


@pytest.mark.parametrize("of", [E4M3, E2M1])
def test_codes_are_those_of_the_scalar_format(of):
    x = numbers(of).clamp(-of.largest, of.largest)
    assert _codes.encode(x, of).tolist() == [of.encode(v) for v in x.tolist()]
    assert _codes.decode(_codes.encode(x, of), of).tolist() == [of.stored(v) for v in x.tolist()]


def test_e4m3_codes_are_those_of_pytorch():
    x = numbers(E4M3).float().clamp(-448, 448)
    cast = x.to(torch.float8_e4m3fn).view(torch.uint8)
    assert torch.equal(_codes.encode(x.double(), E4M3), cast.double())


def test_larger_values_saturate():
    assert _codes.encode(torch.tensor([1e9, -500.0], dtype=torch.float64), E4M3).tolist() == [126, 254]
    assert _codes.encode(torch.tensor([6.9, -100.0], dtype=torch.float64), E2M1).tolist() == [7, 15]


def test_only_rounding_near_a_middle_is_in_doubt():
    y = torch.tensor([17.0, 17.0 * (1 + 2**-22), 17.001, 16.0, 2**-10], dtype=torch.float64)
    assert _codes.near_tie(y, E4M3).tolist() == [True, True, False, False, True]


def test_codes_must_be_exact_where_the_scale_is_a_power_of_two():
    exercise = get("22_low_precision/quantize_rows")
    run = make_run(exercise, next(c for c in exercise.cases if "ties" in c.name), 5)
    assert not exercise.magnitude(**run.inputs())["q"].any()


@pytest.mark.parametrize("name", ["nvfp4", "mxfp4"])
def test_what_is_stored_comes_back_within_half_a_step(name):
    g = torch.Generator().manual_seed(1)
    size = 16 if name == "nvfp4" else 32
    x = torch.randn(200, size, generator=g, dtype=torch.float64)
    if name == "nvfp4":
        made = blocks._nv(x, 2.0**-6)
        back = blocks._dequantized(made["codes"], made["scales"], 2.0**-6)
    else:
        made = blocks._mx(x)
        back = _codes.decode(blocks.unpacked(made["codes"]), E2M1) * torch.exp2(made["scales"] - 127)[:, None]
    # a step at the top is a third of the largest value; MX may cut 8 down to 6, NVFP4 has a scale off by 1/16
    assert ((back - x).abs() <= x.abs().amax(1, keepdim=True) * (0.26 if name == "mxfp4" else 0.24)).all()


def test_mx_brings_the_largest_value_to_4_to_8():
    amax = torch.tensor([[4.0], [7.99], [8.0], [1.0], [2.0**-20], [0.0]], dtype=torch.float64)
    code = blocks.mx_code(amax)[:, 0]
    assert code.tolist() == [127, 127, 128, 125, 105, 0]


def test_the_even_element_is_in_the_low_half():
    assert blocks.packed(torch.tensor([[1, 2, 15, 0]])).tolist() == [[33, 15]]
    assert blocks.unpacked(torch.tensor([[33, 15]])).tolist() == [[1, 2, 15, 0]]


def test_nibbles_are_weights_in_turn():
    words = torch.tensor([[0x76543210, -0x12345679 - 1 + 1]] * 1, dtype=torch.float64).repeat(1, 8)
    codes = weights.in_turn(weights.nibbles(words))[0].tolist()
    assert codes[:8] == [0, 1, 2, 3, 4, 5, 6, 7] and codes[8:16] == [7, 8, 9, 10, 11, 12, 13, 14]


def test_fp8_product_is_that_of_dequantized_operands():
    exercise = get("22_low_precision/fp8_matmul")
    inputs = make_run(exercise, next(c for c in exercise.cases if "70 × 130" in c.name), 3).inputs()
    a, b, sa, sb = inputs.values()
    whole = torch.zeros(len(a), len(b), dtype=torch.float64)
    for g in range(2):
        k = slice(128 * g, 128 * (g + 1))
        rows = _codes.decode(a[:, k], E4M3) * sa[:, g, None]
        columns = _codes.decode(b[:, k], E4M3) * sb[torch.arange(len(b)) // 128, g][:, None]
        whole += rows @ columns.T
    torch.testing.assert_close(matmul._fp8(**inputs), whole)


def test_facts_of_the_formats():
    exercise = get("22_low_precision/facts")
    expected = {"FP16": (65504.0, 2.0**-14, 2.0**-24, 11), "FP8 E4M3": (448.0, 2.0**-6, 2.0**-9, 4)}
    for case in exercise.cases:
        right = expected.get(case.name)
        if right:
            assert compare_plain(exercise, case, right, case.sizes) is None
            wrong = compare_plain(exercise, case, (*right[:3], right[3] - 1), case.sizes)
            assert "leading 1" in wrong.advice


def test_e4m3_of_240_is_named():
    exercise = get("22_low_precision/facts")
    case = next(c for c in exercise.cases if c.name == "FP8 E4M3")
    assert "encodes numbers too" in compare_plain(exercise, case, (240.0, 2.0**-6, 2.0**-9, 4), case.sizes).advice
