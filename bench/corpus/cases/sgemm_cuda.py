"""SGEMM_CUDA (Simon Boehm): c = alpha a b + beta c, from a naive kernel to warp tiles with two buffers.

Launches are those of its `runner.cu`.
"""

import numpy as np

from ..cuda import Case, i32, normal, out

CASES: list[Case] = []

KERNELS = "src/kernels"

for number, name, kernel, threads, m, n, k in (
    (1, "naive", "sgemm_naive", (32, 32), 64, 96, 40),
    (2, "global_mem_coalesce", "sgemm_global_mem_coalesce<32>", 1024, 64, 64, 40),
    (3, "shared_mem_blocking", "sgemm_shared_mem_block<32>", 1024, 64, 64, 64),
    (4, "1D_blocktiling", "sgemm1DBlocktiling<64, 64, 8, 8>", 512, 64, 64, 32),
    (5, "2D_blocktiling", "sgemm2DBlocktiling<64, 64, 8, 8, 8>", 64, 64, 64, 32),
    (6, "vectorize", "sgemmVectorize<128, 128, 8, 8, 8>", 256, 128, 128, 32),
    (7, "resolve_bank_conflicts", "sgemmResolveBankConflicts<128, 128, 8, 8, 8>", 256, 128, 128, 32),
    (8, "bank_extra_col", "sgemmResolveBankExtraCol<128, 128, 8, 8, 8>", 256, 128, 128, 32),
    (9, "autotuned", "sgemmAutotuned<128, 128, 16, 8, 8>", 256, 128, 128, 32),
    (10, "warptiling", "sgemmWarptiling<128, 128, 16, 64, 64, 4, 8, 4, 128>", 128, 128, 128, 32),
    (11, "double_buffering", "sgemmDoubleBuffering<128, 256, 16, 128, 32, 1, 8, 8, 256>", 256, 128, 256, 64),
    (12, "double_buffering", "runSgemmDoubleBuffering2<128, 128, 16, 64, 64, 4, 8, 4, 128>", 128, 128, 128, 64),
):
    grid = (m // 32, n // 32) if number < 4 else 1
    arguments = dict(M=m, N=n, K=k, alpha=0.5, A=normal(m, k), B=normal(k, n), beta=3.0, C=normal(m, n))
    CASES.append(
        Case(
            "SGEMM_CUDA",
            f"{KERNELS}/{number}_kernel_{name}.cuh" if number > 1 else f"{KERNELS}/1_naive.cuh",
            kernel,
            grid,
            threads,
            arguments,
            lambda A, B, C: {"C": 0.5 * A @ B + 3 * C},
            steps=k // 2,
            fault="half of the block waits at one __syncthreads(), the other half at another" if number == 11 else "",
            setup="const int WARPSIZE = 32;" if number > 10 else "",  # kernels.cuh has it from the file before
        )
    )

CASES.append(
    Case(
        "SGEMM_CUDA",
        "simplest_kernel.cu",
        "kernel",
        1,
        16,
        dict(A=out(4, 4, dtype=i32), B=out(4, 4, dtype=i32), row=4),
        lambda: {"A": np.arange(16).reshape(4, 4) // 4, "B": np.arange(16).reshape(4, 4) % 4},
    )  # fmt: skip
)
