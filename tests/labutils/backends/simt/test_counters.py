"""Counts against a pencil: sectors, wavefronts, lanes and divergence of small kernels, to the last request."""

import os

import pytest
import torch

from labutils.backends import simt

COPY = """__global__ void k(const float* x, float* y, int n) {{
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  {0}
}}"""
TILE = """__global__ void k(const float* x, float* y, int n) {{
  {0}
  int t = threadIdx.x, tx = t % 32, ty = t / 32;
  {1}
  __syncthreads();
  {2}
}}"""
LOOP = """__global__ void k(const float* x, float* y, int n) {{
  int t = threadIdx.x;
  float s = 0;
{0}
  y[t] = s;
}}"""

# name -> source, (grid, block, shared bytes, n), {(line, operation, space): {field: value}}, {total: value}
CASES = {}


def copy(name, statement, load=None, store=None, total=None):
    """4 blocks of 128 threads: 16 warps."""
    expected = {}
    if load:
        expected[3, "load", "global"] = load
    if store:
        expected[3, "store", "global"] = store
    CASES[name] = (COPY.format(statement), (4, 128, 0, 512), expected, total or {})


def tile(name, declaration, store, load, expected, total=None):
    """One block of 1024 threads: 32 warps."""
    CASES[name] = (TILE.format(declaration, store, load), (1, 1024, 0, 0), expected, total or {})


def loop(name, body, expected, total=None, n=64, before=""):
    """One warp. The first line of the body is line 4, or later by the lines of `before`."""
    CASES[name] = (before + LOOP.format(body), (1, 32, 0, n), expected, total or {})


# ---- global memory: 16 warps, so 16 requests
copy("unit stride", "y[i] = x[i];", dict(requests=16, sectors=64, bytes=2048), dict(requests=16, sectors=64))
copy("stride 2", "y[i] = x[2 * i];", dict(requests=16, sectors=128, ideal_sectors=64))
copy("stride 4", "y[i] = x[4 * i];", dict(requests=16, sectors=256))
copy("stride 8", "y[i] = x[8 * i];", dict(requests=16, sectors=512))
copy("stride 64", "y[i] = x[64 * i];", dict(requests=16, sectors=512))
copy("offset 1", "y[i] = x[i + 1];", dict(requests=16, sectors=80))
copy("offset 8", "y[i] = x[i + 8];", dict(requests=16, sectors=64))
copy("offset 1 of a store", "y[i + 1] = x[i];", None, dict(requests=16, sectors=80))
copy("broadcast", "y[i] = x[0];", dict(requests=16, sectors=16, bytes=2048))
copy("backwards", "y[i] = x[511 - i];", dict(requests=16, sectors=64))
copy("pairs", "y[i] = x[i / 2];", dict(requests=16, sectors=32))
copy("swapped neighbours", "y[i] = x[i ^ 1];", dict(requests=16, sectors=64))
copy("rows of 33", "y[i] = x[33 * i];", dict(requests=16, sectors=512))
copy("float2", "((float2*)y)[i] = ((const float2*)x)[i];", dict(requests=16, sectors=128, size=8),
     dict(requests=16, sectors=128))  # fmt: skip
copy("float4", "((float4*)y)[i] = ((const float4*)x)[i];", dict(requests=16, sectors=256, size=16),
     dict(requests=16, sectors=256))  # fmt: skip
copy("float4 summed", "float4 v = reinterpret_cast<const float4*>(x)[i]; y[i] = v.x + v.y + v.z + v.w;",
     dict(requests=16, sectors=256, size=16), dict(requests=16, sectors=64))  # fmt: skip
copy("float2 changed", "float2 v = ((const float2*)x)[i]; v.x *= 2; ((float2*)y)[i] = v;",
     dict(requests=16, sectors=128), dict(requests=16, sectors=128))  # fmt: skip
copy("bytes", "((char*)y)[i] = ((const char*)x)[i];", dict(requests=16, sectors=16, size=1), dict(sectors=16))
copy("doubles", "((double*)y)[i] = ((const double*)x)[i];", dict(requests=16, sectors=128, size=8), dict(sectors=128))
copy("half the lanes", "if (threadIdx.x % 2) y[i] = x[i];", dict(requests=16, sectors=64, lanes=256), dict(sectors=64))
copy("half the warps", "if (threadIdx.x < 64) y[i] = x[i];", dict(requests=8, sectors=32, lanes=256))
copy("read and written back", "y[i] += x[i];", dict(requests=32, sectors=128), dict(requests=16, sectors=64))
copy("used twice, loaded once", "float v = x[i]; y[i] = v * v;", dict(requests=16, sectors=64))
copy("atomics on one word", "atomicAdd(y, x[i]);", dict(requests=16, sectors=64), None,
     dict(atomics=512, global_atomic_requests=16, global_atomic_sectors=16))  # fmt: skip
