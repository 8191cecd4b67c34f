"""Unit 01: a GPU's limits from its clock, its units and its memory; bytes and warps in flight."""

from __future__ import annotations

import math

from ..spec.exercise import Case, PlainExercise, Points, register
from ._numbers import sentence_for

# --- peak ----------------------------------------------------------------------------------------------------------


def _peak(sms: int, units: int, width: int, mhz: int) -> float:
    return sms * units * width * 2 * mhz / 1e6


def _explain_peak(sizes, yours, expected) -> str | None:
    sms, units, width, mhz = (sizes[k] for k in ("sms", "units", "width", "mhz"))
    return sentence_for(
        yours,
        [
            (expected / 2, "A multiply-add is two operations: a multiplication and an addition."),
            (expected * 2, "That counts a multiply-add as four operations; it is two."),
            (expected / sms, f"That is one SM; there are {sms}."),
            (expected / units, f"Each SM has {units} of these units."),
            (expected / width, f"Each unit does {width} multiply-adds per cycle."),
            (expected * 1e6, "The clock is in MHz, 10^6 per second, and a TFLOP is 10^12 operations."),
            (expected * 1e3, "That is in GFLOP/s: divide by 1000 once more."),
            (expected / 1e3, "That is in PFLOP/s: a TFLOP is 10^12 operations, and a MHz is 10^6 per second."),
            (expected * 1e12, "That is in FLOP/s; a TFLOP is 10^12 operations."),
        ],
    )


def _draw_peak(rng) -> dict[str, int]:
    return {
        "sms": rng.randrange(20, 200),
        "units": rng.choice([4, 8, 16, 32, 64, 128]),
        "width": rng.choice([1, 64, 128, 256, 512, 1024, 2048]),
        "mhz": rng.randrange(1000, 2600),
    }


register(
    PlainExercise(
        id="01_hardware/peak",
        title="Theoretical peak of a pipe",
        entry="peak_tflops",
        points=Points(correct=1),
        reference=_peak,
        explain=_explain_peak,
        cases=(
            Case("H200, fp32: 128 cores per SM", {"sms": 132, "units": 128, "width": 1, "mhz": 1980}),
            Case("H200, fp64: 64 cores per SM", {"sms": 132, "units": 64, "width": 1, "mhz": 1980}),
            Case("H100, fp16: 4 tensor cores of 512", {"sms": 132, "units": 4, "width": 512, "mhz": 1830}),
            Case("A100, fp16: 4 tensor cores of 256", {"sms": 108, "units": 4, "width": 256, "mhz": 1410}),
            Case("T4, fp16: 8 tensor cores of 64", {"sms": 40, "units": 8, "width": 64, "mhz": 1590}),
        ),
        draw=_draw_peak,
    )
)


# --- bytes on the chip ---------------------------------------------------------------------------------------------


def _on_chip(sms: int, l1_kb: int, l2_mb: int) -> int:
    return sms * (65536 * 4 + l1_kb * 1024) + l2_mb * 2**20


def _explain_on_chip(sizes, yours, expected) -> str | None:
    sms, l1, l2 = sizes["sms"], sizes["l1_kb"] * 1024, sizes["l2_mb"] * 2**20
    registers = 65536 * 4
    return sentence_for(
        yours,
        [
            (sms * (65536 + l1) + l2, "A register holds 32 bits, 4 bytes."),
            (sms * l1 + l2, "Registers are memory too: 65536 of 4 bytes per SM."),
            (sms * registers + l2, "L1 and shared memory of each SM are missing."),
            (sms * (registers + l1), "The L2 is missing."),
            (registers + l1 + l2, f"That is one SM and the L2; there are {sms} SMs."),
            (sms * (registers + l1 + l2), "All SMs share one L2: count it once."),
            (sms * (registers + sizes["l1_kb"] * 1000) + sizes["l2_mb"] * 10**6,
             "Memory sizes are powers of two: a KB is 1024 bytes here, an MB 1024 KB."),
            (expected / 2**20, "That is in MB; return bytes."),
            (expected / 2**10, "That is in KB; return bytes."),
        ],
    )  # fmt: skip


register(
    PlainExercise(
        id="01_hardware/on_chip",
        title="Bytes of memory on the chip",
        entry="on_chip_bytes",
        points=Points(correct=1),
        reference=_on_chip,
        rtol=0.0,
        explain=_explain_on_chip,
        cases=(
            Case("T4: 40 SMs", {"sms": 40, "l1_kb": 96, "l2_mb": 4}),
            Case("A100: 108 SMs", {"sms": 108, "l1_kb": 192, "l2_mb": 40}),
            Case("H200: 132 SMs", {"sms": 132, "l1_kb": 256, "l2_mb": 50}),
            Case("B200: 148 SMs", {"sms": 148, "l1_kb": 256, "l2_mb": 126}),
        ),
        draw=lambda rng: {
            "sms": rng.randrange(10, 200),
            "l1_kb": rng.choice([64, 96, 128, 192, 256]),
            "l2_mb": rng.randrange(2, 130),
        },
    )
)


# --- ridge ---------------------------------------------------------------------------------------------------------


def _ridge(tflops: float, gbs: float) -> float:
    return tflops * 1000 / gbs


def _explain_ridge(sizes, yours, expected) -> str | None:
    tflops, gbs = sizes["tflops"], sizes["gbs"]
    return sentence_for(
        yours,
        [
            (tflops / gbs, "A TFLOP/s is 10^12 per second, a GB/s 10^9: the units do not cancel."),
            (tflops * 1024 / gbs, "Rates use powers of ten: tera over giga is 1000, not 1024."),
            (1 / expected, "That is bytes per FLOP. Return FLOPs per byte."),
            (gbs / tflops, "That is bytes over FLOPs, in mixed units. Return FLOPs per byte."),
            (4 * expected, "That is FLOPs per 4-byte float; return FLOPs per byte."),
            (2 * expected, "That is FLOPs per 2-byte element; return FLOPs per byte."),
        ],
    )


