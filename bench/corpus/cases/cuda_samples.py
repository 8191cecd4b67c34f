"""NVIDIA's cuda-samples: those that are about kernels.

Left out, since the emulator does not have what they are about: textures and surfaces (one case says so), graphics
(OpenGL, Vulkan, Direct3D), kernels that launch kernels (cdp…), cuRAND inside of kernels (MonteCarloMultiGPU,
MC_EstimatePiInline…, MC_SingleAsianOption), Thrust and CUB (segmentationTreeThrust, radixSort…), conditional graphs.
Left out, since a launch from Python cannot state them: structs by value (interval, particles, LargeKernelParameter,
validateGPU of graphMemoryNodes), results in `__device__` variables (binomialOptions), pointers into the middle of an
array (eigenvalues), several GPUs. Left out, since they compute nothing: kernels that spin (delay, clockBlock) or are
empty. Copies of a kernel in another sample are taken where the text differs.
"""

import functools
from math import erf, sqrt

import numpy as np
import torch

from ..cuda import (
    Case,
    bf16,
    f16,
    f32,
    f64,
    full,
    i8,
    i16,
    i32,
    i64,
    integers,
    normal,
    out,
    scratch,
    u8,
    uniform,
    values,
)

CASES: list[Case] = []

INTRODUCTION, CONCEPTS, FEATURES = "0_Introduction", "2_Concepts_and_Techniques", "3_CUDA_Features"
LIBRARIES, DOMAINS, PERFORMANCE = "4_CUDA_Libraries", "5_Domain_Specific", "6_Performance"


def add(group, path, kernel, grid=1, block=1, **more):
    CASES.append(Case("cuda-samples", f"Samples/{group}/{path}", kernel, grid=grid, block=block, **more))


introduction, concepts, features, libraries, domains, performance = (
    functools.partial(add, group) for group in (INTRODUCTION, CONCEPTS, FEATURES, LIBRARIES, DOMAINS, PERFORMANCE)
)
N = 1000

# --- one element for each thread -----------------------------------------------------------------------------------

for group, path, kernel in (
    (INTRODUCTION, "vectorAdd/vectorAdd.cu", "vectorAdd"),
    (INTRODUCTION, "vectorAdd_nvrtc/vectorAdd_kernel.cu", "vectorAdd"),
    (INTRODUCTION, "vectorAddDrv/vectorAdd_kernel.cu", "VecAdd_kernel"),
    (INTRODUCTION, "vectorAddMMAP/vectorAdd_kernel.cu", "VecAdd_kernel"),
    (INTRODUCTION, "simpleDrvRuntime/vectorAdd_kernel.cu", "VecAdd_kernel"),
    (INTRODUCTION, "simpleZeroCopy/simpleZeroCopy.cu", "vectorAddGPU"),
    (CONCEPTS, "streamOrderedAllocation/streamOrderedAllocation.cu", "vectorAddGPU"),
):
    arguments = dict(A=normal(N), B=normal(N), C=out(N), N=N)
    add(group, path, kernel, grid=4, block=256, arguments=arguments, expect=lambda A, B: A + B)

for path, kernel, more, change in (
    ("asyncAPI/asyncAPI.cu", "increment_kernel", dict(inc=26), lambda x: x + 26),
    ("cudaOpenMP/cudaOpenMP.cu", "kernelAddConstant", dict(b=3), lambda x: x + 3),
    ("simpleCallback/simpleCallback.cu", "incKernel", dict(N=1024), lambda x: x + 1),
    ("simpleOccupancy/simpleOccupancy.cu", "square", dict(N=1024), lambda x: x * x),
    ("simpleStreams/simpleStreams.cu", "init_array", dict(factor=full(5, 1, dtype=i32), count=4), lambda x: x + 20),
):
    introduction(
        path,
        kernel,
        grid=4,
        block=256,
        arguments=dict(x=integers(1024)) | more,
        expect=lambda x, change=change: dict(x=change(x)),
        drop=("pthread_t", "pthread_mutex_t", "CUTThread", "CUTBarrier", "CUT_THREADROUTINE", "cudaStream_t"),
    )
introduction(
    "simpleMultiCopy/simpleMultiCopy.cu",
    "incKernel",
    grid=4,
    block=256,
    arguments=dict(g_out=out(N, dtype=i32), g_in=integers(N), N=N, inner_reps=2),
    expect=lambda g_in: g_in + 1,
)
introduction(
    "simpleP2P/simpleP2P.cu",
    "SimpleKernel",
    grid=4,
    block=256,
    arguments=dict(src=normal(1024), dst=out(1024)),
    expect=lambda src: 2 * src,
)
introduction(
    "simpleMPI/simpleMPI.cu",
    "simpleMPIKernel",
    grid=4,
    block=256,
    arguments=dict(x=uniform(1024), y=out(1024)),
    expect=lambda x: np.sqrt(x),
    drop=("std",),
)
introduction(
    "simpleIPC/simpleIPC.cu",
    "simpleKernel",
    grid=2,
    block=128,
    arguments=dict(ptr=out(N, dtype=i8), sz=N, val=7),
    expect=lambda: 7,
    drop=("cudaIpcMemHandle_t",),
)
introduction(
    "simpleMultiGPU/simpleMultiGPU.cu",
    "reduceKernel",
    grid=4,
    block=64,
    arguments=dict(result=out(256), x=normal(1024), N=1024),
    expect=lambda x: x.reshape(4, 256).sum(0),
    drop=("TGPUplan",),
)
for path in ("simpleAssert/simpleAssert.cu", "simpleAssert_nvrtc/simpleAssert_kernel.cu"):
    introduction(path, "testKernel", grid=2, block=32, arguments=dict(N=64))
introduction("simplePrintf/simplePrintf.cu", "testKernel", grid=(2, 2), block=(2, 2, 2), arguments=dict(val=10))
concepts(
    "threadMigration/threadMigration_kernel.cu",
    "kernelFunction",
    block=32,
    arguments=dict(x=out(32, dtype=i32)),
    expect=lambda: 32 - np.arange(32),
)
for path in ("inlinePTX/inlinePTX.cu", "inlinePTX_nvrtc/inlinePTX_kernel.cu"):
    arguments = dict(x=out(N, dtype=i32), length=N)
    concepts(path, "sequence_gpu", grid=4, block=256, arguments=arguments, expect=lambda: np.arange(N) % 32)
features(
    "ptxjit/ptxjit_kernel.cu",
    "myKernel",
    grid=4,
    block=256,
    arguments=dict(data=out(1024, dtype=i32)),
    expect=lambda: np.arange(1024),
)
features(
    "StreamPriorities/StreamPriorities.cu",
    "memcpy_kernel",
    grid=2,
    block=128,
    arguments=dict(dst=out(N, dtype=i32), src=integers(N), n=4 * N),
    expect=lambda src: src,
)
for kernel, function in (("squareArray", lambda x: x * x), ("negateArray", lambda x: -x)):
    features(
        "graphMemoryNodes/graphMemoryNodes.cu",
        kernel,
        grid=2,
        block=512,
        arguments=dict(x=normal(N), y=out(N), n=N),
        expect=lambda x, function=function: function(x),
    )
