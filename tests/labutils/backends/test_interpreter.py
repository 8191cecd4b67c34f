"""Honest kernels of every style that the course uses are accepted: no false alarm from the recorder, from the
extraction of their source or from the compiler."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from labutils.backends import interpreter
from labutils.backends.access import Recorder
from labutils.check.check import evaluate
from labutils.spec.exercise import Case, Contract, Cost, KernelExercise, Points, array, out

triton = pytest.importorskip("triton")
import torch  # noqa: E402
import triton.language as tl  # noqa: E402
from triton.tools.tensor_descriptor import TensorDescriptor  # noqa: E402

ROOT = Path(__file__).parents[3]
DTYPES = ("float32", "float16", "bfloat16")

if os.environ.get("TRITON_INTERPRET") != "1":
    pytest.skip("Triton's interpreter is off where there is a GPU", allow_module_level=True)
interpreter.require()


def small(name, cases, **more):
    return KernelExercise(
        id=f"99_test/{name}",
        title=name,
        entry=name,
        points=Points(correct=1),
        cost=lambda sizes, item: Cost(item, item, 1),
        draw=lambda rng: {},
        cases=tuple(cases),
        tiny=cases[0],
        **more,
    )


ADD = small(
    "add",
    [Case(f"n = {n}, {d}", {"n": n}, "position", dtype=d) for n in (1, 1000) for d in DTYPES],
    arguments={"x": array("n"), "y": array("n"), "out": out("n")},
    reference=lambda x, y: x + y,
    contract=Contract(terms=1),
)

TOTAL = small(
    "total",
    [Case("n = 1000", {"n": 1000, "one": 1}), Case("n = 5000", {"n": 5000, "one": 1})],
    arguments={"x": array("n"), "out": out("one")},
    reference=lambda x: x.sum().reshape(1),
    magnitude=lambda x: x.abs().sum().reshape(1),
    contract=Contract(terms=lambda s: s["n"]),
)

MATMUL = small(
    "matmul",
    [
        Case("64 × 32 × 96", {"M": 64, "N": 32, "K": 96}, dtype="float16"),
        Case("64 × 64 × 64, bf16", {"M": 64, "N": 64, "K": 64}, dtype="bfloat16"),
        Case("32 × 64 × 64, fp32", {"M": 32, "N": 64, "K": 64}, dtype="float32"),
    ],
    arguments={"a": array("M", "K"), "b": array("K", "N"), "c": out("M", "N")},
    reference=lambda a, b: a @ b,
    magnitude=lambda a, b: a.abs() @ b.abs(),
    contract=Contract(dtype="float16", operands="tf32", terms=lambda s: s["K"]),
)


# --- elementwise ---------------------------------------------------------------------------------------------------

HALF_TILE = tl.constexpr(64)
CONFIGS = [triton.Config({"BLOCK": b}, num_warps=w) for b, w in ((64, 1), (128, 4), (256, 8))]


@triton.jit
def plus(a, b):
    return a + b


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr = 128, combine: tl.constexpr = plus):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    tl.store(out_ptr + offs, combine(tl.load(x_ptr + offs, mask), tl.load(y_ptr + offs, mask)), mask)


def default_arguments(x, y, out):
    add_kernel[(triton.cdiv(x.numel(), 128),)](x, y, out, x.numel())


def tile_and_grid_from_meta(x, y, out):
    n = x.numel()
    add_kernel[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, y, out, n=n, BLOCK=1024, num_warps=8)


@triton.jit
def global_constant_kernel(x_ptr, y_ptr, out_ptr, n):
    start = tl.program_id(0) * HALF_TILE * 2
    for half in tl.static_range(2):
        offs = start + half * HALF_TILE + tl.arange(0, HALF_TILE)
        mask = offs < n
        tl.store(out_ptr + offs, plus(tl.load(x_ptr + offs, mask), tl.load(y_ptr + offs, mask)), mask)


def global_constant(x, y, out):
    global_constant_kernel[(triton.cdiv(x.numel(), 128),)](x, y, out, x.numel())


@triton.autotune(configs=CONFIGS, key=["n"])
@triton.jit
def autotuned_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    tl.store(out_ptr + offs, tl.load(x_ptr + offs, mask) + tl.load(y_ptr + offs, mask), mask)


def autotuned(x, y, out):
    n = x.numel()
    autotuned_kernel[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, y, out, n)


@triton.heuristics({"BLOCK": lambda args: triton.next_power_of_2(args["n"])})
@triton.jit
def heuristic_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    mask = offs < n
    tl.store(out_ptr + offs, tl.load(x_ptr + offs, mask) + tl.load(y_ptr + offs, mask), mask)


def heuristic(x, y, out):
    heuristic_kernel[(1,)](x, y, out, x.numel())


@triton.jit
def grid_stride_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    step = tl.num_programs(0) * BLOCK
    for start in tl.range(tl.program_id(0) * BLOCK, n, step, num_stages=2):
        offs = start + tl.arange(0, BLOCK)
        mask = offs < n
        tl.store(out_ptr + offs, tl.load(x_ptr + offs, mask) + tl.load(y_ptr + offs, mask), mask)


def grid_stride(x, y, out):
    grid_stride_kernel[(3,)](x, y, out, x.numel(), BLOCK=64)


def same_values_twice(x, y, out):
    """Two programs store the same bits to the same place: useless and harmless."""
    add_kernel[(triton.cdiv(x.numel(), 128), 2)](x, y, out, x.numel())


def scratch_and_copy(x, y, out):
    """The second kernel reads what the first one wrote; scratch of one launch may lie where that of another lay."""
    for _ in range(3):
        scratch = torch.empty_like(x)
        add_kernel[(triton.cdiv(x.numel(), 128),)](x, y, scratch, x.numel())
        bigger = torch.zeros(2 * x.numel(), dtype=x.dtype)
        add_kernel[(triton.cdiv(x.numel(), 128),)](scratch, bigger, out, x.numel())


def _later(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    tl.store(out_ptr + offs, tl.load(x_ptr + offs, mask) + tl.load(y_ptr + offs, mask), mask)


later_kernel = triton.jit(_later)


def jit_by_call(x, y, out):
    later_kernel[(triton.cdiv(x.numel(), 128),)](x, y, out, x.numel(), BLOCK=128)


# --- a sum over all programs ---------------------------------------------------------------------------------------


@triton.jit
def atomic_total_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(out_ptr, tl.sum(tl.load(x_ptr + offs, mask=offs < n, other=0.0), axis=0))


def split_with_atomics(x, out):
    out.zero_()
    atomic_total_kernel[(triton.cdiv(x.numel(), 128),)](x, out, x.numel(), BLOCK=128)


@triton.jit
def last_block_kernel(x_ptr, parts_ptr, count_ptr, out_ptr, n, BLOCK: tl.constexpr, PARTS: tl.constexpr):
    pid = tl.program_id(0)
    offs = pid * BLOCK + tl.arange(0, BLOCK)
    tl.store(parts_ptr + pid, tl.sum(tl.load(x_ptr + offs, mask=offs < n, other=0.0), axis=0))
    tl.debug_barrier()
    before = tl.atomic_add(count_ptr, 1)
    if before == tl.num_programs(0) - 1:
        i = tl.arange(0, PARTS)
        tl.store(out_ptr, tl.sum(tl.load(parts_ptr + i, mask=i < tl.num_programs(0), other=0.0), axis=0))


def last_block_finishes(x, out):
    programs = triton.cdiv(x.numel(), 128)
    parts, count = torch.empty(programs), torch.zeros(1, dtype=torch.int32)
    last_block_kernel[(programs,)](x, parts, count, out, x.numel(), 128, triton.next_power_of_2(programs))


@triton.jit
def locked_total_kernel(x_ptr, lock_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    part = tl.sum(tl.load(x_ptr + offs, mask=offs < n, other=0.0), axis=0)
    while tl.atomic_cas(lock_ptr, 0, 1) == 1:
        pass
    tl.store(out_ptr, tl.load(out_ptr) + part)
    tl.atomic_xchg(lock_ptr, 0)


def lock_around_the_sum(x, out):
    out.zero_()
    lock = torch.zeros(1, dtype=torch.int32)
    locked_total_kernel[(triton.cdiv(x.numel(), 128),)](x, lock, out, x.numel(), 128)


@triton.jit
def part_sums_kernel(x_ptr, parts_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(parts_ptr + tl.program_id(0), tl.sum(tl.load(x_ptr + offs, mask=offs < n, other=0.0), axis=0))


def two_kernels(x, out):
    """Halve the number of parts until one is left, in place of the scratch."""
    n, parts = x.numel(), x
    while n > 1:
        programs = triton.cdiv(n, 64)
        sums = out if programs == 1 else torch.empty(programs)
        part_sums_kernel[(programs,)](parts, sums, n, BLOCK=64)
        n, parts = programs, sums


# --- matmul --------------------------------------------------------------------------------------------------------


@triton.jit
def device_descriptor_kernel(a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    a = tl.make_tensor_descriptor(a_ptr, [M, K], [K, 1], [BM, BK])
    b = tl.make_tensor_descriptor(b_ptr, [K, N], [N, 1], [BK, BN])
    c = tl.make_tensor_descriptor(c_ptr, [M, N], [N, 1], [BM, BN])
    m, n = tl.program_id(0) * BM, tl.program_id(1) * BN
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        acc = tl.dot(a.load([m, k]), b.load([k, n]), acc)
    c.store([m, n], acc.to(c_ptr.dtype.element_ty))


def device_descriptors(a, b, c):
    (M, K), N = a.shape, b.shape[1]
    device_descriptor_kernel[(triton.cdiv(M, 32), triton.cdiv(N, 32))](a, b, c, M, N, K, 32, 32, 32)


@triton.jit
def host_descriptor_kernel(a, b, c, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m, n = tl.program_id(0) * BM, tl.program_id(1) * BN
    acc = tl.zeros((BM, BN), tl.float32)
    for k in tl.range(0, K, BK):
        acc = tl.dot(a.load([m, k]), b.load([k, n]), acc)
    c.store([m, n], acc.to(c.dtype))


def host_descriptors(a, b, c):
    (M, K), N = a.shape, b.shape[1]
    grid = (triton.cdiv(M, 32), triton.cdiv(N, 32))
    blocks = [TensorDescriptor.from_tensor(x, [32, 32]) for x in (a, b, c)]
    host_descriptor_kernel[grid](*blocks, K, 32, 32, 32)


@triton.jit
def split_k_kernel(a_ptr, b_ptr, c_ptr, M, N, K, part, BLOCK: tl.constexpr):
    offs_m = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    offs_n = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK, BLOCK), tl.float32)
    start = tl.program_id(2) * part
    for k in range(start, min(start + part, K), BLOCK):
        offs_k = k + tl.arange(0, BLOCK)
        a = tl.load(a_ptr + offs_m[:, None] * K + offs_k[None, :])
        b = tl.load(b_ptr + offs_k[:, None] * N + offs_n[None, :])
        acc += tl.dot(a, b)
    tl.atomic_add(c_ptr + offs_m[:, None] * N + offs_n[None, :], acc)


@triton.jit
def round_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + offs, tl.load(x_ptr + offs, mask=offs < n), mask=offs < n)


def split_k(a, b, c):
    (M, K), N = a.shape, b.shape[1]
    total = torch.zeros(M, N)
    split_k_kernel[(M // 16, N // 16, 2)](a, b, total, M, N, K, 32 * triton.cdiv(K, 64), 16)
    round_kernel[(triton.cdiv(M * N, 256),)](total, c, M * N, 256)


HONEST = [
    (ADD, default_arguments),
    (ADD, tile_and_grid_from_meta),
    (ADD, global_constant),
    (ADD, autotuned),
    (ADD, heuristic),
    (ADD, grid_stride),
    (ADD, same_values_twice),
    (ADD, scratch_and_copy),
    (ADD, jit_by_call),
    (TOTAL, split_with_atomics),
    (TOTAL, last_block_finishes),
    (TOTAL, lock_around_the_sum),
    (TOTAL, two_kernels),
    (MATMUL, device_descriptors),
    (MATMUL, host_descriptors),
    (MATMUL, split_k),
]


@pytest.mark.parametrize("exercise, fn", HONEST, ids=[fn.__name__ for _, fn in HONEST])
def test_honest_kernel_is_accepted(exercise, fn):
    verdict = evaluate(exercise, fn)
    assert verdict.headline is None, verdict.headline
    assert verdict.notes == [] and verdict.passed


def test_autotuning_gives_each_configuration_its_turn():
    blocks = []

    def note(kernel, args, kwargs):
        blocks.append(kwargs["BLOCK"])

    x = torch.ones(40)
    autotuned_kernel.cache.clear()
    with interpreter.recording(Recorder(), on_launch=note):
        for n in (10, 20, 30, 20):
            autotuned(x[:n], x[:n], torch.empty(n))
    assert blocks == [64, 128, 256, 128]


def test_nothing_stays_patched():
    import triton.runtime.interpreter as private

    before = dict(vars(type(private.interpreter_builder))), private.GridExecutor.__call__
    with interpreter.recording(Recorder()):
        assert private.GridExecutor.__call__ is not before[1]
    assert (dict(vars(type(private.interpreter_builder))), private.GridExecutor.__call__) == before


# --- other versions of Triton --------------------------------------------------------------------------------------


OTHERS = [p for p in os.environ.get("GPULAB_TRITON_PATHS", "").split(os.pathsep) if p]


@pytest.mark.slow
@pytest.mark.skipif(not OTHERS, reason="GPULAB_TRITON_PATHS names no folders with other versions of Triton")
@pytest.mark.parametrize("path", OTHERS)
def test_other_versions_of_triton(path):
    """These tests, and those of patches and diagnoses, with each Triton that GPULAB_TRITON_PATHS names a folder of."""
    here = Path(__file__)
    environment = {k: v for k, v in os.environ.items() if k != "GPULAB_TRITON_PATHS"}
    environment["PYTHONPATH"] = os.pathsep.join([path, environment.get("PYTHONPATH", "")])
    tests = [
        str(here),
        str(here.with_name("test_interpreter_patches.py")),
        str(here.with_name("test_offline.py")),
        str(here.parents[1] / "check/test_diagnose.py"),
    ]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-3000:]