copy("bounds test that all pass", "if (i < n) y[i] = x[i];", dict(requests=16), None, dict(divergent_branches=0))
copy("ragged end", "if (i < n - 112) y[i] = x[i];", dict(requests=13, sectors=50, lanes=400), None,
     dict(divergent_branches=1))  # fmt: skip
CASES["array of float3"] = (
    "struct P { float a, b, c; };\n__global__ void k(const P* x, float* y, int n) {\n"
    "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n  y[i] = x[i].a;\n}",
    (4, 128, 0, 0), {(4, "load", "global"): dict(requests=16, sectors=192)}, {},
)  # fmt: skip
CASES["float3 copied whole"] = (
    "__global__ void k(const float3* x, float3* y, int n) {\n  int i = threadIdx.x;\n  y[i] = x[i];\n}",
    (1, 32, 0, 0),
    {(3, "load", "global"): dict(requests=3, sectors=36), (3, "store", "global"): dict(requests=3, sectors=36)}, {},
)  # fmt: skip
CASES["struct copied whole"] = (
    "struct P { float a, b; int c, d; };\n__global__ void k(const P* x, P* y, int n) {\n  int i = threadIdx.x;\n"
    "  y[i] = x[i];\n}",
    (1, 32, 0, 0),
    {(4, "load", "global"): dict(requests=4, sectors=64), (4, "store", "global"): dict(requests=4, sectors=64)}, {},
)  # fmt: skip
CASES["columns by a block of 8 x 32"] = (
    "__global__ void k(const float* x, float* y, int n) {\n  y[threadIdx.y * 8 + threadIdx.x] =\n"
    "    x[threadIdx.x * 32 + threadIdx.y];\n}",
    (1, (8, 32), 0, 0),
    {(3, "load", "global"): dict(requests=8, sectors=64), (2, "store", "global"): dict(sectors=32)}, {},
)  # fmt: skip

# ---- shared memory: 32 warps, so 32 requests
STORE, LOAD = (4, "store", "shared"), (6, "load", "shared")
tile("columns of a tile", "__shared__ float s[32][32];", "s[ty][tx] = x[t];", "y[t] = s[tx][ty];",
     {STORE: dict(wavefronts=32), LOAD: dict(requests=32, wavefronts=1024, ideal_wavefronts=32)},
     dict(barriers=1, shared_store_wavefronts=32, shared_load_wavefronts=1024))  # fmt: skip
tile("columns of a padded tile", "__shared__ float s[32][33];", "s[ty][tx] = x[t];", "y[t] = s[tx][ty];",
     {STORE: dict(wavefronts=32), LOAD: dict(wavefronts=32)})  # fmt: skip
tile("stride 2", "__shared__ float s[2048];", "s[t] = x[t]; s[t + 1024] = 0;", "y[t] = s[2 * t];",
     {STORE: dict(requests=64, wavefronts=64), LOAD: dict(wavefronts=64)})  # fmt: skip
tile("stride 3", "__shared__ float s[3072];", "for (int i = t; i < 3072; i += 1024) s[i] = 0;", "y[t] = s[3 * t];",
     {STORE: dict(requests=96, wavefronts=96), LOAD: dict(wavefronts=32)})  # fmt: skip
tile("stride 4", "__shared__ float s[4096];", "for (int i = t; i < 4096; i += 1024) s[i] = 0;", "y[t] = s[4 * t];",
     {LOAD: dict(wavefronts=128)})  # fmt: skip
tile("one word a warp", "__shared__ float s[1024];", "s[t] = x[t];", "y[t] = s[ty];", {LOAD: dict(wavefronts=32)})
tile("two words of one bank", "__shared__ float s[1024];", "s[t] = x[t];", "y[t] = s[(t & 1) * 32];",
     {LOAD: dict(wavefronts=64)})  # fmt: skip
