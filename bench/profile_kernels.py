"""The kernels whose Nsight Compute reports unit 25 stores: each has one known bottleneck, in several sizes.

Most are kernels of the course, correct or with the edit of one of its mutants. `plans()` lists them; a plan's `launch`
builds its arrays and returns a function that launches the kernel once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import labutils as lab
from labutils.lessons.hardware_kernels import CHASE, COPY, READ
from labutils.lessons.registers import TILE

ROOT = Path(__file__).resolve().parents[1]

SMS = 132
"""Streaming multiprocessors of the H200, on which the reports are made."""


@dataclass(frozen=True)
class Plan:
    """One launch to profile: its name, the bottleneck that it was built to have, the kernel's name in the report (a
    regular expression), where the kernel comes from, and what prepares the launch."""

    name: str
    bottleneck: str
    kernel: str
    source: str
    launch: Callable[[], Callable[[], None]]


def cell(unit: str, name: str, *changes: tuple[str, str]) -> str:
    """The CUDA C++ of a unit's `%%cuda` cell, with `changes`: (text that stands there once, its replacement).

    Reads the text source itself: a machine with a GPU need not have the notebook tools.
    """
    text = (ROOT / "solutions" / unit / f"{unit}.py").read_text(encoding="utf-8")
    body = re.search(rf'^# %% cell="\w+" id="{name}"[^\n]*\n# %%cuda[^\n]*\n(.*?)(?=^# %% |\Z)', text, re.M | re.S)
    lines = [line[2:] for line in body.group(1).splitlines() if line.startswith("#")]
    code = "\n".join(line for line in lines if "### " not in line) + "\n"
    for old, new in changes:
        if code.count(old) != 1:
            raise ValueError(f"{unit}/{name}: {old!r} occurs {code.count(old)} times, not once")
        code = code.replace(old, new)
    return code


def given(unit: str, kernel: str) -> str:
    """The CUDA C++ of a kernel that a unit's Python compiles from a string."""
    text = (ROOT / "solutions" / unit / f"{unit}.py").read_text(encoding="utf-8")
    return next(t for t in re.findall(r'"""(.*?)"""', text, re.S) if f"__global__ void {kernel}(" in t)


# --- kernels that no unit has -----------------------------------------------------------------------------------------

FOLLOW = """
// Each thread follows its own chain of indices. A warp's 32 loads are coalesced, but each waits for the one before.
__global__ void follow_kernel(const int* next, int* out, int steps) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    #pragma unroll 1
    for (int s = 0; s < steps; s++) i = next[i];
    out[blockIdx.x * blockDim.x + threadIdx.x] = i;
}
"""

STRIDED = """
// Thread t copies element t * stride: neighboring lanes touch different sectors.
__global__ void strided_kernel(const float* x, float* out, int stride, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[(size_t)i * stride] = x[(size_t)i * stride];
}
"""

CASES = """
// Lane k runs iterations of case k % WAYS: a warp runs one case after another.
template <int WAYS> __global__ void cases_kernel(const float* x, float* out, int steps, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float v = x[i];
    #pragma unroll 1
    for (int s = 0; s < steps; s++) {
        switch (threadIdx.x % WAYS) {
            case 0: v = v / (1.0f + fabsf(v)); break;
            case 1: v = sqrtf(1.0f + v * v); break;
            case 2: v = __expf(-v * v); break;
            case 3: v = v * v - 0.5f * v + 0.25f; v = v / (2.0f + v * v); break;
            case 4: v = __logf(1.0f + v * v); break;
            case 5: v = __sinf(v) * 0.5f; break;
            case 6: v = rsqrtf(1.0f + v * v); break;
            default: v = __cosf(v) / (1.0f + v * v);
        }
    }
    out[i] = v;
}
"""

COLUMNS = """
// Each lane sums its own row of a tile of 32 x 32 words: all 32 lanes read the same bank.
__global__ void tile_rows_kernel(const float* x, float* out, int rounds) {
    __shared__ float tile[8][32][32];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    for (int r = 0; r < 32; r++) tile[warp][r][lane] = x[blockIdx.x * 256 + threadIdx.x] + r;
    __syncwarp();
    float sum = 0.0f;
    for (int k = 0; k < rounds; k++) sum += tile[warp][lane][k % 32];
    out[blockIdx.x * 256 + threadIdx.x] = sum;
}
"""

