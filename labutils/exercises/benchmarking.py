"""Unit 04: correct timing. A learner's benchmark runs on simulated GPUs whose true times are known."""

import statistics

from ..gpu.machine import SimulatedGPU, queue_time
from ..spec.exercise import Case, PlainExercise, Points, register

UNIT = "04_benchmarking"


# --- how long a queue takes ----------------------------------------------------------------------------------------


def _explain_queue(sizes, yours, expected) -> str | None:
    n, launch, kernel = sizes["count"], sizes["launch"], sizes["kernel"]
    messages = {
        n * launch: "That is when the host has launched everything; the GPU is still working.",
        n * kernel: "When can the first kernel start? And can the GPU always start the next one at once?",
        n * (launch + kernel): "The host does not wait: while one kernel runs, it launches the next ones.",
        n * max(launch, kernel): "The slower of the two sets the pace, but the first launch or the last kernel "
        "overlaps with nothing.",
        launch + n * kernel: "That holds if kernels take longer than launches. What if the GPU waits for the host?",
        n * launch + kernel: "That holds if launches take longer than kernels. What if the queue grows?",
        launch + kernel + n * max(launch, kernel): "One step too many: between the first and the last are count − 1.",
    }
    messages.pop(expected, None)
    return messages.get(yours)


def _draw_queue(rng) -> dict[str, int]:
    return {"count": rng.randrange(1, 2000), "launch": rng.randrange(2, 30), "kernel": rng.randrange(1, 400)}


register(
    PlainExercise(
        id=f"{UNIT}/finish_time",
        title="When a queue of kernels finishes",
        entry="finish_time",
        points=Points(correct=1),
        reference=lambda count, launch, kernel: queue_time(count, launch, kernel),
        explain=_explain_queue,
        cases=(
            Case("1000 kernels of 100 µs, launches of 5 µs", {"count": 1000, "launch": 5, "kernel": 100}),
            Case("a single kernel", {"count": 1, "launch": 5, "kernel": 100}),
            Case("1000 kernels of 2 µs: the GPU waits", {"count": 1000, "launch": 5, "kernel": 2}),
            Case("launches as long as kernels", {"count": 10, "launch": 7, "kernel": 7}),
        ),
        draw=_draw_queue,
    )
)


# --- five faults ---------------------------------------------------------------------------------------------------

FAULTS = {
    "compile": ({1, 2, 3}, "Which sample includes the first call, and what happens in a first call?"),
    "clocks": ({4, 5}, "How many milliseconds of work precede the samples? How many do the clocks need?"),
    "cache": ({6, 7, 8}, "Where are the data when a call begins, after nine calls on the same data?"),
    "queue": ({9, 10}, "Which line reads a clock too early, because a call returns before its work is done?"),
    "outliers": ({11}, "How does one sample that took ten times as long change the result?"),
}
"""Fault, the lines where it occurs, and a question that leads there."""


def _examine_faults(sizes, arguments, yours) -> tuple[str, str] | None:
    if not isinstance(yours, dict):
        return f"faults() returned a {type(yours).__name__}", "Return a dictionary with a line number per fault."
    if missing := [name for name in FAULTS if not isinstance(yours.get(name), int)]:
        return f"there is no line number for {', '.join(missing)}", "Give one line, as a number, for each of the five."
    wrong = [name for name, (lines, _) in FAULTS.items() if yours[name] not in lines]
    if not wrong:
        return None
    name = wrong[0]
    message = f"{len(FAULTS) - len(wrong)} of 5 found; {name!r} does not occur on line {yours[name]}"
    return message, FAULTS[name][1]


register(
    PlainExercise(
        id=f"{UNIT}/faults",
        title="Five faults of a benchmark",
        entry="faults",
        points=Points(correct=2),
        make=lambda listing: {},
        examine=_examine_faults,
        cases=(Case("the listing", {"listing": 1}),),
    )
)


# --- a correct benchmark -------------------------------------------------------------------------------------------

CLOSE = 0.02
"""Largest relative error. The simulated runs vary by 3 %."""