features(
    "cudaCompressibleMemory/saxpy.cu",
    "saxpy",
    grid=2,
    block=128,
    arguments=dict(a=2.0, x=normal(N, 4), y=normal(N, 4), z=out(N, 4), n=N),
    expect=lambda x, y: 2 * x + y,
)
features(
    "cudaCompressibleMemory/saxpy.cu",
    "init",
    grid=2,
    block=128,
    arguments=dict(x=out(N, 4), y=out(N, 4), val=3.0, n=N),
    expect=lambda: dict(x=3, y=3),
)
domains(
    "HSOpticalFlow/addKernel.cuh",
    "AddKernel",
    grid=4,
    block=256,
    arguments=dict(op1=normal(N), op2=normal(N), count=N, sum=out(N)),
    expect=lambda op1, op2: op1 + op2,
)
domains(
    "p2pBandwidthLatencyTest/p2pBandwidthLatencyTest.cu",
    "copyp2p",
    grid=2,
    block=64,
    arguments=dict(dest=out(N, 4, dtype=i32), src=integers(N, 4), n=N),
    expect=lambda src: src,
)


def wave(width=64, height=16, time=0.5):
    u, v = np.meshgrid(np.arange(width) / width * 2 - 1, np.arange(height) / height * 2 - 1)
    return np.stack((u, np.sin(4 * u + time) * np.cos(4 * v + time) * 0.5, v, np.ones_like(u)), -1)


domains(
    "simpleGL/simpleGL.cu",
    "simple_vbo_kernel",
    grid=(8, 2),
    block=(8, 8),
    arguments=dict(pos=out(16, 64, 4), width=64, height=16, time=0.5),
    expect=lambda: wave(),
    steps=32,
)
for kernel, arguments, expect in (
    ("initVectors", dict(rhs=out(N), x=out(N), n=N), lambda: dict(rhs=1, x=0)),
    ("r1_div_x", dict(r1=normal(1), r0=normal(1), b=out(1)), lambda r1, r0: r1 / r0),
    ("a_minus", dict(a=normal(1), na=out(1)), lambda a: -a),
):
    libraries(
        "conjugateGradientCudaGraphs/conjugateGradientCudaGraphs.cu",
        kernel,
        grid=2,
        block=128,
        arguments=arguments,
        expect=expect,
    )


def as_complex(x):
    return x[..., 0] + 1j * x[..., 1]


def as_pairs(z):
    return np.stack((z.real, z.imag), -1)


libraries(
    "simpleCUFFT/simpleCUFFT.cu",
    "ComplexPointwiseMulAndScale",
    grid=2,
    block=128,
    arguments=dict(a=normal(N, 2), b=normal(N, 2), size=N, scale=0.5),
    expect=lambda a, b: dict(a=as_pairs(as_complex(a) * as_complex(b) * 0.5)),
)
for name, bytes_ in (
    ("uint8", 1), ("uint16", 2), ("RGBA8_misaligned", 4), ("LA32_misaligned", 8), ("RGB32_misaligned", 12),
    ("RGBA32_misaligned", 16), ("RGBA8", 4), ("LA32", 8), ("RGB32", 16), ("RGBA32", 16), ("RGBA32_2", 32), ("I32", 4),
):  # fmt: skip
    performance(
        "alignedTypes/alignedTypes.cu",
        f"testKernel<{name}>",
        grid=2,
        block=64,
        arguments=dict(y=out(200, bytes_, dtype=u8), x=integers(200, bytes_, high=256, dtype=u8), n=200),
        expect=lambda x: x,
    )

# --- templates, dynamic shared memory, groups ----------------------------------------------------------------------

introduction(
    "template/template.cu",
    "testKernel",
    block=32,
    shared=128,
    arguments=dict(x=normal(32), y=out(32)),
    expect=lambda x: 32 * x,
)
for kind, dtype in (("float", f32), ("int", i32)):
    introduction(
        "simpleTemplates/simpleTemplates.cu",
        f"testKernel<{kind}>",
        block=32,
        shared=128,
        arguments=dict(
            x=normal(32) if dtype == f32 else integers(32), y=out(32, dtype=dtype)
        ),
        expect=lambda x: 32 * x,
        drop=("compareData", "sdkWriteFile"),
        needs="a function that is declared, called in a template that nobody instantiates, and nowhere defined",
    )  # fmt: skip
introduction("simpleCooperativeGroups/simpleCooperativeGroups.cu", "cgkernel", block=64, shared=256)
for path in ("clock/clock.cu", "clock_nvrtc/clock_kernel.cu"):
    introduction(
        path,
        "timedReduction",
        grid=4,
        block=256,
        shared=2048,
        arguments=dict(x=normal(512), y=out(4), timer=scratch(8, dtype=i64)),
        expect=lambda x: x.min(),
    )
introduction(
    "simpleHyperQ/simpleHyperQ.cu",
    "sum",
    block=32,
    arguments=dict(clocks=integers(100, dtype=i64), N=100),
    expect=lambda clocks: dict(clocks=np.concatenate(([clocks.sum()], clocks[1:]))),
)
for kernel in ("kernel_A", "kernel_B"):
    introduction("simpleHyperQ/simpleHyperQ.cu", kernel, arguments=dict(d_o=scratch(1, dtype=i64), clock_count=1000))
introduction(
    "simpleAWBarrier/simpleAWBarrier.cu",
    "normVecByDotProductAWBarrier",
    grid=4,
    block=128,
    shared=8 * 32,
    arguments=dict(a=uniform(2000), b=uniform(2000), partial=scratch(4, dtype=f64), size=2000),
    expect=lambda a, b: dict(a=a / sqrt(a @ b), b=b / sqrt(a @ b)),
)

# --- votes and atomics ---------------------------------------------------------------------------------------------

VOTES = values(
    lambda rng: rng.integers(0, 2, (4, 32)) * np.array([[0], [1], [1], [0]]) | np.array([[0], [0], [0], [1]]), i32
)
for kernel, function in (("VoteAnyKernel1", np.any), ("VoteAllKernel2", np.all)):
    introduction(
        "simpleVoteIntrinsics/simpleVote_kernel.cuh",
        kernel,
        block=128,
        arguments=dict(x=VOTES, result=out(4, 32, dtype=i32), size=128),
        expect=lambda x, function=function: np.repeat(function(x, -1, keepdims=True), 32, -1).astype(int),
    )


def votes():
    thread = np.arange(96)
    late = thread >= 48
    return dict(info=np.stack((late.reshape(3, 32).any(1).repeat(32), late, late.reshape(3, 32).all(1).repeat(32)), -1))


introduction(
    "simpleVoteIntrinsics/simpleVote_kernel.cuh",
    "VoteAnyKernel3",
    block=96,
    arguments=dict(info=full(0, 96, 3, dtype=torch.bool), warp_size=32),
    expect=votes,
)


