"""Unit 23: the time of an all-reduce, and a ring all-reduce, whose calls are replayed on simulated links."""

import math

from ..gpu.links import GBS, LATENCY_US, BadLog, Mismatch, Report
from ..gpu.rank_inputs import BASE, vectors
from ..gpu.simulated_comm import POISON, replay
from ..spec.exercise import Case, Hint, PlainExercise, Points, register

UNIT = "23_many_gpus"

# --- the time of an all-reduce -------------------------------------------------------------------------------------


def all_reduce_us(bytes: int, gpus: int, both_gbs: float, latency_us: float) -> tuple[float, float]:
    """µs of a ring and of a tree; `both_gbs` is the bandwidth of a link, both directions together."""
    per_us = both_gbs / 2 * 1e3
    ring = 2 * (gpus - 1) * (latency_us + bytes / gpus / per_us)
    tree = 2 * math.ceil(math.log2(gpus)) * (latency_us + bytes / per_us)
    return ring, tree


def _ring_mistakes(bytes, gpus, both_gbs, latency_us) -> list[tuple[float, str]]:
    p, whole = gpus, bytes / (both_gbs / 2 * 1e3)
    right = 2 * (p - 1)
    return [
        (right * (latency_us + whole / p / 2), "Data sheets count both directions. A rank sends at half of that."),
        (right / 2 * (latency_us + whole / p), "That is the reduce-scatter alone. The all-gather takes as long again."),
        (right * (latency_us + whole), "That sends the whole buffer in each step. A step sends one chunk: bytes / p."),
        (right * latency_us + p * whole, "That sends p whole buffers. A ring sends 2(p − 1) chunks of bytes / p."),
        (right * whole / p, "Each of the 2(p − 1) steps also takes the latency."),
        (right * whole / p + latency_us, "Each step takes the latency, not only the first."),
        (right * latency_us, "That is only the latency. Each step also moves a chunk of bytes / p."),
        (2 * p * (latency_us + whole / p), "The own chunk needs no step: p − 1 steps, not p, in each half."),
        (p * (latency_us + whole / p), "p − 1 steps in each of the two halves, not p in all."),
        (right * (latency_us + whole / (p - 1 or 1)), "There are p chunks, one for each rank, not p − 1."),
        (right * (latency_us + 1e3 * whole / p), "1 GB/s is 1000 bytes in a microsecond."),
        (right * (latency_us + whole / p / 1e3), "1 GB/s is 1000 bytes in a microsecond."),
    ]


def _tree_mistakes(bytes, gpus, both_gbs, latency_us) -> list[tuple[float, str]]:
    whole, exact = bytes / (both_gbs / 2 * 1e3), math.log2(gpus)
    levels = math.ceil(exact)
    return [
        (2 * levels * (latency_us + whole / 2), "Data sheets count both directions. A rank sends at half of that."),
        (levels * (latency_us + whole), "That is the reduction to one rank. Sending the sum back takes as long again."),
        (2 * exact * (latency_us + whole), "A tree has whole levels: round the logarithm up."),
        (2 * math.floor(exact) * (latency_us + whole), "A tree of p ranks needs ceil(log2 p) levels: round up."),
        (2 * levels * (latency_us + whole / gpus), "A tree sends the whole buffer in each step, not a chunk."),
        (2 * levels * latency_us + 2 * whole, "Without pipelining, every level sends the whole buffer again."),
        (2 * levels * whole, "Each step also takes the latency."),
        (2 * levels * latency_us, "That is only the latency. Each step also moves the buffer."),
        (2 * (gpus - 1) * (latency_us + whole), "Ranks of one level send at the same time: count levels, not ranks."),
        (2 * math.log(gpus) * (latency_us + whole), "Each level halves the ranks: the logarithm is to base 2."),
        (2 * levels * (latency_us + 1e3 * whole), "1 GB/s is 1000 bytes in a microsecond."),
        (2 * levels * (latency_us + whole / 1e3), "1 GB/s is 1000 bytes in a microsecond."),
    ]


def _close(a: float, b: float) -> bool:
    return math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-9)


def _examine_times(sizes, arguments, yours) -> tuple[str, str] | None:
    expected = all_reduce_us(**arguments)
    try:
        values = [float(v) for v in yours]
        ring, tree = values
    except (TypeError, ValueError):
        return f"all_reduce_us returned {type(yours).__name__}, not two numbers", "Return ring, tree: two times in µs."
    if _close(ring, expected[0]) and _close(tree, expected[1]):
        return None
    if _close(ring, expected[1]) and _close(tree, expected[0]):
        return "the two results are in the wrong order", "Return ring first, then tree."
    part, value, right, mistakes, advice = (
        ("ring", ring, expected[0], _ring_mistakes, "2(p − 1) steps, each with one latency and bytes / p.")
        if not _close(ring, expected[0])
        else ("tree", tree, expected[1], _tree_mistakes, "2·ceil(log2 p) steps, each with one latency and all bytes.")
    )
    hint = Hint.of(text for wrong, text in mistakes(**arguments) if _close(value, wrong))
    return f"{part}: {value:.6g} µs, expected {right:.6g}", hint or advice