tile("float4", "__shared__ float4 s[1024];", "s[t] = ((const float4*)x)[t];", "((float4*)y)[t] = s[t ^ 1];",
     {STORE: dict(requests=32, wavefronts=128),
      LOAD: dict(requests=32, wavefronts=128, ideal_wavefronts=128)})  # fmt: skip
tile("float4 with a stride of 8", "__shared__ float4 s[1024];", "s[t] = ((const float4*)x)[t];",
     "((float4*)y)[t] = s[(tx % 8) * 8 + ty];",
     {LOAD: dict(requests=32, wavefronts=1024, ideal_wavefronts=128)})  # fmt: skip
tile("double", "__shared__ double s[1024];", "s[t] = x[t];", "y[t] = s[t ^ 1];",
     {STORE: dict(wavefronts=64), LOAD: dict(wavefronts=64, size=8)})  # fmt: skip
tile("double with a stride of 2", "__shared__ double s[2048];", "s[t] = x[t]; s[t + 1024] = 0;", "y[t] = s[2 * t];",
     {LOAD: dict(wavefronts=128, ideal_wavefronts=64)})  # fmt: skip
tile("two shorts a word", "__shared__ short s[1024];", "s[t] = t;", "y[t] = s[t ^ 1];",
     {STORE: dict(wavefronts=32), LOAD: dict(wavefronts=32)})  # fmt: skip
tile("bytes 4 apart", "__shared__ char s[4096];", "((int*)s)[t] = t;", "y[t] = s[4 * t];", {LOAD: dict(wavefronts=32)})
tile("atomics of one bank", "__shared__ int s[32];", "if (t < 32) s[t] = 0;", "atomicAdd(&s[0], 1); y[t] = 0;", {},
     dict(atomics=1024, shared_atomic_requests=32, shared_atomic_wavefronts=32))  # fmt: skip
CASES["columns of a dynamic tile"] = (
    "__global__ void k(const float* x, float* y, int n) {\n  extern __shared__ __align__(16) float s[];\n"
    "  int t = threadIdx.x, tx = t % 32, ty = t / 32;\n  s[t] = x[t];\n  __syncthreads();\n"
    "  y[t] = s[tx * 32 + ty];\n}",
    (1, 1024, 4096, 0), {LOAD: dict(wavefronts=1024), STORE: dict(wavefronts=32)}, {},
)  # fmt: skip

# ---- wide loads: two phases become one where lanes read the same in pairs, as an H200 counts it
FLOAT4 = ("__shared__ float4 s[1024];", "s[t] = ((const float4*)x)[t];")
tile("float4, one for all", *FLOAT4, "((float4*)y)[t] = s[ty];", {LOAD: dict(wavefronts=64, ideal_wavefronts=64)})
tile("float4, four neighbours read the same", *FLOAT4, "((float4*)y)[t] = s[tx / 4];", {LOAD: dict(wavefronts=64)})
tile("float4, every fourth reads the same", *FLOAT4, "((float4*)y)[t] = s[tx % 4];", {LOAD: dict(wavefronts=128)})
tile("double in pairs", "__shared__ double s[1024];", "s[t] = x[t];", "y[t] = s[t / 2];",
     {LOAD: dict(wavefronts=32, ideal_wavefronts=32)})  # fmt: skip

# ---- neighbouring loads of a loop, which NVIDIA's compiler makes one of
SQUARE, FILL = "__shared__ float s[32][32], r[1024];", "s[ty][tx] = x[t]; r[t] = 0;"
tile("a row in a loop", SQUARE, FILL, "float v = 0; for (int k = 0; k < 32; k++) v += s[ty][k]; y[t] = v;",
     {LOAD: dict(requests=1024, wavefronts=32 * 8 * 2)})  # fmt: skip
tile("a row of 17 in a loop", SQUARE, FILL, "float v = 0; for (int k = 0; k < 17; k++) v += s[ty][k]; y[t] = v;",
     {LOAD: dict(wavefronts=32 * (4 * 2 + 1))})  # fmt: skip
tile("a padded row in a loop", "__shared__ float s[32][33];", "s[ty][tx] = x[t];",
     "float v = 0; for (int k = 0; k < 32; k++) v += s[ty][k]; y[t] = v;", {LOAD: dict(wavefronts=1024)})  # fmt: skip
