"""Machine code of kernels of the course, as unit 25 stores it. Needs no GPU: NVRTC compiles for sm_90.

python -m bench.listings [--json labutils/exercises/listings_sm90.json]
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from bench.profile_kernels import CASES, cell
from labutils.cuda import cubin
from labutils.cuda.kernel import Module
from labutils.cuda.signature import signatures
from labutils.lessons.hardware_kernels import COPY
from labutils.lessons.registers import TILE

TARGET = 90

NARROW = """
#include <cuda_fp16.h>
__global__ void brighten_one(__half* out, const __half* x, float scale, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = __float2half(scale * __half2float(x[i]));
}
"""

BYTES = """
__global__ void lookup_bytes(unsigned char* out, const unsigned char* x, const unsigned char* table, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = table[x[i]];
}
"""

PAIRS = """
__global__ void norm_pairs(float* out, const float2* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = x[i].x * x[i].x + x[i].y * x[i].y;
}
"""

KERNELS: dict[str, tuple[str, str]] = {
    "vector_add": (cell("07_elementwise_cuda", "vector_add_kernel"), "vector_add_kernel"),
    "gelu": (cell("07_elementwise_cuda", "gelu_kernel"), "gelu_kernel"),
    "one fp16 value per thread": (NARROW, "brighten_one"),
    "an 8 x 8 tile in 48 registers": (TILE.replace("BOUND", "__maxnreg__(48)"), "tile_kernel"),
    "matmul, copies straight to shared memory": (
        cell("15_matmul_tensor_cores", "matmul_pipelined"), "matmul_pipelined<2,2,32,3>"),
    "matmul, one warpgroup": (cell("16_matmul_hopper", "matmul_tile"), "matmul_tile"),
    "transpose": (cell("09_shared_memory", "transpose_padded_kernel"), "transpose_padded_kernel"),
    "matmul, wmma": (cell("15_matmul_tensor_cores", "matmul_wmma"), "matmul_wmma"),
    "two floats per thread": (PAIRS, "norm_pairs"),
    "bytes": (BYTES, "lookup_bytes"),
    "copy, two loads": (COPY, "copy_kernel<2>"),
    "four cases": (CASES, "cases_kernel<4>"),
}  # fmt: skip
"""Name -> (CUDA C++, kernel)."""


def listing(text: str, name: str) -> str:
    """The machine code of a kernel, an instruction a line, as a disassembler prints it."""
    kernel = Module(text, signatures(text))[name]
    compiled = kernel.compiled(TARGET)
    code = cubin.sass(compiled.cubin)[compiled.lowered[name]]
    texts = [instruction.text for instruction in code if instruction.text != "NOP"]  # the padding at the end
    return "\n".join(f"/*{16 * k:04x}*/ {text} ;" for k, text in enumerate(texts)) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.listings", description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    found = {name: listing(*kernel) for name, kernel in KERNELS.items()}
    for name, text in found.items():
        print(f"{len(text.splitlines()):5} instructions  {name}")
    if arguments.json:
        arguments.json.write_text(json.dumps({"target": f"sm_{TARGET}", "listings": found}, indent=1) + "\n",
                                  encoding="utf-8")  # fmt: skip
    return 0


if __name__ == "__main__":
    sys.exit(main())
