"""Kernels over rows of any width: what the compiler makes of the solutions' loads and stores."""

import re

import pytest
import torch

from grader.course.solutions import load_text, solution_text
from labutils.backends.offline import Compiler, launch_spec

HALF, FLOAT, BYTE = torch.float16, torch.float32, torch.uint8
ROWS = {
    "11_softmax": {
        "softmax": dict(arrays=[HALF, HALF], strides=2, BLOCK_N=8192, num_warps=16),
    },
    "12_online_softmax": {
        "online_softmax": dict(arrays=[HALF, HALF], strides=2, BLOCK_N=4096, num_warps=8),
    },
    "13_fusion_dropout": {
        "dropout_gelu": dict(arrays=[HALF] * 3, numbers=(0.1, 7), strides=2, BLOCK_N=1024),
        "dropout_gelu_backward": dict(arrays=[HALF] * 4, numbers=(0.1, 7), strides=3, BLOCK_N=1024),
    },
    "22_low_precision": {
        "quantize_rows": dict(arrays=[HALF, BYTE, FLOAT], strides=2, BLOCK_N=8192, num_warps=4),
    },
    "24_block_kernels": {
        "swiglu": dict(arrays=[HALF] * 2, strides=2, BLOCK_N=1024),
        "swiglu_backward": dict(arrays=[HALF] * 3, strides=3, BLOCK_N=1024),
        "rms_norm_backward": dict(
            arrays=[HALF] * 4 + [FLOAT], numbers=(99,), strides=3, BLOCK_N=8192, STAGES=1, num_warps=16
        ),
    },
}  # fmt: skip
"""Launches of the solutions' kernels, by unit and name: element types, numbers before N, row strides, options."""


@pytest.mark.parametrize("unit, name", [(unit, name) for unit, kernels in ROWS.items() for name in kernels])
@pytest.mark.parametrize("N, bits", [(5000, 128), (5004, 64), (777, 16)])
def test_rows_are_moved_in_the_widest_pieces_that_are_aligned(unit, name, N, bits, tmp_path):
    """Rows of fp16. 16 divides no N: Triton finds the alignment because N and the strides are constants."""
    options = dict(ROWS[unit][name])
    arrays = [torch.empty(16, dtype=kind) for kind in options.pop("arrays")]
    numbers, strides = options.pop("numbers", ()), options.pop("strides")
    kernel = getattr(load_text(solution_text(unit), tmp_path), f"{name}_kernel")
    spec = launch_spec(kernel, (*arrays, *numbers, N, *[N] * strides), options)
    texts, _ = Compiler((90,)).listings(spec)
    plain = r"{}\.global[\w.:]*?(?:\.v(\d))?\.b(\d+)"
    loads, stores = (
        {int(count or 1) * int(each) for count, each in re.findall(plain.format(kind), texts["ptx"])}
        for kind in ("ld", "st")
    )
    loads |= {8 * int(count, 16) for count in re.findall(r"cp\.async\S* .*?, 0x(\w+)", texts["ptx"])}
    codes = name == "quantize_rows"  # a byte for each element, and one fp32 scale for each row
    assert (min(loads), min(stores)) == (bits, min(bits // 2, 32) if codes else bits)