tile("a row whose ends are even", SQUARE, FILL, "float v = 0; for (int k = 2; k < 32; k++) v += s[ty][k]; y[t] = v;",
     {LOAD: dict(wavefronts=32 * 15)})  # fmt: skip
tile("a column in a loop", SQUARE, FILL, "float v = 0; for (int k = 0; k < 32; k++) v += s[k][tx]; y[t] = v;",
     {LOAD: dict(wavefronts=1024)})  # fmt: skip
tile("rows of a thread's tile", SQUARE, FILL,
     "float v = 0; for (int k = 0; k < 8; k++) for (int i = 0; i < 4; i++) v += s[(ty + i) % 32][k]; y[t] = v;",
     {LOAD: dict(requests=1024, wavefronts=32 * 4 * 2 * 2)})  # fmt: skip
tile("a row with a store between", SQUARE, FILL,
     "float v = 0; for (int k = 0; k < 32; k++) { v += s[ty][k]; r[(t + k) % 1024] = v; } y[t] = v + r[t];",
     {LOAD: dict(wavefronts=1024 + 32)})  # fmt: skip
tile("a row of shorts in a loop", "__shared__ __align__(16) short s[32][32];", "s[ty][tx] = t;",
     "float v = 0; for (int k = 0; k < 32; k++) v += s[ty][k]; y[t] = v;",
     {LOAD: dict(requests=1024, wavefronts=32 * 4 * 2)})  # fmt: skip

# ---- what tensor cores bring along
CASES["cp.async stores nothing"] = (
    "#include <cuda_pipeline.h>\n__global__ void k(const float* x, float* y, int n) {\n"
    "  __shared__ float s[1024];\n  int t = threadIdx.x;\n  __pipeline_memcpy_async(&s[t], x + t, 4);\n"
    "  __pipeline_commit();\n  __pipeline_wait_prior(0);\n  __syncthreads();\n  y[t] = s[t ^ 1];\n}",
    (1, 1024, 0, 0), {},
    dict(shared_store_wavefronts=0, shared_copy_requests=32, shared_copy_wavefronts=32, shared_load_wavefronts=32,
         global_load_requests=32, global_load_sectors=128),
)  # fmt: skip
CASES["cp.async of zeros is one request, and reads nothing"] = (
    "#include <cuda_pipeline.h>\n#include <lab/mma.cuh>\n__global__ void k(const float* x, float* y, int n) {\n"
    "  __shared__ float4 s[1024];\n  int t = threadIdx.x;\n"
    "  copy_async(&s[t], x + 4 * (t % 512), t < 512 && t % 2);\n"
    "  __pipeline_commit();\n  __pipeline_wait_prior(0);\n  __syncthreads();\n  y[t] = s[t].w;\n}",
    (1, 1024, 0, 0), {},
    dict(shared_store_wavefronts=0, shared_copy_requests=32, shared_copy_wavefronts=128,
         global_load_requests=16, global_load_sectors=256),  # every other 16 bytes: half of each sector
)  # fmt: skip
for rows, pitch, sectors in ((4, 128, 16), (4, 144, 18), (8, 80, 20), (2, 272, 18), (8, 96, 16)):
    CASES[f"cp.async to {rows} rows of {pitch} bytes"] = (
        "#include <cuda_pipeline.h>\n__global__ void k(const float* x, float* y, int n) {\n"
        "  __shared__ __align__(128) float4 s[64];\n"
        f"  int t = threadIdx.x, wide = 32 / {rows}, r = t / wide, c = t % wide;\n"
        f"  __pipeline_memcpy_async(&s[r * {pitch // 16} + c], x + max(wide * 4, 32) * r + 4 * c, 16);\n"
        "  __pipeline_commit();\n  __pipeline_wait_prior(0);\n  __syncthreads();\n"
        f"  y[t] = s[r * {pitch // 16} + c].x;\n}}",
        (1, 32, 0, 0), {}, dict(global_load_requests=1, global_load_sectors=sectors, shared_copy_requests=1),
    )  # fmt: skip
for pitch, wavefronts in ((24, 4), (16, 8), (32, 16)):
    CASES[f"an operand of wmma, rows of {pitch}"] = (
        "#include <mma.h>\nusing namespace nvcuda;\n__global__ void k(const float* x, float* y, int n) {\n"
        f"  __shared__ __align__(32) half s[16 * {pitch}];\n  for (int i = threadIdx.x; i < 16 * {pitch}; i += 32)"
        " s[i] = (half)x[i];\n  __syncwarp();\n"
        "  wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;\n"
        f"  wmma::load_matrix_sync(a, s, {pitch});\n  y[threadIdx.x] = (float)a.x[0];\n}}",
        (1, 32, 0, 0), {}, dict(shared_load_requests=1, shared_load_wavefronts=wavefronts),
    )  # fmt: skip

