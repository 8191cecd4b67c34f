"""The emulator's counters beside Nsight Compute's, for 20 kernels of the corpus.

    python -m bench.corpus.counters --export FOLDER
    GPULAB_CORPUS=FOLDER python -m bench.corpus.counters [PATTERN…] [--json FILE]

The first copies the files that are needed, where the collections can be read. The second needs a CUDA GPU, `ncu` and no
network; without a GPU it prints the emulator's counts alone. The kernels were chosen before any of their counts was
known, for what they do: wide and narrow accesses, halves, atomics, transposes, tiles, asynchronous copies, mma.
"""

import argparse
import csv
import io
import json
import re
import subprocess
import sys
from pathlib import Path

import torch

from bench.counters import METRICS, ncu
from labutils.gpu import device

from .cases import all_cases
from .cuda import Case
from .sources import export

CHOSEN = (
    "LeetCUDA/kernels/elementwise/elementwise.cu:elementwise_add_f16x8_pack_kernel",
    "LeetCUDA/kernels/embedding/embedding.cu:embedding_f32x4_kernel",
    "LeetCUDA/kernels/reduce/block_all_reduce.cu:block_all_reduce_sum_f32x4_f32_kernel",
    "LeetCUDA/kernels/histogram/histogram.cu:histogram_i32_kernel",
    "LeetCUDA/kernels/softmax/softmax.cu:safe_softmax_f16x2_f32_per_token_kernel",
    "LeetCUDA/kernels/layer-norm/layer_norm.cu:layer_norm_f32_kernel",
    "LeetCUDA/kernels/mat-transpose/mat_transpose.cu:mat_transpose_f32x4_shared_row2col2d_kernel",
    "LeetCUDA/kernels/mat-transpose/mat_transpose.cu:mat_transpose_f32x4_shared_bcf_merge_write_row2col2d_kernel",
    "LeetCUDA/kernels/swizzle/mat_trans_swizzle.cu:mat_trans_smem_naive_kernel",
    "LeetCUDA/kernels/sgemv/sgemv.cu:sgemv_k128_f32x4_kernel",
    "LeetCUDA/kernels/sgemm/sgemm.cu:sgemm_sliced_k_f32_kernel",
    "LeetCUDA/kernels/sgemm/sgemm_async.cu:sgemm_t_8x8_sliced_k16_f32x4_bcf_dbuf_async_kernel",
    "LeetCUDA/kernels/hgemm/mma/basic/hgemm_mma.cu:hgemm_mma_m16n8k16_mma2x4_warp4x4_kernel",
    "LeetCUDA/kernels/flash-attn/mma/basic/flash_attn_mma_split_q.cu:flash_attn_mma_stages_split_q_kernel",
    "SGEMM_CUDA/src/kernels/2_kernel_global_mem_coalesce.cuh:sgemm_global_mem_coalesce",
    "SGEMM_CUDA/src/kernels/5_kernel_2D_blocktiling.cuh:sgemm2DBlocktiling",
    "SGEMM_CUDA/src/kernels/10_kernel_warptiling.cuh:sgemmWarptiling",
    "llm.c/dev/cuda/layernorm_forward.cu:layernorm_forward_kernel3",
    "llm.c/dev/cuda/adamw.cu:adamw_kernel2",
    "cuda-samples/Samples/6_Performance/transpose/transpose.cu:transposeNoBankConflicts",
)
"""Each case as `source/path:kernel`, without template arguments."""

ATOMICS = {
    "global_reduction_requests": "l1tex__t_requests_pipe_lsu_mem_global_op_red.sum",
    "global_reduction_sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_red.sum",
    "global_fetching_requests": "l1tex__t_requests_pipe_lsu_mem_global_op_atom.sum",
    "global_fetching_sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_atom.sum",
}
"""Atomics whose result nobody uses, and the others, which bring it."""

COUNTED = METRICS | ATOMICS


def chosen(patterns=()) -> list[Case]:
    """The cases of CHOSEN, in its order. Raises LookupError for one that is not there."""
    known = {case.id.split("<")[0]: case for case in all_cases()}
    if missing := [name for name in CHOSEN if name not in known]:
        raise LookupError(f"no case is called {', '.join(missing)}")
    return [known[name] for name in CHOSEN if not patterns or any(p in name for p in patterns)]


