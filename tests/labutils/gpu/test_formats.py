"""Number formats against PyTorch's own conversions, code by code."""

import math

import pytest
import torch

from labutils.gpu.formats import FORMATS

TORCH = {
    "fp32": torch.float32,
    "bf16": torch.bfloat16,
    "fp16": torch.float16,
    "fp8 e4m3": torch.float8_e4m3fn,
    "fp8 e5m2": torch.float8_e5m2,
}


@pytest.mark.parametrize("name", ["bf16", "fp16", "fp8 e4m3", "fp8 e5m2"])
def test_every_code_has_pytorchs_value(name):
    form = FORMATS[name]
    codes = torch.arange(1 << form.bits, dtype=torch.int32)
    raw = codes.to(torch.int16 if form.bits == 16 else torch.uint8).view(TORCH[name])
    theirs = raw.float().tolist()
    for code, value in enumerate(theirs):
        ours = form.decode(code)
        assert ours == value or (math.isnan(ours) and math.isnan(value)), code
        if math.isfinite(value):
            assert form.encode(value) == code


@pytest.mark.parametrize("name", sorted(TORCH))
def test_rounding_and_range(name):
    form, info = FORMATS[name], torch.finfo(TORCH[name])
    assert (form.largest, form.smallest_normal, form.step(1.0)) == (info.max, info.smallest_normal, info.eps)
    values = torch.cat([torch.randn(2000) * 2.0**k for k in range(-20, 8)])  # fp32: from fp64 PyTorch rounds twice
    values = values[values.abs() < 440]
    theirs = values.to(TORCH[name]).float().tolist()
    assert [form.stored(v) for v in values.tolist()] == theirs


def test_tf32_and_fp4():
    assert FORMATS["tf32"].bits == 19 and FORMATS["tf32"].stored(1 + 2.0**-11) == 1.0
    assert [FORMATS["fp4 e2m1"].decode(c) for c in range(8)] == [0, 0.5, 1, 1.5, 2, 3, 4, 6]
    assert FORMATS["fp4 e2m1"].stored(1e9) == 6 and FORMATS["fp4 e2m1"].stored(2.5) == 2
    assert math.isnan(FORMATS["fp8 e4m3"].stored(math.inf)) and FORMATS["fp8 e5m2"].stored(1e9) == math.inf
    assert FORMATS["fp16"].fields(-1.5) == ("1", "01111", "1000000000")