register(
    PlainExercise(
        id="01_hardware/ridge",
        title="Ridge point",
        entry="ridge",
        points=Points(correct=1),
        reference=_ridge,
        explain=_explain_ridge,
        cases=(
            Case("A100, fp32", {"tflops": 19.5, "gbs": 2039}),
            Case("A100, fp16", {"tflops": 312, "gbs": 2039}),
            Case("H200, fp32", {"tflops": 67, "gbs": 4800}),
            Case("H200, fp16", {"tflops": 989, "gbs": 4800}),
            Case("H200, fp8", {"tflops": 1979, "gbs": 4800}),
        ),
        draw=lambda rng: {"tflops": rng.randrange(5, 5000), "gbs": rng.randrange(200, 9000)},
    )
)


# --- Little's law --------------------------------------------------------------------------------------------------


def _bytes_in_flight(gbs: float, latency_ns: float) -> float:
    return gbs * latency_ns


def _explain_in_flight(sizes, yours, expected) -> str | None:
    gbs, ns = sizes["gbs"], sizes["latency_ns"]
    return sentence_for(
        yours,
        [
            (gbs / ns, "The longer a load takes, the more loads must be in flight: multiply."),
            (ns / gbs, "The faster the memory, the more bytes must be in flight: multiply."),
            (gbs * 1e9 / ns, "The longer a load takes, the more loads must be in flight: multiply."),
            (gbs * ns * 1e9, "A nanosecond is 10^-9 s and a GB 10^9 bytes: the powers of ten cancel."),
            (gbs * ns * 1e-9, "A nanosecond is 10^-9 s and a GB 10^9 bytes: the powers of ten cancel."),
            (gbs * ns / 1000, "That is in kilobytes; return bytes."),
            (gbs * 2**30 * ns * 1e-9, "Rates use powers of ten: a GB/s is 10^9 bytes per second."),
            (gbs * ns / 4, "That counts floats; return bytes."),
        ],
    )


register(
    PlainExercise(
        id="01_hardware/in_flight",
        title="Little's law: bytes in flight",
        entry="bytes_in_flight",
        points=Points(correct=1),
        reference=_bytes_in_flight,
        explain=_explain_in_flight,
        cases=(
            Case("one byte per nanosecond, 100 ns latency", {"gbs": 1, "latency_ns": 100}),
            Case("T4: 320 GB/s, 600 ns", {"gbs": 320, "latency_ns": 600}),
            Case("H200: 4800 GB/s, 600 ns", {"gbs": 4800, "latency_ns": 600}),
            Case("L2 of an H200: 5500 GB/s, 130 ns", {"gbs": 5500, "latency_ns": 130}),
        ),
        draw=lambda rng: {"gbs": rng.randrange(100, 9000), "latency_ns": rng.randrange(20, 1200)},
    )
)


def _warps_needed(gbs: float, latency_ns: float, sms: int, bytes_per_lane: int) -> int:
    # integers: gbs · latency_ns is bytes, exactly
    return -(-gbs * latency_ns // (sms * 32 * bytes_per_lane))


def _explain_warps(sizes, yours, expected) -> str | None:
    flight, sms, lane = sizes["gbs"] * sizes["latency_ns"], sizes["sms"], sizes["bytes_per_lane"]
    exact = flight / (sms * 32 * lane)
    return sentence_for(
        yours,
        [
            (exact, "A fraction of a warp needs a whole warp: round up."),
            (flight // (sms * 32 * lane), "That rounds down, which loses bandwidth: round up."),
            (flight // (sms * 32 * lane) + 1, "The division is exact here: no extra warp is needed."),
            (math.ceil(flight / (32 * lane)), f"That counts the whole GPU; return the warps of one SM of {sms}."),
            (math.ceil(flight / (sms * lane)), "That counts threads; a warp has 32 threads."),
            (math.ceil(flight / (sms * 32)), f"Each lane has one load of {lane} bytes in flight."),
            (math.ceil(flight / (sms * 32 * 4)), f"Each lane loads {lane} bytes here, not 4."),
        ],
    )


def _draw_warps(rng) -> dict[str, int]:
    sms, lane = rng.choice([40, 58, 108, 132, 148]), rng.choice([2, 4, 8, 16])
    even = rng.random() < 0.3
    return {
        "gbs": sms * 32 if even else rng.randrange(200, 9000),
        "latency_ns": lane * rng.randrange(5, 60) if even else rng.randrange(200, 1200),
        "sms": sms,
        "bytes_per_lane": lane,
    }


register(
    PlainExercise(
        id="01_hardware/warps_needed",
        title="Warps per SM for full bandwidth",
        entry="warps_needed",
        points=Points(correct=1),
        reference=_warps_needed,
        rtol=0.0,
        explain=_explain_warps,
        cases=(
            Case("T4, floats", {"gbs": 320, "latency_ns": 600, "sms": 40, "bytes_per_lane": 4}),
            Case("A100, floats", {"gbs": 2039, "latency_ns": 550, "sms": 108, "bytes_per_lane": 4}),
            Case("H200, floats", {"gbs": 4800, "latency_ns": 600, "sms": 132, "bytes_per_lane": 4}),
            Case("H200, float4", {"gbs": 4800, "latency_ns": 600, "sms": 132, "bytes_per_lane": 16}),
            Case("exact division", {"gbs": 3200, "latency_ns": 400, "sms": 100, "bytes_per_lane": 4}),
        ),
        draw=_draw_warps,
    )
)
