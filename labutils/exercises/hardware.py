"""Unit 01: what a GPU can do at most, by its clock, its units and its memory; how much must be on its way."""

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
            (expected / width, f"Each unit does {width} multiply-adds in a clock."),
            (expected * 1e6, "The clock is given in MHz, 10^6 a second, and a TFLOP is 10^12 operations."),
            (expected * 1e3, "That is in GFLOP/s: divide by 1000 once more."),
            (expected / 1e3, "That is in PFLOP/s: a TFLOP is 10^12 operations, and MHz are 10^6 a second."),
            (expected * 1e12, "That is in FLOP/s; a TFLOP is 10^12 of them."),
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
            Case("H200, fp32: 128 cores an SM", {"sms": 132, "units": 128, "width": 1, "mhz": 1980}),
            Case("H200, fp64: 64 cores an SM", {"sms": 132, "units": 64, "width": 1, "mhz": 1980}),
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
            (sms * l1 + l2, "Registers are memory too: 65536 of 4 bytes in every SM."),
            (sms * registers + l2, "The L1 and shared memory of every SM are missing."),
            (sms * (registers + l1), "The L2 is missing."),
            (registers + l1 + l2, f"That is one SM and the L2; there are {sms} SMs."),
            (sms * (registers + l1 + l2), "All SMs share one L2: count it once."),
            (sms * (registers + sizes["l1_kb"] * 1000) + sizes["l2_mb"] * 10**6,
             "Sizes of memories count in powers of two: a KB is 1024 bytes here, an MB 1024 KB."),
            (expected / 2**20, "That is in MB; the answer is asked for in bytes."),
            (expected / 2**10, "That is in KB; the answer is asked for in bytes."),
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
            (tflops / gbs, "TFLOP/s are 10^12 a second, GB/s 10^9: the units do not cancel."),
            (tflops * 1024 / gbs, "Rates count in powers of ten: tera over giga is 1000, not 1024."),
            (1 / expected, "That is bytes for each FLOP. Asked for are FLOPs for each byte."),
            (gbs / tflops, "That is bytes over FLOPs, and in mixed units. Asked for are FLOPs for each byte."),
            (4 * expected, "That is FLOPs for each float of 4 bytes; asked for are FLOPs for each byte."),
            (2 * expected, "That is FLOPs for each 2-byte element; asked for are FLOPs for each byte."),
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
            (gbs / ns, "The longer a load takes, the more of them must be on their way: multiply."),
            (ns / gbs, "The faster the memory, the more must be on its way: multiply."),
            (gbs * 1e9 / ns, "The longer a load takes, the more of them must be on their way: multiply."),
            (gbs * ns * 1e9, "A nanosecond is 10^-9 s and a GB 10^9 bytes: the powers of ten cancel."),
            (gbs * ns * 1e-9, "A nanosecond is 10^-9 s and a GB 10^9 bytes: the powers of ten cancel."),
            (gbs * ns / 1000, "That is in kilobytes; the answer is asked for in bytes."),
            (gbs * 2**30 * ns * 1e-9, "Rates count in powers of ten: a GB/s is 10^9 bytes a second."),
            (gbs * ns / 4, "That counts floats; the answer is asked for in bytes."),
        ],
    )


register(
    PlainExercise(
        id="01_hardware/in_flight",
        title="Little's law: bytes on their way",
        entry="bytes_in_flight",
        points=Points(correct=1),
        reference=_bytes_in_flight,
        explain=_explain_in_flight,
        cases=(
            Case("a byte a nanosecond, each on its way for 100", {"gbs": 1, "latency_ns": 100}),
            Case("T4: 320 GB/s, 600 ns", {"gbs": 320, "latency_ns": 600}),
            Case("H200: 4800 GB/s, 600 ns", {"gbs": 4800, "latency_ns": 600}),
            Case("L2 of an H200: 5500 GB/s, 130 ns", {"gbs": 5500, "latency_ns": 130}),
        ),
        draw=lambda rng: {"gbs": rng.randrange(100, 9000), "latency_ns": rng.randrange(20, 1200)},
    )
)


def _warps_needed(gbs: float, latency_ns: float, sms: int, bytes_per_lane: int) -> int:
    # whole numbers: gbs · latency_ns is bytes, exactly
    return -(-gbs * latency_ns // (sms * 32 * bytes_per_lane))


def _explain_warps(sizes, yours, expected) -> str | None:
    flight, sms, lane = sizes["gbs"] * sizes["latency_ns"], sizes["sms"], sizes["bytes_per_lane"]
    exact = flight / (sms * 32 * lane)
    return sentence_for(
        yours,
        [
            (exact, "There is no part of a warp: round up."),
            (flight // (sms * 32 * lane), "That rounds down, and a little bandwidth is lost: round up."),
            (flight // (sms * 32 * lane) + 1, "It comes out even here: no further warp is needed."),
            (math.ceil(flight / (32 * lane)), f"That is all warps of the GPU; asked for are those of one SM of {sms}."),
            (math.ceil(flight / (sms * lane)), "Those are threads; a warp has 32 of them."),
            (math.ceil(flight / (sms * 32)), f"Each lane brings {lane} bytes with one load."),
            (math.ceil(flight / (sms * 32 * 4)), f"Each lane brings {lane} bytes here, not 4."),
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
        title="Warps that keep the memory busy",
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
            Case("comes out even", {"gbs": 3200, "latency_ns": 400, "sms": 100, "bytes_per_lane": 4}),
        ),
        draw=_draw_warps,
    )
)
