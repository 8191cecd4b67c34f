"""A shuffle that reads a lane which takes no part: found where the value is stored, and only there."""

import re

import pytest
import torch

KERNEL = """#include <cuda_fp16.h>
#include <cuda_bf16.h>

__global__ void k(const float* x, float* y, int n) {{
  __shared__ float s[64];
  int t = threadIdx.x;
  {}
}}"""
SUM = "for (int o = 4; o; o /= 2)\n    v += __shfl_down_sync({mask}, v, o);\n  "
"""The sum of eight lanes; every lane but the first also adds what it must not use."""

EIGHT = "if (t < 8) {{\n    float v = x[t];\n    {sum}{use}\n  }}"


def eight(use, mask="0xff"):
    return EIGHT.format(sum=SUM.format(mask=mask), use=use)


OTHER_HALF = r"lane (1[6-9]|2\d|3[01]), which the shuffle's mask 0x0000ffff does not name"

# body -> (line of the shuffle, lane that stores, what it says) or None
CASES = {
    "thrown away": (eight("if (t == 0) y[0] = v;"), None),
    "stored to shared memory and thrown away": (eight("s[t] = v; __syncwarp(0xff); if (t == 0) y[0] = s[0];"), None),
    "stored": (eight("y[t] = v;"), (10, r"stores \(line 11\) what this shuffle brought from lane (8|9|10|11), which "
                                    "the shuffle's mask 0x000000ff does not name")),
    "by way of shared memory": (eight("s[t] = v; __syncwarp(0xff); y[t] = s[t];"), (10, "0x000000ff does not name")),
    "computed with": (eight("y[t] = -2 * v + 1;"), (10, "0x000000ff does not name")),
    "added by an atomic": (eight("atomicAdd(y, v);"), (10, "0x000000ff does not name")),
    "of a double": ("double v = x[t];\n  if (t < 16) v = __shfl_xor_sync(0xffff, v, 16);\n  ((double*)y)[t] = v * 2;",
                    (8, OTHER_HALF)),
    "of a half": ("half v = __float2half(x[t]);\n  if (t < 16) v = __shfl_xor_sync(0xffff, v, 16);\n"
                  "  ((half*)y)[t] = v;", (8, OTHER_HALF)),
    "of a bfloat16": ("__nv_bfloat16 v = __float2bfloat16(x[t]);\n  if (t < 16) v = __shfl_xor_sync(0xffff, v, 16);\n"
                      "  y[t] = __bfloat162float(v);", (8, OTHER_HALF)),
    "of an int": ("int v = t;\n  if (t < 16) v = __shfl_sync(0xffff, v, 20);\n  ((int*)y)[t] = v;", (8, "lane 20")),
    "four at once": ("float v = x[t];\n  if (t < 16) v = __shfl_xor_sync(0xffff, v, 16);\n"
                     "  ((float4*)y)[t] = make_float4(1, 2, v, 3);", (8, OTHER_HALF)),
    "of a lane that has returned": ("if (t >= 24) return;\n  float v = x[t];\n"
                                    "  y[t] = __shfl_xor_sync(0xffffff, v, 16);",
                                    (9, "lane 24, which the shuffle's mask 0x00ffffff does not name")),
    "numbers that look alike": ("if (t < 16) x = (const float*)__shfl_xor_sync(0xffff, (long long)x, 16);\n"
                                "  ((int*)y)[t] = -1;\n  ((short*)y)[200 + t] = -1;", None),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_value_of_no_lane_is_found_where_it_is_used(name, build):
    body, wanted = CASES[name]
    kernel = build(KERNEL.format(body), "k")
    kernel[1, 32](torch.rand(64), torch.zeros(256), 64)
    found = [f for f in kernel.result.findings if f.kind == "shuffle-mask"]
    assert len(found) == (wanted is not None), kernel.result.findings
    if wanted:
        line, said = wanted
        assert found[0].line == line and re.search(said, found[0].message)


def test_a_lane_that_the_block_does_not_have(build):
    kernel = build(KERNEL.format("y[t] = __shfl_down_sync(0xffffffff, x[t], 8);"), "k")
    kernel[1, 24](torch.rand(64), torch.zeros(64), 64)
    (found,) = kernel.result.findings
    said = r"thread (\d+) stores what this shuffle brought from lane (\d+), which the block does not have or which has "
    match = re.search(said + r"returned \(mask 0xffffffff\)", found.message)
    assert int(match[2]) == int(match[1]) + 8 >= 24