# ---- divergence: lanes in the same iteration meet in one request
Y = (7, "store", "global")
loop("triangle", "  for (int i = 0; i < t; i++)\n    s += x[i * 32 + t];",
     {(5, "load", "global"): dict(requests=31, lanes=496),
      (6, "store", "global"): dict(requests=1, lanes=32)})  # fmt: skip
loop("alternating branches", "  for (int i = 0; i < n; i++) {\n    if ((i + t) & 1) s += x[i * 32 + t];\n"
     "    else s *= y[2047 - i * 32 - t];\n  }",
     {(5, "load", "global"): dict(requests=64, lanes=1024), (6, "load", "global"): dict(requests=64, lanes=1024),
      (8, "store", "global"): dict(requests=1, lanes=32)})  # fmt: skip
loop("load under a condition", "  for (int i = 0; i < n; i++) {\n    if (i % (t + 1) == 0) s += x[i * 32 + t];\n  }",
     {(5, "load", "global"): dict(requests=64, lanes=sum(len(range(0, 64, t + 1)) for t in range(32))),
      Y: dict(requests=1, lanes=32)})  # fmt: skip
loop("break", "  for (int i = 0; i < n; i++) {\n    s += x[i * 32 + t];\n    if (i == 2 * t) break;\n  }",
     {(5, "load", "global"): dict(requests=63, lanes=sum(2 * t + 1 for t in range(32))),
      (8, "store", "global"): dict(requests=1, lanes=32)})  # fmt: skip
loop("continue", "  for (int i = 0; i < n; i++) {\n    if ((i ^ t) & 2) continue;\n    s += x[i * 32 + t];\n  }",
     {(6, "load", "global"): dict(requests=64, lanes=1024), (8, "store", "global"): dict(requests=1)})  # fmt: skip
loop("switch", "  for (int i = 0; i < n; i++) {\n    switch ((i + t) & 3) {\n      case 0: s += x[t]; break;\n"
     "      case 1: s -= x[t + 32]; break;\n      case 2: s *= x[t + 64]; break;\n      default: s += 1;\n    }\n"
     "    s += y[i * 32 + t];\n  }",
     {(6, "load", "global"): dict(requests=64, lanes=512), (11, "load", "global"): dict(requests=64, lanes=2048),
      (13, "store", "global"): dict(requests=1)})  # fmt: skip
loop("grid stride, ragged", "  for (int i = t; i < n; i += 32)\n    s += x[i];",
     {(5, "load", "global"): dict(requests=125, lanes=3990), (6, "store", "global"): dict(requests=1, lanes=32)},
     n=3990)  # fmt: skip
loop("loop longer than a trace", "  for (int i = 0; i < n + t; i++)\n    s += x[(i * 32 + t) & 4095];",
     {(5, "load", "global"): dict(requests=5031, lanes=32 * 5000 + 496),
      (6, "store", "global"): dict(requests=1, lanes=32)}, n=5000)  # fmt: skip
loop("long loop under a condition",
     "  for (int i = 0; i < n; i++) {\n    if ((i + t) % 3 == 0) s += x[(i * 32 + t) & 4095];\n  }",
     {(5, "load", "global"): dict(requests=5000), Y: dict(requests=1, lanes=32)}, n=5000)  # fmt: skip
loop("function in a branch", "  if (t < 8) s = f(x, t);\n  else if (t < 16) s = f(x, t + 64);",
     {(2, "load", "global"): dict(lanes=16), (9, "store", "global"): dict(requests=1, lanes=32)},
     before="__device__ __noinline__ float f(const float* x, int i) {\n  return x[i] * 2;\n}\n")  # fmt: skip
loop("loop in a function", "  for (int i = 0; i < 4; i++) {\n    s += f(x, t + i);\n    s += y[i * 32 + t];\n  }",
     {(4, "load", "global"): dict(requests=12), (12, "load", "global"): dict(requests=4, lanes=128),
      (14, "store", "global"): dict(requests=1, lanes=32)},
     before="__device__ __noinline__ float f(const float* x, int i) {\n  float s = 0;\n"
            "  for (int j = 0; j < (i & 3); j++)\n    s += x[i * 4 + j];\n  return s;\n}\n")  # fmt: skip