def _gpu(cold_us: int, hot_us: int, launch_us: int, compile_ms: int, disturbed: int, seed: int) -> SimulatedGPU:
    return SimulatedGPU(
        cold_s=cold_us * 1e-6,
        hot_s=hot_us * 1e-6,
        launch_s=launch_us * 1e-6,
        compile_s=compile_ms * 1e-3,
        disturbed=disturbed / 100,
        seed=seed,
    )


def _make_gpu(**sizes) -> dict:
    gpu = _gpu(**sizes)
    return {"machine": gpu, "call": gpu.call}


def _near(a: float, b: float, share: float = 0.025) -> bool:
    return abs(a - b) <= share * abs(b)


def _examine_benchmark(sizes, arguments, yours) -> tuple[str, str] | None:
    gpu: SimulatedGPU = arguments["machine"]
    try:
        took = float(yours)
    except (TypeError, ValueError):
        return f"honest(machine, call) returned a {type(yours).__name__}", "Return seconds, as one number."
    truth = gpu.cold_s
    if not gpu.runs:
        return "the call was never made", "Time call(): launch it, between two events."
    if took in (gpu.cold_s, gpu.hot_s):
        return "this is the simulator's setting, not a measurement", "Return the median of your samples."
    if _near(took, truth, CLOSE):
        return None
    message = f"{took * 1e6:.4g} µs reported, the true time is {truth * 1e6:.4g} µs ({took / truth - 1:+.1%})"
    return message, _why(
        gpu, took
    ) or "Follow one sample on paper: what is in the queue when the GPU reaches each event?"


def _why(gpu: SimulatedGPU, took: float) -> str | None:
    """Which common fault produces this time on this machine."""
    truth, runs = gpu.cold_s, [r.seconds for r in gpu.runs]
    steady = [r for r in gpu.runs if r.clock < 1.01]
    cold = [r.seconds for r in gpu.runs if not r.hot]
    if any(_near(took, factor * truth, 0.1) for factor in (1e3, 1e6)):
        return "That looks like milliseconds or microseconds. Return seconds."
    if took > truth and (cause := _between_events(gpu.log)):
        return cause
    if took < min(0.6 * gpu.hot_s, 3 * gpu.launch_s) or _near(took, gpu.launch_s, 0.5):
        return "That is the launch time: the clock was read before the GPU was done. Use events."
    if len(cold) < len(runs) / 10 and any(_near(took, gpu.hot_s + gap, 0.05) for gap in (0.0, gpu.launch_s)):
        return "The data were still in the L2 from the call before. Flush before each sample."
    if took > truth + 0.4 * gpu.compile_s / len(runs) and took > 1.9 * truth:
        return "The first call, which compiles, is among the samples. Make that call before sampling."
    if len(cold) < len(runs) / 10:
        return "The data were still in the L2 from the call before. Flush before each sample."
    if took < truth:
        return "That is close to the fastest sample, which is not typical. Take the median."
    if len(steady) < 0.6 * len(runs):
        return "The clocks had not risen yet. Keep the GPU busy for longer before the first sample."
    counted = statistics.fmean(cold[-max(1, len(cold) - 5) :])
    if _near(took, counted, 0.04):
        return "The few disturbed samples weigh too much in a mean. Take the median."
    if took > truth + 0.5 * gpu.launch_s:
        return "The launch is in that time: the GPU was idle at the first event. Flush, record the event, do not wait."
    return None


def _between_events(log: list[str]) -> str | None:
    """What most samples do between their two events that belongs elsewhere, or before the first one."""
    samples = _samples(log)
    most = 0.8 * len(samples)
    if not samples:
        return None
    if sum(s.count("call") > 1 for _, s in samples) > most:
        return "Several calls lie between two events: put one call between them, or divide by the number of calls."
    if sum("flush" in s for _, s in samples) > most:
        return "The flush lies between the two events, so it is timed too. Flush before the first event."
    if sum("synchronize" in s for _, s in samples) > most:
        return (
            "You synchronize between the call and the second event: the GPU is idle until the host has queued that "
            "event. Queue it directly after the call, and synchronize after all samples."
        )
    if sum("flush" in before and "synchronize" in before[before.index("flush") :] for before, _ in samples) > most:
        return (
            "You wait for the flush before the first event: the GPU is idle while the host launches the call, and that "
            "time is measured. Do not synchronize between the flush and the call."
        )
    return None