def emulated(case: Case) -> dict[str, int]:
    """The emulator's totals of one launch."""
    counts = case.launch_emulated(case.drawn())["counts"]
    for unit in ("requests", "sectors"):
        counts[f"global_fetching_{unit}"] = counts.get(f"global_atomic_{unit}", 0) - counts.get(
            f"global_reduction_{unit}", 0
        )
    return {name: counts.get(name, 0) for name in COUNTED}


def run(cases: list[Case]) -> None:
    """Launch each once on this GPU."""
    for case in cases:
        arguments = [a.cuda() if isinstance(a, torch.Tensor) else a for a in case.drawn().values()]
        grid, block = case.sizes()
        case.compiled()[grid, block, case.shared](*arguments)
        torch.cuda.synchronize()


def measured(cases: list[Case]) -> list[dict[str, int]]:
    """The hardware's counters of one launch of each. Raises RuntimeError with the profiler's words."""
    kernels = "|".join(re.escape(case.kernel.split("<")[0]) for case in cases)
    command = [ncu(), "--csv", "--metrics", ",".join(COUNTED.values()), "--clock-control", "none"]
    command += ["--kernel-name", f"regex:^({kernels})$", sys.executable, "-m", "bench.corpus.counters", "--run"]
    done = subprocess.run([*command, *(case.id for case in cases)], capture_output=True, text=True, timeout=900)
    start = done.stdout.find('"ID"')
    if start < 0:
        raise RuntimeError(f"ncu gave no table: {(done.stdout + done.stderr).strip()[-500:]}")
    ours, launches = {v: k for k, v in COUNTED.items()}, {}
    for row in csv.DictReader(io.StringIO(done.stdout[start:])):
        if row["Metric Name"] in ours:
            counters = launches.setdefault(int(row["ID"]), {})
            counters[ours[row["Metric Name"]]] = round(float(row["Metric Value"].replace(",", "")))
    if len(launches) != len(cases):
        raise RuntimeError(f"{len(launches)} of {len(cases)} launches were profiled: {done.stderr.strip()[-500:]}")
    return [launches[number] for number in sorted(launches)]


def compare(cases: list[Case], on_hardware: bool = True) -> list[dict]:
    """A row for each kernel and counter that is not zero: ours, and the hardware's or None."""
    ours = [emulated(case) for case in cases]
    theirs = measured(cases) if on_hardware else [{}] * len(cases)
    return [
        {"kernel": case.id, "counter": name, "emulator": mine[name], "hardware": hers.get(name)}
        for case, mine, hers in zip(cases, ours, theirs, strict=True)
        for name in COUNTED
        if mine[name] or hers.get(name)
    ]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.corpus.counters", description=__doc__.splitlines()[0])
    parser.add_argument("patterns", nargs="*", metavar="PATTERN")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--export", type=Path, metavar="FOLDER")
    parser.add_argument("--run", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    cases = chosen(arguments.patterns if not arguments.run else [p.split("<")[0] for p in arguments.patterns])
    if arguments.export:
        for case in cases:
            export(case.source, case.files(), arguments.export)
        return 0
    if arguments.run:
        run(cases)
        return 0
    here = device.has_gpu() and ncu() is not None
    rows = compare(cases, here)
    for r in rows:
        mark = " " if not here else "=" if r["emulator"] == r["hardware"] else "≠"
        name = r["kernel"].split(":")[1].split("<")[0]
        print(f"{name:60} {r['counter']:26} {r['emulator']:>10} {mark} {r['hardware'] if here else '':>10}")
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1), encoding="utf-8")
    if not here:
        print("The comparison needs a CUDA GPU and Nsight Compute (ncu): these are the emulator's counts only.")
        return 0
    same = sum(r["emulator"] == r["hardware"] for r in rows)
    print(f"{same} of {len(rows)} totals identical ({same / max(len(rows), 1):.1%})")
    return 0 if same >= 0.98 * len(rows) else 1


if __name__ == "__main__":
    sys.exit(main())