loop("one branch parts", "  if (t < 8) s = x[t];", {(4, "load", "global"): dict(requests=1, lanes=8)},
     dict(divergent_branches=1))  # fmt: skip
loop("branch by warp does not part", "  if (n > 8) s = x[t];", {(4, "load", "global"): dict(requests=1, lanes=32)},
     dict(divergent_branches=0, warp_efficiency=1.0))  # fmt: skip
loop("shuffles", "  s = x[t];\n  for (int o = 16; o; o /= 2)\n    s += __shfl_xor_sync(0xffffffffu, s, o);",
     {(4, "load", "global"): dict(requests=1)}, dict(collectives=5, divergent_branches=0))  # fmt: skip
loop("square roots", "  if (t < 8) s = sqrtf(x[t]) + rsqrtf(x[t] + 1);\n  s += sqrt(x[t]) + sqrt((double)t);", {},
     dict(square_roots=2 * 8 + 2 * 32))  # fmt: skip
loop("a root that is not used", "  float a = x[t], b = sqrtf(a);\n  s = n > 0 ? a : b;", {}, dict(square_roots=32))


def check(name):
    source, (grid, block, shared_bytes, n), lines, totals = CASES[name]
    torch.manual_seed(0)
    # what a GPU's allocator gives is aligned to 256 bytes
    memory = torch.rand(2 * (1 << 16) + 64)
    at = memory.data_ptr() + -memory.data_ptr() % 256
    size = 1 << 16
    arrays = {"x": simt.MemoryRange(at, size, 4), "y": simt.MemoryRange(at + 4 * size, size, 4)}
    kernel = simt.compile(source, ["k"]).kernels["k"]
    result = kernel.launch(grid, block, shared_bytes, [at, at + 4 * size, n], arrays=arrays)
    assert not [f for f in result.findings if f.fatal], result.findings
    rows = {}
    for a in result.report.accesses:
        rows.setdefault((a.line, a.operation, a.space), []).append(a)
    for key, wanted in lines.items():
        assert key in rows, (key, result.report.accesses)
        for field, value in wanted.items():
            if field == "size":
                assert {a.size for a in rows[key]} == {value}
            else:
                assert (field, sum(getattr(a, field) for a in rows[key])) == (field, value)
    for field, value in totals.items():
        assert (field, getattr(result.counters, field)) == (field, value)
    return result


@pytest.mark.parametrize("name", CASES)
def test_counts_are_exact(name):
    check(name)


def test_lines_add_up_to_the_total():
    result = check("columns of a tile")
    total = simt.Counters()
    for counters in result.report.lines.values():
        total.add(counters)
    total.barriers, total.collectives = result.counters.barriers, result.counters.collectives
    assert total == result.counters
    assert result.report.lines[6].shared_load_wavefronts == 1024
    assert result.counters.conflict_degree == (32 + 1024) / 64
    assert result.counters.warp_efficiency == 1.0


def test_counts_do_not_depend_on_the_order_of_lanes():
    source, (grid, block, _, n), *_ = CASES["switch"]
    memory = torch.rand(1 << 17)
    at = memory.data_ptr()
    kernel = simt.compile(source, ["k"]).kernels["k"]
    arrays = {"x": simt.MemoryRange(at, 1 << 16, 4), "y": simt.MemoryRange(at + (1 << 18), 1 << 16, 4)}
    totals = [
        kernel.launch(grid, block, 0, [at, at + (1 << 18), n], arrays=arrays, seed=seed).counters for seed in (0, 1, 2)
    ]
    assert totals[0] == totals[1] == totals[2]


def test_a_fast_launch_counts_nothing():
    source, (grid, block, shared_bytes, n), *_ = CASES["unit stride"]
    x = torch.rand(1 << 17)
    kernel = simt.compile(source, ["k"], checked=False).kernels["k"]
    result = kernel.launch(grid, block, shared_bytes, [x.data_ptr(), x.data_ptr() + (1 << 18), n], checked=False)
    assert result.ok and result.counters == simt.Counters()


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_counts_are_exact_with_clang(name, clang):
    assert os.environ["CXX"] == "clang++"
    check(name)