def after_atomics(x, names, threads, rounds=1):
    """What the atomics leave. The order of the threads decides what an exchange and a comparison leave."""
    thread, count, left = np.arange(threads), threads * rounds, x.copy()
    for i, name in enumerate(names.split()):
        if name in ("add", "sub"):
            left[i] += 10 * count * (1 if name == "add" else -1)
        elif name in ("max", "min"):
            left[i] = max(x[i], threads - 1) if name == "max" else min(x[i], 0)
        elif name == "inc":
            left[i] = (x[i] + count) % 18
        elif name == "dec":
            left[i] = (x[i] - count) % 138
        elif name == "and":
            left[i] &= np.bitwise_and.reduce(2 * thread + 7)
        elif name == "or":
            left[i] |= np.bitwise_or.reduce(1 << thread % 32).astype(np.int32)
        elif name == "xor" and rounds % 2:
            left[i] ^= np.bitwise_xor.reduce(thread)
    return dict(x=np.ma.array(left, mask=[name in ("exch", "cas") for name in names.split()]))


for path in (
    "simpleAtomicIntrinsics/simpleAtomicIntrinsics_kernel.cuh",
    "simpleAtomicIntrinsics_nvrtc/simpleAtomicIntrinsics_kernel.cuh",
):
    introduction(
        path,
        "testKernel",
        grid=4,
        block=64,
        arguments=dict(x=values(lambda rng: [0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0, 0xFF], i32)),
        expect=lambda x: after_atomics(x, "add sub exch max min inc dec cas and or xor", 256),
    )
introduction(
    "systemWideAtomics/systemWideAtomics.cu",
    "atomicKernel",
    grid=2,
    block=32,
    arguments=dict(x=values(lambda rng: [0, 0, 0, 0, 0, 0, 0, 0xFF, 0, 0xFF], i32)),
    expect=lambda x: after_atomics(x, "add exch max min inc dec cas and or xor", 64, rounds=50),
)
AGGREGATED = "warpAggregatedAtomicsCG/warpAggregatedAtomicsCG.cu"
features(
    AGGREGATED,
    "filter_arr",
    grid=1,
    block=512,
    arguments=dict(dst=scratch(N, dtype=i32), count=full(0, 1, dtype=i32), src=integers(N, low=-10, high=10), n=N),
    expect=lambda src: dict(count=(src > 0).sum()),
)
features(
    AGGREGATED,
    "mapToBuckets",
    grid=2,
    block=128,
    arguments=dict(
        src=integers(N, high=5),
        indices=scratch(5 * N, dtype=i32),
        counters=values(lambda rng: N * np.arange(5), i32),
        size=N,
        buckets=5,
    ),
    expect=lambda src: dict(counters=N * np.arange(5) + np.bincount(src, minlength=5)),
)
features(
    AGGREGATED,
    "calculateMaxInEachBuckets",
    grid=2,
    block=128,
    arguments=dict(src=integers(N, high=5), values=integers(N), most=full(0, 5, dtype=i32), size=N, buckets=5),
    expect=lambda src, values: dict(most=[values[src == b].max() for b in range(5)]),
)
features(
    "binaryPartitionCG/binaryPartitionCG.cu",
    "oddEvenCountAndSumCG",
    grid=2,
    block=128,
    arguments=dict(x=integers(1024), odds=full(0, 1, dtype=i32), sums=full(0, 2, dtype=i32), size=1024),
    expect=lambda x: dict(odds=(x % 2).sum(), sums=[x[x % 2 == 1].sum(), x[x % 2 == 0].sum()]),
)

# --- reductions and scans ------------------------------------------------------------------------------------------


def by_blocks(x, blocks, block):
    """Sums of what each block of threads takes with a stride of the grid."""
    return np.pad(x, (0, -x.size % (blocks * block))).reshape(-1, blocks, block).sum((0, 2))


def first_only(value, count):
    """An array of which only the first element has a meaning."""
    return np.ma.array([value] + [0] * (count - 1), mask=[False] + [True] * (count - 1))


def reduction(path, kernel, each, blocks=4, shared=512, dtype=f32, n=1000, expect=None, fault=""):
    """Sums of `each` elements for every thread of a block, or, if 0, of those with a stride of the grid."""

    def sums(x):
        if each:
            return np.pad(x, (0, each * 128 * blocks - n)).reshape(blocks, -1).sum(-1)
        return by_blocks(x, blocks, 128)

    concepts(
        path,
        kernel,
        grid=blocks,
        block=128,
        shared=shared,
        arguments=dict(
            x=normal(n, dtype=dtype) if dtype.is_floating_point else integers(n, dtype=dtype),
            y=out(blocks, dtype=dtype), n=n,
        ),
        expect=expect or sums,
        steps=64,
        fault=fault,
    )  # fmt: skip


for kernel, each, more in (
    ("reduce0<int>", 1, dict(blocks=8, dtype=i32)),
    ("reduce0<float>", 1, dict(blocks=8)),
    ("reduce1<float>", 1, dict(blocks=8)),
    ("reduce2<double>", 1, dict(blocks=8, dtype=f64, shared=1024)),
    ("reduce3<float>", 2, {}),
    ("reduce4<float, 128>", 2, {}),
    ("reduce5<int, 128>", 2, dict(dtype=i32)),
    ("reduce6<float, 128, false>", 0, {}),
    ("reduce6<float, 128, true>", 2, dict(n=1024)),
    (
        "reduce7<float, 128, false>",
        0,
        dict(fault="the block's last shuffles read lanes outside of their mask, which is undefined"),
    ),
    ("reduce7<int, 128, false>", 0, dict(dtype=i32)),
    ("cg_reduce<float>", 0, {}),
    ("multi_warp_cg_reduce<float, 128, 64>", 0, {}),
):
    reduction("reduction/reduction_kernel.cu", kernel, each, **more)
FENCE = "threadFenceReduction/threadFenceReduction_kernel.cuh"
reduction(FENCE, "reduceMultiPass<128, true>", 2, n=1024)
reduction(FENCE, "reduceSinglePass<128, false>", 2, expect=lambda x: first_only(x.sum(), 4))
reduction(
    "reductionMultiBlockCG/reductionMultiBlockCG.cu", "reduceSinglePassMultiBlockCG", 0, shared=1024,
    expect=lambda x: first_only(x.sum(), 4),
)  # fmt: skip
GRAPHS = "simpleCudaGraphs/simpleCudaGraphs.cu"
features(
    GRAPHS,
    "reduce",
    grid=2,
    block=512,
    arguments=dict(x=normal(5000), y=out(2, dtype=f64), n=5000, blocks=2),
    expect=lambda x: by_blocks(x, 2, 512),
    steps=64,
)
features(
    GRAPHS,
    "reduceFinal",
    block=512,
    arguments=dict(x=normal(900, dtype=f64), y=out(1, dtype=f64), n=900),
    expect=lambda x: x.sum(),
    steps=64,
)