def _samples(log: list[str]) -> list[tuple[list[str], list[str]]]:
    """Of each pair of events with a call between them: what comes before its first event, and what between the two."""
    found, before, start = [], 0, None
    for k, name in enumerate(log):
        if name != "event":
            continue
        if start is None or "call" not in log[start:k]:
            start = k
        else:
            found.append((log[before:start], log[start + 1 : k]))
            before, start = k + 1, None
    return found


def _benchmark_case(name: str, **changes) -> Case:
    usual = {"cold_us": 100, "hot_us": 40, "launch_us": 5, "compile_ms": 400, "disturbed": 4, "seed": 1}
    return Case(name, usual | changes)


def _draw_benchmark(rng) -> dict[str, int]:
    cold = rng.randrange(60, 600)
    return {
        "cold_us": cold,
        "hot_us": rng.randrange(20, 9 * cold // 10),
        "launch_us": rng.randrange(3, 20),
        "compile_ms": rng.randrange(100, 3000),
        "disturbed": rng.randrange(4, 10),
        "seed": rng.randrange(10**6),
    }


register(
    PlainExercise(
        id=f"{UNIT}/honest",
        title="A correct benchmark",
        entry="honest",
        points=Points(correct=4),
        make=_make_gpu,
        examine=_examine_benchmark,
        cases=(
            _benchmark_case("a kernel of 100 µs, 40 µs from the L2"),
            _benchmark_case("the L2 saves little", hot_us=96, seed=2),
            _benchmark_case("short kernel, slow launches", cold_us=60, hot_us=30, launch_us=15, seed=3),
            _benchmark_case("one run in ten disturbed", disturbed=10, seed=4),
            _benchmark_case("compilation takes 3 s", compile_ms=3000, seed=5),
            _benchmark_case("a kernel of 2 ms", cold_us=2000, hot_us=1900, seed=6),
        ),
        draw=_draw_benchmark,
    )
)


# --- names of kernels ----------------------------------------------------------------------------------------------

RAN = {
    "A": ("matmul", False, (128, 64)),
    "B": ("matmul", True, (128, 128)),
    "C": ("matmul", True, (128, 256)),
    "D": ("add", False, None),
    "E": ("gelu", False, None),
}
"""What the five kernel names mean: operation, tensor cores, rows and columns of the output tile."""

_LOOK = {
    "A": "s means single precision, and no instruction shape precedes gemm; 128x64 is the output tile.",
    "B": "Inputs and output are f32, but the part in the middle is what the instruction multiplies: tf32.",
    "C": "h means half; 128x256_64x4 is the output tile, then its depth in K and the number of stages.",
    "D": "The functor inside the angle brackets names the operation. An elementwise kernel has no matrix tile.",
    "E": "The operations follow fused_, in alphabetical order.",
}


def _examine_names(sizes, arguments, yours) -> tuple[str, str] | None:
    if not isinstance(yours, dict) or set(yours) != set(RAN):
        return (
            "read_names() must return a dictionary with the keys A to E",
            'Each value is (operation, tensor cores, tile), such as ("matmul", True, (64, 32)).',
        )
    for letter, (operation, tensor, tile) in RAN.items():
        answer = yours[letter]
        if not isinstance(answer, (tuple, list)) or len(answer) != 3:
            return (
                f"the answer for {letter} is {answer!r}",
                'Use (operation, tensor cores, tile): ("matmul", True, (64, 32)), with None for no tile.',
            )
        parts = (
            ("the operation", str(answer[0]).lower() == operation),
            ("the tensor cores", answer[1] is tensor),
            ("the tile", (tuple(answer[2]) if isinstance(answer[2], (tuple, list)) else answer[2]) == tile),
        )
        if wrong := [what for what, right in parts if not right]:
            return f"{letter}: {' and '.join(wrong)} wrong", _LOOK[letter]
    return None


register(
    PlainExercise(
        id=f"{UNIT}/read_names",
        title="Read kernel names",
        entry="read_names",
        points=Points(correct=1),
        make=lambda names: {},
        examine=_examine_names,
        cases=(Case("the five names", {"names": 5}),),
    )
)