def _times_arguments(bytes, gpus, both_gbs, latency_ns) -> dict:
    return {"bytes": bytes, "gpus": gpus, "both_gbs": float(both_gbs), "latency_us": latency_ns / 1000}


def _times_case(name: str, bytes: int, gpus: int, both_gbs: int = 900, latency_ns: int = 3000) -> Case:
    return Case(name, {"bytes": bytes, "gpus": gpus, "both_gbs": both_gbs, "latency_ns": latency_ns})


register(
    PlainExercise(
        id=f"{UNIT}/all_reduce_us",
        title="The time of an all-reduce",
        entry="all_reduce_us",
        points=Points(correct=2),
        make=_times_arguments,
        examine=_examine_times,
        cases=(
            _times_case("1 GB on 8 GPUs", 10**9, 8),
            _times_case("16 KB on 8 GPUs", 1 << 14, 8),
            _times_case("64 MB on 2 GPUs", 1 << 26, 2),
            _times_case("64 MB on 6 GPUs", 1 << 26, 6),
            _times_case("a single GPU", 1 << 26, 1),
            _times_case("no bytes on 4 GPUs", 0, 4),
            _times_case("100 MB on 72 GPUs, a faster link", 10**8, 72, both_gbs=1800, latency_ns=5500),
        ),
        draw=lambda rng: {
            "bytes": rng.randrange(1, 10**9),
            "gpus": rng.randrange(2, 73),
            "both_gbs": rng.choice([64, 600, 900]),
            "latency_ns": rng.randrange(500, 20_000),
        },  # fmt: skip
    )
)


# --- ring all-reduce -----------------------------------------------------------------------------------------------

SLACK = 1.05
"""Allowed time, relative to 2(p − 1) steps."""


