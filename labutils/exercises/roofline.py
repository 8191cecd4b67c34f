"""Unit 05: byte and FLOP ledgers, roofline bounds, and a kernel whose intensity the learner chooses."""

from ..gpu.roofline import Ledger, Roof, units
from ..spec.exercise import (
    Bound,
    Case,
    Contract,
    Cost,
    KernelExercise,
    KnownMistake,
    Number,
    PlainExercise,
    Points,
    array,
    out,
    register,
)

UNIT = "05_roofline"
SLACK = 0.03
"""Relative slack in FLOPs: operations done once per row may be omitted."""


# --- the least time ------------------------------------------------------------------------------------------------


def _least_time(bytes_moved: float, flops: float, bandwidth: float, peak: float) -> float:
    return max(bytes_moved / bandwidth, flops / peak)


def _explain_time(sizes, yours, expected) -> str | None:
    memory, compute = sizes["bytes_moved"] / sizes["bandwidth"], sizes["flops"] / sizes["peak"]
    messages = {
        memory + compute: "That adds both times. While some warps wait for memory, others compute.",
        memory: "That is the memory time. Arithmetic takes longer here.",
        compute: "That is the compute time. Memory takes longer here.",
        min(memory, compute): "The kernel ends when the slower of the two ends.",
    }
    for trivial in (expected, 0.0):
        messages.pop(trivial, None)
    return messages.get(yours)


register(
    PlainExercise(
        id=f"{UNIT}/least_time",
        title="Least time under a roof",
        entry="least_time",
        points=Points(correct=1),
        reference=_least_time,
        explain=_explain_time,
        cases=(
            Case("a vector add on an H200", _sizes := dict(bytes_moved=12e8, flops=1e8, bandwidth=4.8e12, peak=67e12)),
            Case("a large matmul in fp16", _sizes | {"bytes_moved": 1e8, "flops": 1.4e11, "peak": 989e12}),
            Case("a copy", _sizes | {"flops": 0.0}),
            Case("exactly at the ridge", dict(bytes_moved=1e9, flops=1e11, bandwidth=1e12, peak=1e14)),
        ),
        draw=lambda rng: {
            "bytes_moved": rng.uniform(1e6, 1e10),
            "flops": 10 ** rng.uniform(6, 13),
            "bandwidth": rng.uniform(3e11, 8e12),
            "peak": 10 ** rng.uniform(13, 15),
        },
    )
)


# --- ledgers -------------------------------------------------------------------------------------------------------


def examine_ledger(expected: Ledger, yours, questions: dict[str, str]) -> tuple[str, str] | None:
    """Compare totals. `questions` holds hints for "read", "written" and "FLOPs"."""
    if not isinstance(yours, Ledger):
        message = f"a {type(yours).__name__} was returned"
        return message, "Return Ledger({array: bytes read}, {array: bytes written}, flops=…)."
    pairs = (
        ("read", yours.read, expected.read, "B", 1e-9),
        ("written", yours.written, expected.written, "B", 1e-9),
        ("FLOPs", yours.flops, expected.flops, "FLOP", SLACK),
    )
    for what, got, wanted, unit, share in pairs:
        if abs(got - wanted) > share * max(abs(wanted), 1e-9):
            return f"{what}: {units(got, unit)}, expected {units(wanted, unit)}", questions[what]
    return None


ROWS = ((4096, 8192, 4), (4096, 8192, 2), (1, 2048, 4), (16384, 1000, 2))
"""(M, N, itemsize) of the kernels that work on rows."""

PRODUCTS = (
    ("4096 cubed, fp16", (4096, 4096, 4096, 2)),
    ("a matrix times a vector, fp16", (8192, 1, 8192, 2)),
    ("flat: 16 × 4096 × 4096", (16, 4096, 4096, 2)),
    ("fp32, all sizes different", (300, 700, 1100, 4)),
)
"""(M, N, K, itemsize) of matmuls."""


def softmax(M, N, itemsize) -> Ledger:
    x = M * N * itemsize
    return Ledger({"x": x}, {"y": x}, 5 * M * N, "softmax")


def layer_norm(M, N, itemsize) -> Ledger:
    x, row = M * N * itemsize, N * itemsize
    return Ledger({"x": x, "w": row, "b": row}, {"y": x}, 7 * M * N, "LayerNorm")


