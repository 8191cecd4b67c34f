"""Unit 05: byte and FLOP ledgers, and what the roofline says about them."""

from ..gpu.roofline import Ledger, Roof, units
from ..spec.exercise import Case, PlainExercise, Points, register

UNIT = "05_roofline"
SLACK = 0.03
"""For FLOPs: what is done once for each row hardly counts, and may be left out."""


# --- the least time ------------------------------------------------------------------------------------------------


def _least_time(bytes_moved: float, flops: float, bandwidth: float, peak: float) -> float:
    return max(bytes_moved / bandwidth, flops / peak)


def _explain_time(sizes, yours, expected) -> str | None:
    memory, compute = sizes["bytes_moved"] / sizes["bandwidth"], sizes["flops"] / sizes["peak"]
    messages = {
        memory + compute: "That is one after the other. While some warps wait for memory, others compute.",
        memory: "That is the memory's time. Arithmetic takes longer here.",
        compute: "That is the arithmetic's time. Memory takes longer here.",
        min(memory, compute): "The work is done when the slower of the two is done.",
    }
    for trivial in (expected, 0.0):
        messages.pop(trivial, None)
    return messages.get(yours)


register(
    PlainExercise(
        id=f"{UNIT}/least_time",
        title="The least time under a roof",
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
    """Compare totals. `questions` leads on for "read", "written" and "FLOPs"."""
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


def _ledger(name: str, title: str, points: float, reference, cases, draw, questions) -> None:
    register(
        PlainExercise(
            id=f"{UNIT}/{name}",
            title=title,
            entry=f"{name}_ledger",
            points=Points(correct=points),
            make=lambda **sizes: sizes,
            examine=lambda sizes, arguments, yours: examine_ledger(reference(**sizes), yours, questions),
            cases=cases,
            draw=draw,
        )
    )


def _rows(*cases: tuple[int, int, int]) -> tuple[Case, ...]:
    return tuple(
        Case(f"{m} × {n}, {item} bytes each", {"M": m, "N": n, "itemsize": item}) for m, n, item in cases
    )  # fmt: skip


ROWS = _rows((4096, 8192, 4), (4096, 8192, 2), (1, 2048, 4), (16384, 1000, 2))


def _draw_rows(rng) -> dict[str, int]:
    return {"M": rng.randrange(1, 50_000), "N": rng.randrange(512, 20_000), "itemsize": rng.choice([2, 4])}


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


_ledger(
    "softmax",
    "Ledger of a fused softmax",
    1,
    softmax,
    ROWS,
    _draw_rows,
    {
        "read": "A fused kernel keeps its row on the chip: how often is each element loaded, in bytes?",
        "written": "Maximum and sum stay on the chip too. What has to reach memory?",
        "FLOPs": "One line of the formula at a time: max, subtract, exp, sum, divide.",
    },
)
_ledger(
    "layer_norm",
    "Ledger of LayerNorm",
    1,
    layer_norm,
    ROWS,
    _draw_rows,
    {
        "read": "x once; weight and bias have N elements each and serve all rows, so they come from memory once.",
        "written": "Mean and variance are used within the kernel. What is its result?",
        "FLOPs": "For each element: into the mean's sum, − mean, squared, into the variance's sum, · rstd, · w, + b.",
    },
)
_ledger(
    "matmul",
    "Ledger of a matmul",
    1,
    matmul,
    tuple(
        Case(name, dict(zip(("M", "N", "K", "itemsize"), sizes, strict=True)))
        for name, sizes in (
            ("4096 cubed, fp16", (4096, 4096, 4096, 2)),
            ("a matrix times a vector, fp16", (8192, 1, 8192, 2)),
            ("flat: 16 × 4096 × 4096", (16, 4096, 4096, 2)),
            ("fp32, all sizes different", (300, 700, 1100, 4)),
        )
    ),
    lambda rng: {"M": rng.randrange(1, 9000), "N": rng.randrange(1, 9000), "K": rng.randrange(40, 9000), "itemsize": 2},
    {
        "read": "A has M·K elements, B has K·N. At least, each is read once.",
        "written": "C has M·N elements. The sums on the way stay in registers.",
        "FLOPs": "Each of the M·N results is a sum of K products: a multiplication and an addition for each.",
    },
)
_ledger(
    "rms_norm_residual",
    "Ledger of RMSNorm with residual",
    2,
    rms_norm_residual,
    ROWS,
    _draw_rows,
    {
        "read": "Two arrays of M·N come in, x and r, and the weights once. The kernel has just computed s: who has it?",
        "written": "Two results: y for the next layer, and s, which is the next residual. Keep it.",
        "FLOPs": "For each element: x + r, squared, into the sum, · rstd, · w.",
    },
)


# --- where the matmul turns ----------------------------------------------------------------------------------------


def _crossover(itemsize: int, peak: float, bandwidth: float) -> float:
    return 1.5 * itemsize * peak / bandwidth


def _explain_crossover(sizes, yours, expected) -> str | None:
    ridge, item = sizes["peak"] / sizes["bandwidth"], sizes["itemsize"]
    messages = {
        ridge: "That is the ridge itself. A square matmul's intensity is not M: work it out from your ledger.",
        3 * ridge: "That holds for fp16, where intensity is M / 3. Use itemsize.",
        1.5 * ridge: "That counts elements moved, not bytes.",
        3 * item * ridge: "Each product comes with an addition: 2M³ FLOPs.",
        0.5 * item * ridge: "That counts one matrix. Three move: A, B and C.",
        item * ridge: "That counts two matrices. C moves as well.",
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
            Case("H200, fp32 on ordinary cores", {"itemsize": 4, "peak": 67e12, "bandwidth": 4.8e12}),
            Case("H200, fp8 in and out", {"itemsize": 1, "peak": 1979e12, "bandwidth": 4.8e12}),
            Case("A100, TF32", {"itemsize": 4, "peak": 156e12, "bandwidth": 1.555e12}),
        ),
        draw=lambda rng: {
            "itemsize": rng.choice([1, 2, 4]),
            "peak": rng.uniform(4e14, 2e15),  # the side is some hundred at least: rounding it up is within 1 %
            "bandwidth": rng.uniform(3e11, 3.5e12),
        },
    )
)


# --- which bound holds ---------------------------------------------------------------------------------------------


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
        return message, "It takes more than twice the least time: neither memory nor arithmetic is what it waits for."
    if yours == "neither":
        return message, "At half of a roof or more, that roof is what holds it. Compare the time with the least time."
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
        title="Which bound holds",
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
