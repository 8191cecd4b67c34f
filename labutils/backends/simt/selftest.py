"""Does a compiler build kernels whose counts are right? One kernel with known counts answers, once a compiler."""

from __future__ import annotations

import ctypes
import hashlib
import json
import os

from . import build, source
from .arrays import MemoryRange
from .errors import CompileError, LaunchError, NoCompiler
from .launch import HostKernel
from .module import Module, described

_SOURCE = r"""
struct One { float v; };
__device__ __noinline__ float value_of(One one) { return one.v; }
__global__ void probe(const float* x, float* y, int n) {
  __shared__ float tile[32][32];
  int lane = threadIdx.x;
  float sum = 0;
  for (int i = 0; i < n; i++) {
    if (i % (lane + 1) == 0) sum += x[i * 32 + lane];
  }
  for (int row = 0; row < 32; row++) tile[row][lane] = sum;
  __syncthreads();
  float4 v = ((const float4*)x)[lane];
  y[lane] = tile[lane][0] + v.x + value_of(((const One*)x)[lane]);
}
"""


def works(compiler: build.Compiler) -> str | None:
    """Why this compiler cannot be used, or None. Only success is remembered: a failure may pass."""
    key = hashlib.sha256(f"{build.shim_hash()} {compiler}".encode()).hexdigest()[:16]
    store = build.cache_dir() / f"selftest-{key}.json"
    if store.exists():
        return None
    problem = _try(compiler)
    if problem is None:
        temporary = f"{store}.{os.getpid()}"
        with open(temporary, "w") as f:
            json.dump({"compiler": compiler.version}, f)
        os.replace(temporary, store)
    return problem


def _try(compiler: build.Compiler) -> str | None:
    n = 64
    try:
        module = Module(source.prepare(_SOURCE), ["probe"], "probe", compiler)
        module.prepare(True)
        parameters, _ = described(module.built(True).library, module.source, 0, "probe")
        kernel = HostKernel(module, "probe", 0, parameters)
        # 32-byte aligned, so that sectors are as computed
        memory = ctypes.create_string_buffer(4 * (32 * n + 32) + 32)
        x = -(-ctypes.addressof(memory) // 32) * 32
        y = x + 4 * 32 * n
        arrays = {"x": MemoryRange(x, 32 * n, 4), "y": MemoryRange(y, 32, 4)}
        result = kernel.launch(1, 32, 0, [x, y, n], arrays=arrays)
    except (CompileError, LaunchError, NoCompiler, OSError, ValueError) as e:
        return f"{type(e).__name__}: {str(e)[:500]}"
    if result.findings:
        return f"a correct kernel is reported as wrong: {result.findings[0]}"
    c = result.counters
    lanes = sum(len(range(0, n, lane + 1)) for lane in range(32))
    counted = (c.global_load_requests, c.global_load_bytes, c.shared_store_wavefronts, c.shared_load_wavefronts,
               c.global_store_sectors, c.barriers)  # fmt: skip
    expected = (n + 2, 4 * lanes + 512 + 128, 32, 32, 4, 1)
    return None if counted == expected else f"counts {counted}, where {expected} is right"