def matmul(M, N, K, itemsize) -> Ledger:
    reads = {"a": M * K * itemsize, "b": K * N * itemsize}
    return Ledger(reads, {"c": M * N * itemsize}, 2 * M * N * K, "matmul")


def rms_norm_residual(M, N, itemsize) -> Ledger:
    x = M * N * itemsize
    return Ledger({"x": x, "r": x, "w": N * itemsize}, {"s": x, "y": x}, 5 * M * N, "RMSNorm + residual")


KERNELS = {
    "softmax": (
        softmax,
        {
            "read": "A fused kernel keeps its row on the chip: how often is each element loaded, in bytes?",
            "written": "Maximum and sum stay on the chip too. What must reach memory?",
            "FLOPs": "Go through the formula: max, subtract, exp, sum, divide.",
        },
    ),
    "LayerNorm": (
        layer_norm,
        {
            "read": "x once; weight and bias have N elements each and serve all rows, so memory is read once for them.",
            "written": "Mean and variance are used within the kernel. What is its result?",
            "FLOPs": "Per element: add to the mean's sum, − mean, square, add to the variance's sum, · rstd, · w, + b.",
        },
    ),
    "matmul": (
        matmul,
        {
            "read": "A has M·K elements, B has K·N. Each is read at least once.",
            "written": "C has M·N elements. The accumulators stay in registers.",
            "FLOPs": "Each of the M·N results is a sum of K products: one multiplication and one addition each.",
        },
    ),
    "RMSNorm + residual": (
        rms_norm_residual,
        {
            "read": "x and r have M·N elements each, and the weights are read once. The kernel has just computed s.",
            "written": "There are two results: y for the next layer, and s, which is the next residual. Keep s.",
            "FLOPs": "Per element: x + r, square, add to the sum, · rstd, · w.",
        },
    ),
}
"""Reference and hints by kernel. Cases hold the kernel's place in this table, because sizes are integers."""

NAMES = tuple(KERNELS)


def _make_ledger(kernel: int, M: int, N: int, K: int, itemsize: int) -> dict:
    return {"kernel": NAMES[kernel], "M": M, "N": N, "K": K, "itemsize": itemsize}


def reference_ledger(kernel: str, M: int, N: int, K: int, itemsize: int) -> Ledger:
    """The ledger of the named kernel; only the matmul uses K."""
    reference = KERNELS[kernel][0]
    return reference(M, N, K, itemsize) if kernel == "matmul" else reference(M, N, itemsize)


def _examine_ledger(sizes, arguments, yours) -> tuple[str, str] | None:
    found = examine_ledger(reference_ledger(**arguments), yours, KERNELS[arguments["kernel"]][1])
    return found and (f"{arguments['kernel']}: {found[0]}", found[1])


def _ledger_cases() -> tuple[Case, ...]:
    cases = []
    for kernel, name in enumerate(NAMES):
        if name == "matmul":
            cases += [(f"matmul, {what}", (kernel, *sizes)) for what, sizes in PRODUCTS]
        else:
            cases += [(f"{name}, {m} × {n}, {item} bytes each", (kernel, m, n, 0, item)) for m, n, item in ROWS]
    return tuple(
        Case(name, dict(zip(("kernel", "M", "N", "K", "itemsize"), sizes, strict=True))) for name, sizes in cases
    )


def _draw_ledger(rng) -> dict[str, int]:
    kernel = rng.randrange(len(NAMES))
    if NAMES[kernel] == "matmul":
        M, N, K = rng.randrange(1, 9000), rng.randrange(1, 9000), rng.randrange(40, 9000)
    else:
        M, N, K = rng.randrange(1, 50_000), rng.randrange(512, 20_000), 0
    return {"kernel": kernel, "M": M, "N": N, "K": K, "itemsize": rng.choice([2, 4])}


register(
    PlainExercise(
        id=f"{UNIT}/ledgers",
        title="Ledgers of four fused kernels",
        entry="ledger",
        points=Points(correct=5),
        make=_make_ledger,
        examine=_examine_ledger,
        cases=_ledger_cases(),
        draw=_draw_ledger,
    )
)