def _contributions(value: int, index: int, world: int) -> list[int] | None:
    """How often the value of element `index` contains each rank's, or None if it is no sum of these."""
    number, rest = divmod(value, index + 1)
    if rest or not 0 <= number < BASE**world:
        return None
    return [number // BASE**rank % BASE for rank in range(world)]


def _named(ranks: list[int]) -> str:
    return f"rank{'s' * (len(ranks) > 1)} {', '.join(map(str, ranks))}"


def _wrong_sum(world: int, results: list[list[int]], expected: list[int]) -> tuple[str, str]:
    """What is wrong with the first result that is wrong."""
    rank = next(r for r, values in enumerate(results) if values != expected)
    values = results[rank]
    bad = [i for i, (got, right) in enumerate(zip(values, expected, strict=True)) if got != right]
    i = bad[0]
    where = f"rank {rank}: {len(bad)} of {len(values)} elements are wrong, the first is element {i}"
    if abs(values[i]) > -POISON // 2:
        return f"{where}: it was computed before its data arrived", (
            "The buffer of exchange() is not filled before wait() returns: wait, then read it."
        )
    counts = _contributions(values[i], i, world)
    if counts is None:
        return f"{where}: it is no sum of elements {i}", (
            "The buffer was added to another chunk than the one that the previous rank sent."
        )
    if results == vectors(world, len(values)):
        return "x is unchanged on all ranks", "Change x in place, with x[…] += … or chunk.add_(…)."
    missing, twice = [r for r, c in enumerate(counts) if c == 0], [r for r, c in enumerate(counts) if c > 1]
    parts = [f"{_named(missing)} missing in its sum"] if missing else []
    parts += [f"{_named(twice)} more than once in its sum"] if twice else []
    return f"{where}: {' and '.join(parts)}", _sum_advice(missing, twice, results, expected)


def _sum_advice(missing: list[int], twice: list[int], results: list[list[int]], expected: list[int]) -> str:
    complete = [sum(values[i] == right for values in results) for i, right in enumerate(expected)]
    if twice and max(complete) > 0:
        return "In the second half, overwrite the chunk by what arrives: that sum is complete."
    if twice:
        return "A chunk gets what arrives, once, and what it had before. Is the own part added twice?"
    if max(complete) == 1 == min(complete):
        return (
            "Each chunk is complete on one rank only, as after the reduce-scatter. The all-gather must start with this "
            "chunk, which is chunk r + 1 on rank r."
        )
    if max(complete) == 0:
        return (
            "No rank has a complete sum. The reduce-scatter takes p − 1 steps. After it, rank r has the sum of chunk "
            "r + 1: the all-gather must start with this chunk, or it overwrites the complete sums."
        )
    return "Follow one chunk on paper: which rank holds it after each step, and what is in its sum?"


def _steps(report: Report, world: int) -> str:
    """What to say of messages, all of which are chunks, that are too many or too few; "" where the number is right."""
    messages = {len(report.sent(rank)) for rank in range(world)}
    if len(messages) != 1 or messages == {2 * (world - 1)}:
        return ""
    return (
        f"Each rank sends {messages.pop()} times; 2(p − 1) is {2 * (world - 1)}: each half takes p − 1 steps, so check "
        "how often each loop runs."
    )


def _traffic(report: Report, world: int, n: int) -> tuple[str, str] | None:
    """More data than a ring needs, or other links."""
    chunk = math.ceil(n / world)
    for rank in range(world):
        sent = report.sent(rank)
        peers = sorted({m.to for m in sent})
        if any((peer - rank) % world not in (1, world - 1) for peer in peers):
            return (
                f"rank {rank} sends to {_named(peers)}",
                "In a ring, a rank sends to its next rank only: (rank + 1) % world. Each rank has one such link.",
            )
        elements = sum(m.count for m in sent)
        if elements > 2 * (world - 1) * chunk:
            return (
                f"the sums are right, but rank {rank} sends {elements} elements; {2 * (world - 1)} chunks of {chunk} "
                f"are {2 * (world - 1) * chunk}",
                all(n // world <= m.count <= chunk for m in sent)
                and _steps(report, world)
                or "Send one chunk in a step, not the whole buffer: then each rank sends 2(p − 1)/p·n elements.",
            )
    return None


def _slow(report: Report, world: int, n: int) -> tuple[str, str] | None:
    best = 2 * (world - 1) * (LATENCY_US + math.ceil(n / world) * 4 / (GBS * 1e3))
    if report.finish <= SLACK * best:
        return None
    taken = [c.verb for c in report.calls[0]]
    advice = "Use fewer messages: 2(p − 1) steps, one chunk in each."
    if "send" in taken or "recv" in taken:
        advice = "send and recv wait for each other, so a rank does one after the other: exchange does both at once."
    symptom = f"the sums are right, but it takes {report.finish:.1f} µs on the simulated links; {best:.1f} is possible"
    return symptom, advice


def _examine_ring(sizes, arguments, yours) -> tuple[str, str] | None:
    world, n = sizes["world"], sizes["n"]
    try:
        report = replay(yours)
    except Mismatch as e:
        return e.symptom, e.advice
    except BadLog as e:
        return f"ring_run returned no log of calls: {e}", "Do not change the given code."
    if found := report.deadlock():
        symptom, where = found
        if report.cycle():
            where += " send returns when the other rank receives. Let exchange send and receive at the same time."
        return symptom, where
    if any(c.verb in ("all_reduce", "all_gather") for calls in report.calls for c in calls):
        return "ring_all_reduce calls a collective", "Write it with exchange: it is what collectives are made of."
    for rank, calls in enumerate(report.calls):
        waited = {c.number for c in calls if c.verb == "wait"}
        if open_ := [c.number for c in calls if c.verb == "exchange" and c.number not in waited]:
            return f"rank {rank} never waits for its exchange {open_[0]}", "Call wait() on what exchange returns."
    xs = vectors(world, n)
    expected = [sum(values) for values in zip(*xs, strict=True)]
    results = yours["results"]
    if not isinstance(results, (list, tuple)) or len(results) != world:
        return "ring_run returned other results than one per rank", "Do not change the given code."
    for rank, values in enumerate(results):
        if not isinstance(values, (list, tuple)) or len(values) != n or not all(type(v) is int for v in values):
            return f"rank {rank}: x has another size or type now", "Change x in place, with x[…] = … or x[…] += …"
    if any(list(values) != expected for values in results):
        symptom, advice = _wrong_sum(world, [list(values) for values in results], expected)
        counted = " more than once" in symptom or " missing" in symptom
        return symptom, counted and _steps(report, world) or advice
    return _traffic(report, world, n) or _slow(report, world, n)


def _ring_case(name: str, world: int, n: int) -> Case:
    return Case(name, {"world": world, "n": n})


register(
    PlainExercise(
        id=f"{UNIT}/ring_all_reduce",
        title="All-reduce around a ring",
        entry="ring_run",
        points=Points(correct=4),
        examine=_examine_ring,
        cases=(
            _ring_case("4 ranks, 16 elements", 4, 16),
            _ring_case("2 ranks, 8 elements", 2, 8),
            _ring_case("3 ranks, 10 elements: chunks of different sizes", 3, 10),
            _ring_case("4 ranks, 21 elements", 4, 21),
            _ring_case("8 ranks, 30 elements", 8, 30),
            _ring_case("4 ranks, 3 elements: an empty chunk", 4, 3),
            _ring_case("a single rank", 1, 5),
        ),
        draw=lambda rng: {"world": rng.randrange(2, 9), "n": rng.randrange(1, 41)},
    )
)