def jacobi(A, b, x):
    d = (b - A @ x) / np.diag(A)
    return dict(x_new=x + d, sum=np.abs(d).sum())


features(
    "jacobiCudaGraphs/jacobi.cu",
    "JacobiMethod",
    grid=64,
    block=256,
    arguments=dict(
        A=values(lambda rng: rng.normal(size=(512, 512)) + 40 * np.eye(512)), b=normal(512, dtype=f64), threshold=0.01,
        x=normal(512, dtype=f64), x_new=out(512, dtype=f64), sum=full(0, 1, dtype=f64),
    ),
    expect=jacobi,
    steps=1024,
    time_limit=100.0,
)  # fmt: skip
features(
    "jacobiCudaGraphs/jacobi.cu",
    "finalError",
    grid=2,
    block=256,
    shared=64,
    arguments=dict(x=normal(512, dtype=f64), sum=full(0, 1, dtype=f64)),
    expect=lambda x: dict(sum=np.abs(x - 1).sum()),
    steps=64,
)
concepts(
    "scalarProd/scalarProd_kernel.cuh",
    "scalarProdGPU",
    grid=4,
    block=128,
    arguments=dict(c=out(6), a=normal(6, 2048), b=normal(6, 2048), vectors=6, elements=2048),
    expect=lambda a, b: (a * b).sum(-1),
    steps=128,
)


def half_products(a, b, blocks=8, threads=128):
    """The sample adds the block's number to the thread's where it means a product, so most elements count often."""
    each, begin = (a * b).sum(-1), np.arange(blocks)[:, None] + threads + np.arange(threads)
    sums = [each[i :: blocks * threads].sum() for i in begin.reshape(-1)]
    return np.reshape(sums, (blocks, threads)).sum(-1)


for kernel in ("scalarProductKernel_intrinsics", "scalarProductKernel_native"):
    introduction(
        "fp16ScalarProduct/fp16ScalarProduct.cu",
        kernel,
        grid=8,
        block=128,
        arguments=dict(
            a=integers(2000, 2, high=4, dtype=f16), b=integers(2000, 2, high=2, dtype=f16), results=out(8), size=2000
        ),
        expect=lambda a, b: half_products(a, b),
    )
for name, kind, dtype in (("MC_EstimatePiP", "float", f32), ("MC_EstimatePiQ", "double", f64)):
    concepts(
        f"{name}/src/piestimator.cu",
        f"computeValue<{kind}>",
        grid=2,
        block=128,
        shared=512,
        arguments=dict(results=out(2, dtype=i32), points=uniform(2, N, dtype=dtype), sims=N),
        expect=lambda points: by_blocks(((points**2).sum(0) < 1).astype(int), 2, 128),
        drop=("PiEstimator", "string", "vector"),
    )


def exclusive(x):
    return np.cumsum(x, -1) - x


concepts(
    "scan/scan.cu",
    "scanExclusiveShared",
    grid=2,
    block=256,
    arguments=dict(dst=out(4, 512, dtype=i32), src=integers(4, 512), size=512),
    expect=lambda src: exclusive(src),
)
concepts(
    "scan/scan.cu",
    "scanExclusiveShared2",
    grid=1,
    block=256,
    arguments=dict(buf=out(4, dtype=i32), dst=integers(4, 1024), src=integers(4, 1024), N=4, length=4),
    expect=lambda dst, src: exclusive(dst[:, -1] + src[:, -1]),
)
concepts(
    "scan/scan.cu",
    "uniformUpdate",
    grid=4,
    block=256,
    arguments=dict(data=integers(4, 1024), buffer=integers(4)),
    expect=lambda data, buffer: dict(data=data + buffer[:, None]),
)
SHUFFLES = "shfl_scan/shfl_scan.cu"
concepts(
    SHUFFLES,
    "shfl_scan_test",
    grid=4,
    block=256,
    shared=32,
    arguments=dict(data=integers(4, 256), width=32, partial=out(4, dtype=i32)),
    expect=lambda data: dict(data=np.cumsum(data, -1), partial=data.sum(-1)),
)
concepts(
    SHUFFLES,
    "uniform_add",
    grid=3,
    block=256,
    arguments=dict(data=integers(3, 256), partial=integers(3), len=768),
    expect=lambda data, partial: dict(data=data + partial[:, None]),
)
concepts(
    SHUFFLES,
    "shfl_intimage_rows",
    grid=2,
    block=120,
    arguments=dict(image=integers(2, 480, low=-(2**31), high=2**31), sums=out(2, 1920, dtype=i32)),
    expect=lambda image: np.cumsum(image.view(np.uint8), -1, dtype=np.int64),
    fault="the last warp has 24 of a tile's 32 lanes, and the first warp reads sums that no warp wrote",
)
concepts(
    SHUFFLES,
    "shfl_vertical_shfl",
    grid=2,
    block=(32, 8),
    arguments=dict(image=integers(1080, 64), width=64, height=1080),
    expect=lambda image: dict(image=np.cumsum(image, 0)),
    time_limit=100.0,
)

# --- histograms and sorting ----------------------------------------------------------------------------------------


def histograms(data, threads, bins, shift):
    """Of each of two blocks, which take the rows of `data` in turn, as many as they have threads."""
    rounds = data.reshape(-1, 2, threads * data.shape[-1])
    return [np.bincount(rounds[:, b].reshape(-1) >> shift, minlength=bins) for b in range(2)]


concepts(
    "histogram/histogram64.cu",
    "histogram64Kernel",
    grid=2,
    block=64,
    arguments=dict(partial=out(2, 64, dtype=i32), data=integers(512, 16, high=256, dtype=u8), count=512),
    expect=lambda data: histograms(data, 64, 64, 2),
)
concepts(
    "histogram/histogram256.cu",
    "histogram256Kernel",
    grid=2,
    block=192,
    arguments=dict(partial=out(2, 256, dtype=i32), data=integers(768, 4, high=256, dtype=u8), count=768),
    expect=lambda data: histograms(data, 192, 256, 0),
)
for bins in (64, 256):
    concepts(
        f"histogram/histogram{bins}.cu",
        f"mergeHistogram{bins}Kernel",
        grid=bins,
        block=256,
        arguments=dict(histogram=out(bins, dtype=i32), partial=integers(300, bins), count=300),
        expect=lambda partial: partial.sum(0),
    )


def sorted_pairs(key, value, ascending=True):
    order = np.argsort(key if ascending else -key, -1)
    return dict(dst_key=np.take_along_axis(key, order, -1), dst_val=np.take_along_axis(value, order, -1))


def down_and_up(key, value):
    """The first row sorted down, the second up."""
    up, down = sorted_pairs(key, value), sorted_pairs(key, value, ascending=False)
    return {name: np.stack((down[name][0], up[name][1])) for name in up}


def compared(steps):
    """What comparisons of pairs leave: `steps` are (first places, distance, are they to ascend)."""

    def compare(key, value):
        key, value = key.reshape(-1), value.reshape(-1)
        for at, stride, ascending in steps:
            swapped = (key[at] > key[at + stride]) == ascending
            here, there = at[swapped], at[swapped] + stride
            for array in (key, value):
                array[here], array[there] = array[there], array[here]
        return dict(dst_key=key.reshape(1, -1), dst_val=value.reshape(1, -1))

    return compare