# --- crossover of a matmul ------------------------------------------------------------------------------------------


def _crossover(itemsize: int, peak: float, bandwidth: float) -> float:
    return 1.5 * itemsize * peak / bandwidth


def _explain_crossover(sizes, yours, expected) -> str | None:
    ridge, item = sizes["peak"] / sizes["bandwidth"], sizes["itemsize"]
    messages = {
        ridge: "That is the ridge itself. A square matmul's intensity is not M: compute it from your ledger.",
        3 * ridge: "That is right for fp16, whose intensity is M / 3. Use itemsize.",
        1.5 * ridge: "That counts elements moved, not bytes.",
        3 * item * ridge: "Each product is followed by an addition: 2M³ FLOPs.",
        0.5 * item * ridge: "That counts one matrix. Three are moved: A, B and C.",
        item * ridge: "That counts two matrices. C is moved too.",
    }
    found = [text for value, text in messages.items() if abs(value - yours) < 1e-6 * value and value != expected]
    return found[0] if found else None


register(
    PlainExercise(
        id=f"{UNIT}/crossover",
        title="Side at which a square matmul becomes compute-bound",
        entry="crossover",
        points=Points(correct=1),
        reference=_crossover,
        rtol=0.01,
        explain=_explain_crossover,
        cases=(
            Case("H200, fp16 tensor cores", {"itemsize": 2, "peak": 989e12, "bandwidth": 4.8e12}),
            Case("H200, fp32 on CUDA cores", {"itemsize": 4, "peak": 67e12, "bandwidth": 4.8e12}),
            Case("H200, fp8 in and out", {"itemsize": 1, "peak": 1979e12, "bandwidth": 4.8e12}),
            Case("A100, TF32", {"itemsize": 4, "peak": 156e12, "bandwidth": 1.555e12}),
        ),
        draw=lambda rng: {
            "itemsize": rng.choice([1, 2, 4]),
            "peak": rng.uniform(4e14, 2e15),  # the side is at least a few hundred: rounding it up is within 1 %
            "bandwidth": rng.uniform(3e11, 3.5e12),
        },
    )
)


# --- verdicts ------------------------------------------------------------------------------------------------------


def _verdict(work: Ledger, seconds: float, roof: Roof) -> str:
    least = roof.predict(work)
    return least.bound if least.seconds >= 0.5 * seconds else "neither"


def _make_verdict(read, written, flops, ns, bandwidth, peak) -> dict:
    work = Ledger({"in": float(read)}, {"out": float(written)}, float(flops))
    return {"work": work, "seconds": ns * 1e-9, "roof": Roof("a GPU", float(peak), float(bandwidth))}


def _examine_verdict(sizes, arguments, yours) -> tuple[str, str] | None:
    expected = _verdict(**arguments)
    if yours == expected:
        return None
    least = arguments["roof"].predict(arguments["work"])
    share = least.seconds / arguments["seconds"]
    message = f"{yours!r} for a kernel at {share:.0%} of the roof above it"
    if yours not in ("memory", "compute", "neither"):
        return message, 'Return "memory", "compute" or "neither".'
    if expected == "neither":
        return message, "It takes more than twice the least time, so it waits for neither memory nor arithmetic."
    if yours == "neither":
        return message, "At half of a roof or more, that roof is the limit. Compare the time with the least time."
    return (
        message,
        f"Its intensity is {arguments['work'].intensity:.3g}, the ridge {arguments['roof'].ridge:.3g} FLOP/byte.",
    )


def _seen(name: str, gbytes_read: float, gbytes_written: float, gflops: float, us: float, tflops: float) -> Case:
    sizes = {
        "read": round(gbytes_read * 1e9),
        "written": round(gbytes_written * 1e9),
        "flops": round(gflops * 1e9),
        "ns": round(us * 1e3),
        "bandwidth": 4282 * 10**9,
        "peak": round(tflops * 1e12),
    }
    return Case(name, sizes)


def _draw_verdict(rng) -> dict[str, int]:
    read, written, flops = rng.uniform(1e7, 2e9), rng.uniform(1e6, 1e9), 10 ** rng.uniform(6, 13)
    least = max((read + written) / 4282e9, flops / 690e12)
    ns = least * 1e9 * rng.choice([rng.uniform(1.02, 1.9), rng.uniform(2.1, 9)])
    return {"read": round(read), "written": round(written), "flops": round(flops), "ns": round(ns),
            "bandwidth": 4282 * 10**9, "peak": 690 * 10**12}  # fmt: skip