MANY = """
// 96 values per thread, all of which the next round needs; the bound leaves 32 registers.
__global__ void __launch_bounds__(256, 8) many_kernel(const float* x, float* out, int rounds) {
    float v[96];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    #pragma unroll
    for (int k = 0; k < 96; k++) v[k] = x[i] * k + 1.0f;
    for (int r = 0; r < rounds; r++) {
        #pragma unroll
        for (int k = 0; k < 96; k++) v[k] = v[k] * v[(k + 17) % 96] * 0.5f + v[(k + 41) % 96];
    }
    float sum = 0.0f;
    #pragma unroll
    for (int k = 0; k < 96; k++) sum += v[k];
    out[i] = sum;
}
"""

# --- plans ------------------------------------------------------------------------------------------------------------


def floats(*shape):
    import torch

    return torch.rand(shape, device="cuda")


def cdiv(n: int, block: int) -> int:
    return -(-n // block)


def launcher(text: str, name: str, grid, block, arguments: Callable[[], tuple], shared: int = 0):
    """Compiles and makes the arguments when called; returns the launch."""

    def prepare():
        kernel, values = lab.cuda.compile(text, name), arguments()
        return lambda: kernel[grid, block, shared](*values)

    return prepare


def plans() -> list[Plan]:
    makers = (memory, latency, banks, uncoalesced, divergence, spills, tail, launches, compute)
    return [plan for maker in makers for plan in maker()]


def _plan(name: str, bottleneck: str, source: str, text: str, kernel: str, *launch, **options) -> Plan:
    return Plan(name, bottleneck, kernel.split("<")[0], source, launcher(text, kernel, *launch, **options))


def memory() -> Iterator[Plan]:
    """A copy of many bytes, in different forms: no cache holds them."""
    kind = "memory-bound"
    for power in (25, 26, 27):
        n = 1 << power
        text = cell("07_elementwise_cuda", "vector_add_kernel")
        yield _plan(f"vector_add_{power}", kind, "07_elementwise_cuda/vector_add", text, "vector_add_kernel",
                    cdiv(n, 1024), 256, lambda n=n: (floats(n), floats(n), floats(n), n))  # fmt: skip
    for power in (26, 27):
        n = 1 << power
        text = cell("02_execution_model", "fade_kernel")
        yield _plan(f"fade_{power}", kind, "02_execution_model/fade", text, "fade_kernel", cdiv(n, 256), 256,
                    lambda n=n: (floats(n), floats(n), n))  # fmt: skip
    text = cell("02_execution_model", "mirror_kernel")
    yield _plan("mirror_8192", kind, "02_execution_model/mirror", text, "mirror_kernel", (256, 1024), (32, 8),
                lambda: (floats(8192, 8192), floats(8192, 8192), 8192, 8192))  # fmt: skip
    for side in (6144, 8192):
        text = cell("09_shared_memory", "transpose_swizzled_kernel")
        yield _plan(f"transpose_{side}", kind, "09_shared_memory/transpose_swizzled", text, "transpose_swizzled_kernel",
                    (side // 64, side // 64), (64, 4),
                    lambda s=side: (floats(s, s), floats(s, s), s, s))  # fmt: skip


def latency() -> Iterator[Plan]:
    """Few warps, or loads that wait for one another: nothing is busy."""
    kind = "latency-bound"

    def chain(threads: int, steps: int):
        import torch

        next_ = (torch.arange(1 << 24, device="cuda", dtype=torch.int32) + (1 << 18) + 4096) % (1 << 24)
        return next_, torch.empty(threads, device="cuda", dtype=torch.int32), steps

    for blocks, threads, steps in ((132, 32, 400), (132, 64, 800), (264, 32, 300), (132, 128, 500)):
        yield _plan(f"follow_{blocks}_{threads}_{steps}", kind, "bench.profile_kernels.FOLLOW", FOLLOW, "follow_kernel",
                    blocks, threads, lambda b=blocks, t=threads, s=steps: chain(b * t, s))  # fmt: skip
    for threads, mb in ((32, 64), (64, 128), (64, 64), (128, 128)):  # 200 kB of shared memory: one block per SM
        n = mb * (1 << 20) // 16
        yield _plan(f"copy_{threads}_{mb}", kind, "03_occupancy, throttled copy", COPY, "copy_kernel<1>", n // threads,
                    threads, lambda n=n: (floats(4 * n), floats(4 * n)), shared=200 * 1024)  # fmt: skip

    def chase():
        import torch

        n = 1 << 20
        chain = torch.empty(n, device="cuda", dtype=torch.int64)
        chain.copy_(chain.data_ptr() + 8 * ((torch.arange(n, device="cuda") + 65 * 16) % n))
        return chain, 0, 20_000, torch.empty(2, device="cuda", dtype=torch.int64)

    yield Plan("chase", kind, "chase", "labutils.lessons.hardware_kernels.CHASE", lambda: _raw(CHASE, "chase<true>", 1,
               1, chase))  # fmt: skip


def _raw(text: str, name: str, grid, block, arguments):
    return launcher(text, name, grid, block, arguments)()


def banks() -> Iterator[Plan]:
    kind = "bank conflicts"
    for side in (2048, 4096, 6144, 8192):
        text = cell("08_coalescing", "transpose_kernel")
        yield _plan(f"transpose_conflicts_{side}", kind, "08_coalescing/transpose", text, "transpose_kernel",
                    (side // 32, side // 32), (32, 8), lambda s=side: (floats(s, s), floats(s, s), s, s))  # fmt: skip
    for side in (3072, 4096, 8192):
        text = cell("09_shared_memory", "transpose_padded_kernel", ("[TILE + 1]", "[TILE]"))
        yield _plan(f"transpose_unpadded_{side}", kind, "09_shared_memory/transpose_padded, mutant no_padding", text,
                    "transpose_padded_kernel", (side // 64, side // 64), (64, 4),
                    lambda s=side: (floats(s, s), floats(s, s), s, s))  # fmt: skip
    for blocks, rounds in ((2048, 512), (4096, 256)):
        yield _plan(f"tile_rows_{blocks}_{rounds}", kind, "bench.profile_kernels.COLUMNS", COLUMNS, "tile_rows_kernel",
                    blocks, 256, lambda b=blocks, r=rounds: (floats(256 * b), floats(256 * b), r))  # fmt: skip


def uncoalesced() -> Iterator[Plan]:
    kind = "uncoalesced"
    text = cell("08_coalescing", "lengths")
    for side in (768, 1024, 2048):
        yield _plan(f"matmul_slow_{side}", kind, "08_coalescing, matmul_slow_kernel", text, "matmul_slow_kernel",
                    (side // 32, side // 32), (32, 32),
                    lambda s=side: (floats(s, s), floats(s, s), floats(s, s), s, s, s))  # fmt: skip
    for side in (4096, 8192):
        changes = (
            ("tile[y][threadIdx.x] = x[m * N + n];", "out[n * M + m] = x[m * N + n];"),
            ("out[n * M + m] = tile[threadIdx.x][y];", ";"),
            ("__syncthreads();", ""),
        )
        text = cell("08_coalescing", "transpose_kernel", *changes)
        yield _plan(f"transpose_direct_{side}", kind, "08_coalescing/transpose, mutant direct_store", text,
                    "transpose_kernel", (side // 32, side // 32), (32, 8),
                    lambda s=side: (floats(s, s), floats(s, s), s, s))  # fmt: skip
    for stride, power in ((8, 23), (16, 22), (32, 22), (17, 23)):
        n = 1 << power
        yield _plan(f"strided_{stride}_{power}", kind, "bench.profile_kernels.STRIDED", STRIDED, "strided_kernel",
                    n // 256, 256,
                    lambda n=n, s=stride: (floats(n * s), floats(n * s), s, n))  # fmt: skip


def divergence() -> Iterator[Plan]:
    kind = "divergence"
    for power in (20, 22, 24):
        n = 1 << power
        text = given("02_execution_model", "by_thread_kernel")
        yield _plan(f"by_thread_{power}", kind, "02_execution_model, by_thread_kernel", text, "by_thread_kernel",
                    n // 256, 256, lambda n=n: (floats(n), floats(n), n))  # fmt: skip
    for ways, steps, power in ((4, 64, 21), (8, 32, 22), (8, 64, 20), (4, 128, 22)):
        n = 1 << power
        yield _plan(f"cases_{ways}_{steps}_{power}", kind, "bench.profile_kernels.CASES", CASES,
                    f"cases_kernel<{ways}>", n // 256, 256,
                    lambda n=n, s=steps: (floats(n), floats(n), s, n))  # fmt: skip


def spills() -> Iterator[Plan]:
    kind = "spills"
    for side, bound, label in (
        (2048, "__launch_bounds__(256, 4)", "launch bound of 4 blocks"),
        (3072, "__maxnreg__(64)", "64 registers"),
        (4096, "__launch_bounds__(256, 6)", "launch bound of 6 blocks"),
        (2048, "__maxnreg__(48)", "48 registers"),
    ):
        name = f"tile_{side}_{re.sub(r'[^0-9]+', '_', bound).strip('_')}"
        yield _plan(name, kind, f"03_occupancy, tile_kernel, {label}", TILE.replace("BOUND", bound), "tile_kernel",
                    (side // 128, side // 128), 256,
                    lambda s=side: (floats(s, 512), floats(512, s), floats(s, s), 512))  # fmt: skip
    for blocks, rounds in ((2112, 20), (4224, 10), (1056, 40)):
        yield _plan(f"many_{blocks}_{rounds}", kind, "bench.profile_kernels.MANY", MANY, "many_kernel", blocks, 256,
                    lambda b=blocks, r=rounds: (floats(256 * b), floats(256 * b), r))  # fmt: skip


def _multiply_add(blocks: int, threads: int, rounds: int):
    return blocks, threads, lambda: (floats(3), rounds, floats(1))


def tail() -> Iterator[Plan]:
    """A few blocks more than fit at once: the last wave leaves most SMs idle."""
    kind = "tail wave"
    per_wave = 2 * SMS  # of blocks with 1024 threads
    for extra, waves, rounds in ((4, 1, 2000), (8, 1, 4000), (16, 2, 2000), (2, 2, 3000), (12, 1, 1000)):
        blocks = waves * per_wave + extra
        yield _plan(f"tail_{blocks}", kind, "labutils.lessons.hardware_kernels.READ, multiply_add", READ,
                    "multiply_add", *_multiply_add(blocks, 1024, rounds))  # fmt: skip
    for M, N in ((17 * 128, 16 * 128), (5 * 128, 54 * 128)):
        text = cell("15_matmul_cuda", "matmul_register")
        yield _plan(f"matmul_tail_{M}_{N}", kind, "15_matmul_cuda/register", text, "matmul_register<128,128,8,8>",
                    (N // 128, M // 128), 256,
                    lambda M=M, N=N: (floats(M, 2048), floats(2048, N), floats(M, N), M, N, 2048))  # fmt: skip


def launches() -> Iterator[Plan]:
    """So little work that the launch takes longer than the kernel."""
    kind = "launch-bound"
    for n in (1, 1000, 4096, 16384, 30000):
        text = cell("07_elementwise_cuda", "vector_add_kernel")
        yield _plan(f"vector_add_n{n}", kind, "07_elementwise_cuda/vector_add", text, "vector_add_kernel",
                    cdiv(n, 1024), 256, lambda n=n: (floats(n), floats(n), floats(n), n))  # fmt: skip
    for n in (256, 8192):
        text = cell("10_reduction", "reduce_v4")
        yield _plan(f"reduce_v4_n{n}", kind, "10_reduction/sum_v4", text, "reduce_v4", cdiv(n, 512), 256,
                    lambda n=n: (floats(n), floats(cdiv(n, 512)), n))  # fmt: skip


def compute() -> Iterator[Plan]:
    kind = "compute-bound"
    for waves, threads, rounds in ((8, 1024, 400), (16, 512, 300), (12, 1024, 600), (32, 256, 500)):
        blocks = waves * SMS * 2048 // threads
        yield _plan(f"multiply_add_{waves}_{threads}", kind, "labutils.lessons.hardware_kernels.READ, multiply_add",
                    READ, "multiply_add", *_multiply_add(blocks, threads, rounds))  # fmt: skip
    for side in (4096, 6144):

        def library(side: int = side):
            import torch

            a, b = (torch.randn(side, side, device="cuda", dtype=torch.float16) for _ in range(2))
            c = torch.empty_like(a)
            return lambda: torch.mm(a, b, out=c)

        yield Plan(f"matmul_fp16_{side}", kind, ".", "torch.mm, fp16", library)
    for side in (4096, 8192):
        text = cell("15_matmul_cuda", "matmul_register")
        yield _plan(f"matmul_register_{side}", kind, "15_matmul_cuda/register", text, "matmul_register<128,128,8,8>",
                    (side // 128, side // 128), 256,
                    lambda s=side: (floats(s, 1024), floats(1024, s), floats(s, s), s, s, 1024))  # fmt: skip