def bitonic_step(length, size, stride):
    thread = np.arange(length // 2)
    return 2 * thread - (thread & (stride - 1)), stride, thread & (size // 2) == 0


def sort(add, path, kernel, rows, length, more, expect, blocks=None, block=512):
    """Different keys, so that there is one order."""
    size = rows * length
    add(
        path,
        kernel,
        grid=blocks or size // 1024,
        block=block,
        arguments=dict(
            dst_key=out(rows, length, dtype=i32), dst_val=out(rows, length, dtype=i32),
            key=values(lambda rng: rng.permutation(size).reshape(rows, length), i32), value=integers(rows, length),
        )
        | more,
        expect=expect,
    )  # fmt: skip


def ascending(key, value):
    return sorted_pairs(key, value)


NETWORKS, ODD_EVEN = "sortingNetworks/bitonicSort.cu", "sortingNetworks/oddEvenMergeSort.cu"
sort(concepts, NETWORKS, "bitonicSortShared", 4, 512, dict(length=512, dir=1), ascending)
sort(concepts, NETWORKS, "bitonicSortShared1", 2, 1024, {}, down_and_up)
sort(
    concepts, NETWORKS, "bitonicMergeGlobal", 1, 4096, dict(length=4096, size=4096, stride=1024, dir=1),
    compared([bitonic_step(4096, 4096, 1024)]), blocks=8, block=256,
)  # fmt: skip
sort(
    concepts, NETWORKS, "bitonicMergeShared", 1, 2048, dict(length=2048, size=2048, dir=1),
    compared([bitonic_step(2048, 2048, 1 << s) for s in range(9, -1, -1)]),
)  # fmt: skip
sort(concepts, ODD_EVEN, "oddEvenMergeSortShared", 4, 512, dict(length=512, dir=1), ascending)
sort(
    concepts, ODD_EVEN, "oddEvenMergeGlobal", 1, 2048, dict(length=2048, size=2048, stride=1024, dir=1),
    compared([(np.arange(1024), 1024, True)]), blocks=4, block=256,
)  # fmt: skip
MERGE, BITONIC = "mergeSort/mergeSort.cu", "mergeSort/bitonic.cu"
sort(introduction, MERGE, "mergeSortSharedKernel<1U>", 2, 1024, dict(length=1024), ascending)
sort(introduction, BITONIC, "bitonicSortSharedKernel", 2, 1024, dict(length=1024, dir=1), ascending)
SAMPLE, STRIDE = 128, 1024
RUNS = np.sort(np.random.default_rng(1).permutation(2 * STRIDE).reshape(2, STRIDE), -1)
"""Two sorted halves of different keys."""


def ranks(of):
    """The places in one half of every 128th key of both."""
    samples = RUNS[:, ::SAMPLE]
    return np.concatenate([np.searchsorted(RUNS[of], half) for half in samples])


introduction(
    MERGE,
    "generateSampleRanksKernel<1U>",
    grid=1,
    block=256,
    arguments=dict(
        ranks_a=out(16, dtype=i32), ranks_b=out(16, dtype=i32), key=values(lambda rng: RUNS, i32), stride=STRIDE,
        N=2 * STRIDE, threads=8,
    ),
    expect=lambda: dict(ranks_a=ranks(0), ranks_b=ranks(1)),
)  # fmt: skip
introduction(
    MERGE,
    "mergeRanksAndIndicesKernel",
    grid=1,
    block=256,
    arguments=dict(
        limits=out(16, dtype=i32), ranks=values(lambda rng: ranks(0), i32), stride=STRIDE, N=2 * STRIDE, threads=8
    ),
    expect=lambda ranks: np.sort(ranks),
)
for path, kernel in (
    (MERGE, "mergeElementaryIntervalsKernel<1U>"),
    (BITONIC, "bitonicMergeElementaryIntervalsKernel<1U>"),
):
    introduction(
        path,
        kernel,
        grid=16,
        block=SAMPLE,
        arguments=dict(
            dst_key=out(2 * STRIDE, dtype=i32), dst_val=out(2 * STRIDE, dtype=i32),
            key=values(lambda rng: RUNS.reshape(-1), i32), value=integers(2 * STRIDE),
            limits_a=values(lambda rng: np.sort(ranks(0)), i32), limits_b=values(lambda rng: np.sort(ranks(1)), i32),
            stride=STRIDE, N=2 * STRIDE,
        ),
        expect=ascending,
        fault="it swaps places past the data, which no thread has written" if path == BITONIC else "",
    )  # fmt: skip

# --- images and transforms -----------------------------------------------------------------------------------------

FILTER = np.random.default_rng(0).normal(size=17).astype(np.float32)


def constant(declaration, numbers):
    """An edit: the values that the sample's host code copies to constant memory."""
    return (f"{declaration};", f"{declaration} = {numbers};")


def listed(numbers):
    return "{" + ", ".join(f"{float(x)!r}f" for x in numbers) + "}"


def convolved(x):
    return np.apply_along_axis(lambda row: np.convolve(row, FILTER.astype(float), "same"), 1, x)


for kernel, expect, grid, block in (
    ("convolutionRowsKernel", lambda src: convolved(src), (2, 16), (16, 4)),
    ("convolutionColumnsKernel", lambda src: convolved(src.T).T, (16, 1), (16, 8)),
):
    concepts(
        "convolutionSeparable/convolutionSeparable.cu",
        kernel,
        grid=grid,
        block=block,
        arguments=dict(dst=out(64, 256), src=normal(64, 256), width=256, height=64, pitch=256),
        expect=expect,
        edits=(constant("__constant__ float c_Kernel[KERNEL_LENGTH]", listed(FILTER)),),
        steps=32,
    )


def boxes(x, radius=3):
    """Means along the rows, their ends repeated."""
    padded = np.pad(x, ((0, 0), (radius, radius)), mode="edge")
    return np.lib.stride_tricks.sliding_window_view(padded, 2 * radius + 1, axis=-1).mean(-1)


for kernel, expect in (
    ("d_boxfilter_x_global", lambda x: boxes(x)),
    ("d_boxfilter_y_global", lambda x: boxes(x.T).T),
):
    concepts(
        "boxFilter/boxFilter_kernel.cu",
        kernel,
        grid=2,
        block=32,
        arguments=dict(x=uniform(64, 64), y=out(64, 64), width=64, height=64, radius=3),
        expect=expect,
        steps=256,
        drop=("tex2D", "cudaTextureObject_t", "cudaArray"),
    )
COSINES = np.array(
    [[sqrt((2 if k else 1) / 8) * np.cos((2 * i + 1) * k * np.pi / 16) for i in range(8)] for k in range(8)]
)


def by_eights(x, function):
    """A function of each 8 × 8 block."""
    h, w = x.shape
    return function(x.reshape(h // 8, 8, w // 8, 8).swapaxes(1, 2)).swapaxes(1, 2).reshape(h, w)


def cosine_transform(x):
    return by_eights(x, lambda b: COSINES @ b @ COSINES.T)


def inverse_transform(x):
    return by_eights(x, lambda b: COSINES.T @ b @ COSINES)


for direction in ("DCT", "IDCT"):
    concepts(
        "dct8x8/dct8x8_kernel2.cuh",
        f"CUDAkernel2{direction}",
        grid=(2, 4),
        block=(8, 4, 2),
        arguments=dict(dst=out(64, 64), src=uniform(64, 64, high=255), stride=64),
        expect=(lambda src: cosine_transform(src)) if direction == "DCT" else lambda src: inverse_transform(src),
        steps=64,
    )
    concepts(
        "dct8x8/dct8x8_kernel_short.cuh",
        f"CUDAkernelShort{direction}",
        grid=(2, 2),
        block=(8, 4, 4),
        arguments=dict(x=integers(64, 64, low=-128, high=128, dtype=i16), stride=64),
        expect=(lambda x: dict(x=cosine_transform(x)))
        if direction == "DCT"
        else lambda x: dict(x=inverse_transform(x)),
        precision=bf16,  # it rounds to whole numbers twice
        steps=12,
    )
QUANTA = np.array(
    [
        [32, 33, 51, 81, 66, 39, 34, 17],
        [33, 36, 48, 47, 28, 23, 12, 12],
        [51, 48, 47, 28, 23, 12, 12, 12],
        [81, 47, 28, 23, 12, 12, 12, 12],
        [66, 28, 23, 12, 12, 12, 12, 12],
        [39, 23, 12, 12, 12, 12, 12, 12],
        [34, 12, 12, 12, 12, 12, 12, 12],
        [17, 12, 12, 12, 12, 12, 12, 12],
    ]
)
QUANTIZATION = "dct8x8/dct8x8_kernel_quantization.cuh"
concepts(
    QUANTIZATION,
    "CUDAkernelQuantizationFloat",
    grid=(8, 8),
    block=(8, 8),
    arguments=dict(x=normal(64, 64, scale=100), stride=64),
    expect=lambda x: dict(x=by_eights(x, lambda b: np.round(b / QUANTA) * QUANTA)),
)
concepts(
    QUANTIZATION,
    "CUDAkernelQuantizationShort",
    grid=(8, 8),
    block=(8, 8),
    arguments=dict(x=integers(64, 64, low=-500, high=500, dtype=i16), stride=64),
    expect=lambda x: dict(
        x=by_eights(x.astype(int), lambda b: np.sign(b) * ((np.abs(b) + QUANTA // 2) // QUANTA) * QUANTA)
    ),
)
domains(
    "recursiveGaussian/recursiveGaussian_kernel.cuh",
    "d_transpose",
    grid=(4, 3),
    block=(16, 16),
    arguments=dict(y=out(50, 40, dtype=i32), x=integers(40, 50), width=50, height=40),
    expect=lambda x: x.T,
    drop=("float4",),
)


def tiles(x):
    """(tile row, tile column, row, column)."""
    return x.reshape(2, 32, 2, 32).swapaxes(1, 2)


def untiled(x):
    return x.swapaxes(1, 2).reshape(64, 64)


for kernel, expect in (
    ("copy", lambda x: x),
    ("copySharedMem", lambda x: x),
    ("transposeNaive", lambda x: x.T),
    ("transposeCoalesced", lambda x: x.T),
    ("transposeNoBankConflicts", lambda x: x.T),
    ("transposeDiagonal", lambda x: x.T),
    ("transposeFineGrained", lambda x: untiled(tiles(x).swapaxes(2, 3))),
    ("transposeCoarseGrained", lambda x: untiled(tiles(x).swapaxes(0, 1))),
):
    performance(
        "transpose/transpose.cu",
        kernel,
        grid=(2, 2),
        block=(32, 16),
        arguments=dict(y=out(64, 64), x=normal(64, 64), width=64, height=64),
        expect=expect,
    )


def walsh(x):
    """The transform of each row, in natural order."""
    rows, length = x.shape
    for h in 2 ** np.arange(length.bit_length() - 1):
        pairs = x.reshape(rows, -1, 2, h)
        x = np.stack((pairs[:, :, 0] + pairs[:, :, 1], pairs[:, :, 0] - pairs[:, :, 1]), 2).reshape(rows, length)
    return x


def walsh_of_quarters(x):
    """The two outermost steps."""
    quarters = x.reshape(len(x), 4, -1).swapaxes(1, 2).reshape(-1, 4)
    return walsh(quarters).reshape(len(x), -1, 4).swapaxes(1, 2).reshape(x.shape)


WALSH = "fastWalshTransform/fastWalshTransform_kernel.cuh"
domains(
    WALSH,
    "fwtBatch1Kernel",
    grid=3,
    block=128,
    shared=4 * 512,
    arguments=dict(y=out(3, 512), x=normal(3, 512), log2=9),  # odd: the last stage has two elements in place of four
    expect=lambda x: walsh(x),
    steps=64,
)
domains(
    WALSH,
    "fwtBatch2Kernel",
    grid=(2, 3),
    block=32,
    arguments=dict(y=out(3, 256), x=normal(3, 256), stride=64),
    expect=lambda x: walsh_of_quarters(x),
    steps=16,
)
domains(
    WALSH,
    "modulateKernel",
    grid=2,
    block=128,
    arguments=dict(a=normal(N), b=normal(N), n=N),
    expect=lambda a, b: dict(a=a * b / N),
)


def haar(x, levels):
    """The approximation, and the details of all levels behind a zero."""
    details, rest = [], x
    for _ in range(levels):
        details.insert(0, (rest[0::2] - rest[1::2]) / sqrt(2))
        rest = (rest[0::2] + rest[1::2]) / sqrt(2)
    return dict(approximation=rest, od=np.concatenate([rest * 0, *details]))


HAAR = "dwtHaar1D/dwtHaar1D_kernel.cuh"
WITH_HAAR = "#define INV_SQRT_2 0.70710678118654752440f\n#define LOG_NUM_BANKS 4"
domains(HAAR, "initValue", grid=4, block=64, arguments=dict(x=out(256), value=1.5), expect=lambda: 1.5, setup=WITH_HAAR)
domains(
    HAAR,
    "dwtHaar1D",
    grid=2,
    block=64,
    shared=4 * (2 * 64 + 8),
    arguments=dict(id=normal(256), od=full(0, 256), approximation=out(2), levels=7, half=128, bdim=64),
    expect=lambda id: haar(id, 7),
    setup=WITH_HAAR,
    steps=32,
)

# --- matrix products -----------------------------------------------------------------------------------------------

COPIES = "globalToShmemAsyncCopy/globalToShmemAsyncCopy.cu"
for add_to, path, kernel, tile in (
    (introduction, "matrixMul/matrixMul.cu", "MatrixMulCUDA<16>", 16),
    (introduction, "matrixMul/matrixMul.cu", "MatrixMulCUDA<32>", 32),
    (introduction, "matrixMul_nvrtc/matrixMul_kernel.cu", "matrixMulCUDA_block16", 16),
    (introduction, "matrixMul_nvrtc/matrixMul_kernel.cu", "matrixMulCUDA_block32", 32),
    (introduction, "matrixMulDrv/matrixMul_kernel.cu", "matrixMul_bs8_64bit", 8),
    (introduction, "matrixMulDrv/matrixMul_kernel.cu", "matrixMul_bs16_64bit", 16),
    (introduction, "matrixMulDrv/matrixMul_kernel.cu", "matrixMul_bs32_64bit", 32),
    (features, COPIES, "MatrixMulNaive<16>", 16),
    (features, COPIES, "MatrixMulAsyncCopySingleStage<16>", 16),
    (features, COPIES, "MatrixMulAsyncCopyMultiStage<16>", 16),
    (features, COPIES, "MatrixMulAsyncCopyMultiStageSharedState<16>", 16),
):
    producers = 4 if "SharedState" in kernel else 0
    add_to(
        path,
        kernel,
        grid=(96 // tile, 64 // tile),
        block=(tile, tile + producers),
        arguments=dict(c=out(64, 96), a=normal(64, 128), b=normal(128, 96), wA=128, wB=96),
        expect=lambda a, b: a @ b,
        steps=64,
        needs="pipelines with producers and consumers" if producers else "",
        fault="five stages are filled before the first is read, and there are buffers for four"
        if "MultiStage<" in kernel
        else "",
    )
for kernel in (
    "MatrixMulNaiveLargeChunk<16>",
    "MatrixMulAsyncCopyLargeChunk<16>",
    "MatrixMulAsyncCopyLargeChunkAWBarrier<16>",
    "MatrixMulAsyncCopyMultiStageLargeChunk<16>",
):
    features(
        COPIES,
        kernel,
        grid=(8, 8),
        block=(16, 16),
        arguments=dict(c=out(128, 128), a=normal(128, 128), b=normal(128, 128), wA=128, wB=128),
        expect=lambda a, b: a @ b,
        steps=64,
        fault="the tiles of B are read at the index of those of A; the sample's B has one value everywhere",
    )
performance(
    "UnifiedMemoryPerf/matrixMultiplyPerf.cu",
    "matrixMultiplyKernel",
    grid=(2, 2),
    block=(32, 32),
    arguments=dict(c=out(64, 64), a=normal(64, 64), b=normal(64, 64), n=64),
    expect=lambda a, b: a @ b,
    steps=64,
    drop=("memAllocTypeStr", "memAllocTypeShortStr"),
)


def numbers(dtype, *shape):
    return normal(*shape, dtype=dtype) if dtype.is_floating_point else integers(*shape, high=100, dtype=dtype)


def product(a, b, c, alpha, beta):
    return alpha * (a.astype(c.dtype) @ b.T.astype(c.dtype)) + beta * c


def gemm(path, kernel, dtype, result, size, depth, sizes, **more):
    """alpha A Bᵀ + beta C; `sizes` are the arguments behind D."""
    features(
        path,
        kernel,
        arguments=dict(
            a=numbers(dtype, size, depth), b=numbers(dtype, size, depth), c=numbers(result, size, size),
            d=out(size, size, dtype=result),
        )
        | sizes
        | (dict(alpha=2.0, beta=4.0) if result.is_floating_point else dict(alpha=2, beta=4)),
        expect=product,
        steps=128,
        precision="tf32" if "tf32" in kernel else None,
        **more,
    )  # fmt: skip


GEMMS = (
    ("cudaTensorCoreGemm/cudaTensorCoreGemm.cu", f16, f32, "simple_wmma_gemm", 16, 16, 256, 4, 16, ("compute_gemm",)),
    (
        "immaTensorCoreGemm/immaTensorCoreGemm.cu", u8, i32, "simple_wmma_gemm_imma", 16, 16, 256, 8, 32,
        ("compute_gemm_imma",),
    ),
    (
        "bf16TensorCoreGemm/bf16TensorCoreGemm.cu", bf16, f32, "simple_wmma_bf16gemm", 16, 16, 512, 8, 16,
        ("compute_bf16gemm", "compute_bf16gemm_async_copy"),
    ),
    (
        "tf32TensorCoreGemm/tf32TensorCoreGemm.cu", f32, f32, "simple_wmma_tf32gemm", 16, 8, 512, 8, 8,
        ("compute_tf32gemm", "compute_tf32gemm_async_copy"),
    ),
    (
        "dmmaTensorCoreGemm/dmmaTensorCoreGemm.cu", f64, f64, "simple_wmma_gemm", 8, 4, 1024, 16, 4,
        ("compute_dgemm", "compute_dgemm_async_copy", "compute_dgemm_cg_async_copy"),
    ),
)  # fmt: skip
"""(path, types, simple kernel, M = N and K of a fragment, tiles in the sample, of a chunk, padding, kernels that go
through shared memory). These have the sizes of their matrices from macros: a block's share is enough here."""
for path, dtype, result, kernel, m, k, tile_count, chunk, skew, others in GEMMS:
    size = 4 * m
    gemm(
        path,
        kernel,
        dtype,
        result,
        size,
        64,
        dict(m=size, n=size, k=64),
        grid=(2, 4),
        block=(64, 1),
        fault="the fragments of B are loaded with row and column exchanged" if dtype == bf16 else "",
    )
    size, depth = 8 * m, 2 * chunk * k
    bytes_ = torch.empty(0, dtype=dtype).element_size(), torch.empty(0, dtype=result).element_size()
    for other in others:
        gemm(
            path,
            other,
            dtype,
            result,
            size,
            depth,
            {},
            grid=1,
            block=256,
            shared=max(bytes_[0] * size * (chunk * k + skew) * 2, size * size * bytes_[1]),
            edits=(
                (f"#define M_TILES {tile_count}", "#define M_TILES 8"),
                (f"#define N_TILES {tile_count}", "#define N_TILES 8"),
                (f"#define K_TILES {tile_count}", f"#define K_TILES {depth // k}"),
            ),
            time_limit=100.0,
        )

# --- numerics ------------------------------------------------------------------------------------------------------

below = np.vectorize(lambda d: 0.5 * (1 + erf(d / sqrt(2))))
"""The normal distribution."""


def black_scholes(S, X, T, r, v):
    d1 = (np.log(S / X) + (r + 0.5 * v * v) * T) / (v * np.sqrt(T))
    n1, n2, discounted = below(d1), below(d1 - v * np.sqrt(T)), X * np.exp(-r * T)
    return dict(call=S * n1 - discounted * n2, put=discounted * (1 - n2) - S * (1 - n1))


for path in ("BlackScholes/BlackScholes_kernel.cuh", "BlackScholes_nvrtc/BlackScholes_kernel.cuh"):
    domains(
        path,
        "BlackScholesGPU",
        grid=4,
        block=128,
        arguments=dict(
            call=out(500, 2), put=out(500, 2), S=uniform(500, 2, low=5, high=30), X=uniform(500, 2, low=1, high=100),
            T=uniform(500, 2, low=0.25, high=10), r=0.02, v=0.3, n=1000,
        ),
        expect=black_scholes,
        steps=400,
    )  # fmt: skip


def sobol(directions, n):
    """Sobol numbers in the order of Gray codes."""
    gray = np.arange(n) ^ (np.arange(n) >> 1)
    vectors = directions.astype(np.int64) & 0xFFFFFFFF
    result = np.zeros((len(directions), n), np.int64)
    for bit in range(32):
        result ^= (gray >> bit & 1) * vectors[:, bit : bit + 1]
    return result * 2.0**-32


domains(
    "SobolQRNG/sobol_gpu.cu",
    "sobolGPU_kernel",
    grid=(2, 3),
    block=64,
    arguments=dict(n=600, dimensions=3, directions=integers(3, 32, low=-(2**31), high=2**31), y=out(3, 600)),
    expect=sobol,
)
TABLE = np.random.default_rng(0).integers(0, 2**31, (3, 31))


def quasirandom(seed, N):
    data, result = seed + np.arange(N), np.zeros((3, N), np.int64)
    for bit in range(31):
        result ^= (data >> bit & 1) * TABLE[:, bit : bit + 1]
    return (result + 1) / 2.0**31


def inverse_normal(x):
    """By Newton's method."""
    p, z = ((x.astype(np.int64) & 0xFFFFFFFF) + 0.5) / 2**32, np.zeros(len(x))
    for _ in range(60):
        z = np.clip(z - (below(z) - p) / (np.exp(-z * z / 2) / sqrt(2 * np.pi)), -6, 6)
    return z


QUASIRANDOM = "quasirandomGenerator/quasirandomGenerator_kernel.cu"
domains(
    QUASIRANDOM,
    "quasirandomGeneratorKernel",
    grid=2,
    block=(64, 3),
    arguments=dict(y=out(3, 600), seed=5, N=600),
    expect=quasirandom,
    edits=(
        constant(
            "static __constant__ unsigned int c_Table[QRNG_DIMENSIONS][QRNG_RESOLUTION]",
            "{" + ", ".join("{" + ", ".join(f"{x}u" for x in row) + "}" for row in TABLE) + "}",
        ),
    ),
)
domains(
    QUASIRANDOM,
    "inverseCNDKernel",
    grid=2,
    block=64,
    arguments=dict(y=out(400), x=integers(400, low=-(2**31), high=2**31), n=400),
    expect=inverse_normal,
    steps=4000,
)
STENCIL = np.array([0.3, 0.1, -0.05, 0.02, 0.01])


def stencil_step(input, radius=4):
    """Of the inside; the halo stays zero."""
    shape = [n - 2 * radius for n in input.shape]

    def shifted(axis, by):
        begins = [radius + by * (axis == a) for a in range(3)]
        return input[tuple(slice(b, b + n) for b, n in zip(begins, shape, strict=True))]

    neighbors = (STENCIL[abs(by)] * shifted(a, by) for a in range(3) for by in range(-radius, radius + 1) if by)
    return np.pad(STENCIL[0] * shifted(0, 0) + sum(neighbors), radius)


domains(
    "FDTD3d/inc/FDTD3dGPUKernel.cuh",
    "FiniteDifferencesKernel",
    grid=(1, 2),
    block=(32, 16),
    arguments=dict(output=full(0, 14, 40, 40), input=normal(14, 40, 40), x=32, y=32, z=6),
    expect=lambda input: dict(output=stencil_step(input)),
    edits=(constant("__constant__ float stencil[RADIUS + 1]", listed(STENCIL)),),
    steps=64,
)


def bodies_step(old, vel, dt, damping):
    """The fourth numbers are masses and stay."""
    r = old[None, :, :3] - old[:, None, :3]
    inverse = ((r**2).sum(-1) + 0.01) ** -1.5
    moved = (vel[:, :3] + dt * (r * (old[None, :, 3] * inverse)[..., None]).sum(1)) * damping
    return dict(
        new=np.concatenate((old[:, :3] + dt * moved, old[:, 3:]), -1), vel=np.concatenate((moved, vel[:, 3:]), -1)
    )


domains(
    "nbody/bodysystemcuda.cu",
    "integrateBodies<float>",
    grid=2,
    block=64,
    shared=64 * 16,
    arguments=dict(
        new=out(128, 4), old=uniform(128, 4), vel=normal(128, 4), offset=0, bodies=128, dt=0.01, damping=0.99, tiles=2
    ),
    expect=bodies_step,
    edits=(constant("__constant__ float  softeningSquared", "0.01f"),),
    drop=("BodySystem", "DeviceData", "integrateNbodySystem", "string"),
    steps=400,
)


def system(n):
    """A tridiagonal matrix, 2.5 and -1, in CSR: (row pointers, columns, values)."""
    rows = [[j for j in (i - 1, i, i + 1) if 0 <= j < n] for i in range(n)]
    pointers, columns = np.cumsum([0, *map(len, rows)]), np.concatenate(rows)
    return pointers, columns, np.where(columns == np.repeat(np.arange(n), np.diff(pointers)), 2.5, -1)


libraries(
    "conjugateGradientMultiBlockCG/conjugateGradientMultiBlockCG.cu",
    "gpuConjugateGradient",
    grid=2,
    block=128,
    shared=8 * 32,
    arguments=dict(
        I=values(lambda rng: system(100)[0], i32), J=values(lambda rng: system(100)[1], i32),
        val=values(lambda rng: system(100)[2]), x=full(0, 100), Ax=scratch(100), p=scratch(100),
        r=values(lambda rng: np.linspace(-1, 1, 100)).as_scratch(), dot=scratch(1, dtype=f64), nnz=298, N=100, tol=1e-5,
    ),
    expect=lambda: dict(
        x=np.linalg.solve(2.5 * np.eye(100) - np.eye(100, k=1) - np.eye(100, k=-1), np.linspace(-1, 1, 100))
    ),
    steps=1000,
)  # fmt: skip
NEW_DELETE = "newdelete/newdelete.cu"
for kernel in ("placementNew", "complexVector"):
    features(
        NEW_DELETE,
        kernel,
        block=64,
        arguments=dict(result=scratch(64, dtype=i32)),
        needs="constructors that call new, virtual functions",
    )
for add_to, path, kernel, arguments in (
    (
        introduction,
        "simpleTexture/simpleTexture.cu",
        "transformKernel",
        dict(width=64, height=64, theta=0.5, texture=0),
    ),
    (concepts, "dct8x8/dct8x8_kernel1.cuh", "CUDAkernel1DCT", dict(width=64, x=0, y=0, texture=0)),
):
    arguments = dict(output=scratch(64, 64)) | arguments
    add_to(path, kernel, grid=(8, 8), block=(8, 8), arguments=arguments, needs="textures")