register(
    PlainExercise(
        id=f"{UNIT}/verdict",
        title="What limits a measured kernel",
        entry="verdict",
        points=Points(correct=2),
        make=_make_verdict,
        examine=_examine_verdict,
        cases=(
            _seen("GeLU, one kernel, 2^27 fp32: 257 µs", 0.537, 0.537, 1.61, 257, 51),
            _seen("matmul 4096 cubed, fp16: 199 µs", 0.0671, 0.0336, 137.4, 199, 690),
            _seen("matmul 512 cubed, fp16: 7.3 µs", 0.00105, 0.00052, 0.268, 7.3, 690),
            _seen("transposed copy of 8192 × 8192 fp32: 465 µs", 0.268, 0.268, 0.0, 465, 51),
            _seen("sum of 1 GiB: 260 µs", 1.074, 0.0, 0.268, 260, 51),
            _seen("one token's 8192 × 8192 fp16 matmul: 45 µs", 0.134, 0.00002, 0.134, 45, 690),
        ),
        draw=_draw_verdict,
    )
)


# --- your own kernel -----------------------------------------------------------------------------------------------


def _chain(x, steps: int):
    """x after `steps` times x ← x/2 + 1, which is 2 + (x − 2) / 2^steps."""
    for _ in range(steps):
        x = 0.5 * x + 1
    return x


register(
    KernelExercise(
        id=f"{UNIT}/own_kernel",
        title="A chain of FMAs whose intensity you choose",
        entry="fma_chain",
        # a store in the loop gives the right answer, but the intensity no longer grows with the steps
        points=Points(
            correct=1,
            bounds=(Bound("bytes requested per compulsory byte", "moved_bytes", "compulsory_bytes", at_most=1.05),),
        ),
        arguments={"x": array("n"), "steps": Number(size="steps"), "out": out("n")},
        reference=_chain,
        # each step halves the error so far and adds two roundings, so the sum stays below four
        magnitude=lambda x, steps: x.abs() + 2,
        contract=Contract(terms=4),
        cost=lambda sizes, item: Cost(item * sizes["n"], item * sizes["n"], 2 * sizes["steps"] * sizes["n"]),
        cases=(
            Case("one element, one step", {"n": 1, "steps": 1}),
            Case("three elements, two steps", {"n": 3, "steps": 2}, "position"),
            Case("n = 1023, one short of a block", {"n": 1023, "steps": 3}, "position"),
            Case("n = 1024, exactly one block", {"n": 1024, "steps": 4}, "wide"),
            Case("n = 1025, one more than a block", {"n": 1025, "steps": 5}, "position"),
            Case("n = 3000, values up to ten thousand", {"n": 3000, "steps": 8}, "large"),
            Case("n = 5000, not aligned to 16 bytes", {"n": 5000, "steps": 6}, layout="offset"),
            Case("n = 20011, many blocks, four steps", {"n": 20_011, "steps": 4}, "position"),
        ),
        draw=lambda rng: {
            "n": rng.choice([rng.randrange(1, 64), 1024 * rng.randrange(1, 5) + rng.choice([-1, 0, 1])]),
            "steps": rng.randrange(1, 9),
        },
        tiny=Case("six elements, two steps", {"n": 6, "steps": 2}, "integers"),
        bench={"n": 2**27, "steps": 16},
        library=_chain,
        known_mistakes=(
            KnownMistake("wrong-formula", "{name} is a copy of x: the loop is missing", lambda x, steps: x.clone()),
            KnownMistake("off-by-one", "{name} has one step too few", lambda x, steps: _chain(x, steps - 1)),
            KnownMistake("off-by-one", "{name} has one step too many", lambda x, steps: _chain(x, steps + 1)),
            KnownMistake("wrong-formula", "{name} is one step for any STEPS", lambda x, steps: _chain(x, 1)),
            KnownMistake("wrong-formula", "{name} is x / 2^STEPS: add 1 in each step", lambda x, steps: x * 0.5**steps),
        ),
    )
)
