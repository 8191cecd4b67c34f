"""Saying what went wrong: from the evidence of one run to one sentence and one piece of advice.

`examine` gathers every diagnosis that the evidence supports (values, guards, recorded accesses, the exception) and
keeps the most telling one: the order of `KINDS`.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import torch

from ..backends import Outcome, Problem
from ..spec.exercise import KnownMistake
from ..spec.inputs import Run
from ..spec.precision import ROUND_OFF
from ..spec.verdict import CaseResult, Diagnosis
from . import slips
from .compare import Comparison, OutputComparison, expected_poison_matches, most_poison_matches
from .known_mistakes import SAME, barely, recognise

KINDS: dict[str, str] = {
    "unfilled": "Fill the cell that still holds the stub, run it, then run this check again.",
    "missing-function": "Run the cell that defines it, and keep the name that the exercise gives.",
    "signature": "Keep the arguments as the given cell has them, in the same order.",
    "does-not-compile": slips.GENERAL["triton"],
    "timeout": "Look for a loop whose end is never reached: does its counter move, can its condition become false?",
    "died": "Check every address: an offset that is far too large, or a size that is passed as the wrong argument.",
    "error": "Read the line named above: the exception was raised there.",
    "no-kernel": "Launch your kernel with kernel[grid](...); a result computed by PyTorch does not count.",
    "returned": "Write into the output array that you are given; what the launcher returns is not looked at.",
    "input-overwritten": "Store only to the output; if you need room for intermediate results, allocate it.",
    "first-block-only": "Launch enough programs, grid = (triton.cdiv(n, BLOCK),), and start each at pid * BLOCK.",
    "off-by-one": "Print the offsets of program 0: they should start at 0 and end at BLOCK - 1.",
    "transposed": "Check which index is multiplied by which stride: offs_m * stride_m + offs_n * stride_n.",
    "wrong-stride": "Rows need not lie directly behind each other: step from row to row by the stride, not the length.",
    "padded-lanes": "Lanes beyond the row must not take part: load them with the neutral value (other=0 for a sum, "
    "-inf for a maximum) and mask again after arithmetic that changes it.",
    "missing-accumulation": "Carry the accumulator through the loop: acc += part, not acc = part.",
    "no-max-subtraction": "Subtract the row's maximum before exp: the result is the same and nothing overflows.",
    "tail-unmasked": "Mask the tail: mask = offs < n, passed to every load and every store.",
    "barrier-divergence": "All threads of a block must reach the same barrier: guard the work, not the barrier.",
    "deadlock": "Somebody waits for what never comes: a lane that a mask names, an arrival or bytes at a barrier.",
    "shuffle-mask": "The mask must name exactly the lanes that make the same call.",
    "missing-syncthreads": "Put __syncthreads() between the write and the read: threads of a block do not run in step.",
    "missing-syncwarp": "Put __syncwarp() between the write and the read: lanes of a warp need not run in step.",
    "missing-wait": "Wait for what you read, and let nobody overwrite what has still to be read.",
    "missing-fence": "An engine sees what a thread wrote only after a fence by that thread: fence_async() after plain "
    "stores to shared memory, mbarrier_fence() after mbarrier_init, wgmma_fence() before the first wgmma of a batch.",
    "uninitialized-shared": "Write every element of shared memory that is read, also those past the end of the data.",
    "misaligned": "A vector access needs an address that is a multiple of its size: look at where it starts.",
    "assert": "A condition does not hold that your code asserts, or that a function requires which it calls.",
    "out-of-bounds": "Follow the index back: which offset, stride or mask lets it leave the array?",
    "race": "Two programs touch the same element and nothing orders them: give each its own output, or use an atomic.",
    "wrong-formula": "Compare your formula with the reference term by term.",
    "tail-not-written": "Round the number of programs up, triton.cdiv(n, BLOCK), so that the last, partial block has "
    "one, and look at the mask of the store.",
    "not-written": "Every element of the output must be stored; check the grid, the offsets and the mask of the store.",
    "overflow": "Something became inf or NaN on the way: rewrite the formula so that no exp or square can overflow.",
    "wrong-values": "Start with the tiny case: compute its first element by hand and compare.",
    "precision": "Do the arithmetic in the accumulate type: .to(tl.float32) right after the load.",
    "needs-gpu": "Nothing is wrong as far as this machine can tell: check it where there is an NVIDIA GPU.",
}
"""Every kind of refusal with what to try, the most telling first: of several diagnoses the first in this order wins."""

LANES_ADVICE = "Give each lane an address of its own, or reduce first: any of the lanes may be the last to write."
"""Of a race inside of one store."""

OVERFLOW_ADVICE = (
    "The array may have more than 2**31 elements: convert an index to 64 bits, .to(tl.int64), before you multiply it "
    "by a stride."
)
"""Of an offset that overflows 32 bits."""

CUDA_ADVICE = {
    "does-not-compile": slips.GENERAL["cuda"],
    "no-kernel": "Launch your kernel with kernel[grid, block](...); a result computed by PyTorch does not count.",
    "first-block-only": "Launch (n + block - 1) / block blocks, and index with blockIdx.x * blockDim.x + threadIdx.x.",
    "off-by-one": "Work out the index of thread 0 of block 0, and of the last thread of the last block.",
    "transposed": "Check which index is multiplied by the row length: row * columns + column.",
    "wrong-stride": "Step from row to row by the row length of that array.",
    "padded-lanes": "Threads beyond the data must not take part: let them hold the neutral value, 0 for a sum.",
    "tail-not-written": "Round the number of blocks up, and look at the guard of the store.",
    "tail-unmasked": "Guard the access: if (i < n) … for every load and every store.",
    "out-of-bounds": "Follow the index back: which thread computes it, and which guard is missing?",
    "not-written": "Every element of the output must be stored; check the grid, the index and the guard of the store.",
    "race": "Let each thread or block write its own element, use an atomic, or split the work into two launches.",
    "precision": "Compute in float: convert right after the load, and back right before the store.",
    "input-overwritten": "Store only to the output; take shared memory or a scratch array for what lies between.",
}
"""Advice that reads differently for CUDA C++."""

GUESS_ADVICE = {
    "padded-lanes": "What lies beyond the row must not count: load it as the neutral value (0 for a sum, -inf for a "
    "maximum), mask again after arithmetic that changes it, and divide by the length of the row, not of the block.",
    "off-by-one": "Work out by hand the first and the last index that is used there, and compare them with the text of "
    "the exercise: where does each range begin and end, and is it `<` or `<=`?",
    "wrong-formula": "Correct that term, then look at yours and expected in the tiny case: lab.tiny.",
    "missing-accumulation": "Follow the partial results: which line adds them up, and does every thread, program and "
    "iteration whose part counts reach it?",
    "first-block-only": "Each program or block must work on elements of its own: its index must enter every address.",
    "tail-not-written": "The last, partial block counts too: check where the loop ends, and what is left over.",
}
"""Advice for a known mistake that the output shows, where that of its kind speaks of something else."""

NEEDS_GPU = "needs-gpu"
"""The one kind that is no mistake: this machine cannot run the code, and a GPU can. Any other explains more."""

_RANK = {kind: i for i, kind in enumerate(KINDS)}


def diagnosis(kind: str, symptom: str, details: str = "", advice: str | None = None) -> Diagnosis:
    return Diagnosis(kind, symptom, advice or KINDS[kind], details)


def most_specific(found: list[Diagnosis]) -> Diagnosis | None:
    """The diagnosis that explains most; the first of equals. One that is no refusal ("unavailable") comes first."""
    return min(found, key=lambda d: _RANK.get(d.kind, -1), default=None)


def headline(found: list[Diagnosis]) -> Diagnosis | None:
    """The diagnosis of a whole verdict.

    A guess is a coincidence if fewer cases support it than another diagnosis, or as many as one that was observed and
    is not read from values. Of guesses of one kind the one that fits the most cases is reported. Where more cases are
    imprecise than have inf, coarse rounding is the cause of both. An output of a single element fits some known mistake
    by chance: more cases must show it than are open.
    """
    single = sum(d.kind == "wrong-values" and d.symptom.startswith("1 of 1 ") for d in found)
    said = Counter(d.symptom for d in found)
    found = [d for d in found if not d.guess or said[d.symptom] >= single]
    cases = Counter(d.kind for d in found if d.kind not in ("wrong-values", NEEDS_GPU))
    observed = {d.kind for d in found if not d.guess and d.kind not in ("precision", "overflow")}
    most = max(cases.values(), default=0)
    if any(cases[kind] == most for kind in observed):
        found = [d for d in found if not d.guess or d.kind in observed]
    if 0 < cases["overflow"] < cases["precision"] and all(d.kind != "wrong-values" for d in found):
        found = [d for d in found if d.kind != "overflow"]
    best = most_specific([d for d in found if not d.guess or cases[d.kind] == most])
    if best is not None and best.guess:
        alike = [d for d in found if d.kind == best.kind and d.guess]
        often = Counter(d.symptom for d in alike)
        best = max(alike, key=lambda d: often[d.symptom])  # the first of equals
    return best


def from_problem(problem: Problem) -> Diagnosis:
    message, advice = problem.message, None
    if problem.kind in ("does-not-compile", "error"):
        message, advice = slips.explained(problem.message, problem.source)
    where = f" (line {problem.line}: `{problem.source}`)" if problem.line and problem.source else ""
    if not where and problem.line:
        where = f" (line {problem.line})"
    if not where and problem.source:
        where = f" (at `{problem.source}`)"
    return diagnosis(problem.kind, message + where, advice=advice)


def _other_result(comparison: Comparison, name: str, earlier: torch.Tensor) -> bool:
    """Is what an earlier run left in an output another result? Atomics add floating-point numbers in any order, so
    other bits alone show a race only where they must be equal."""
    if comparison.run.case.exact:
        return True
    return bool(comparison.output(name).bad.any() or comparison.output(name, earlier).bad.any())


def examine(run: Run, outcome: Outcome, hidden: bool = False) -> CaseResult:
    """The result of one case: what the memory, the recorded accesses and the exception say together."""
    result = _examine(run, outcome, CaseResult(run.case.name, seconds=outcome.seconds, hidden=hidden))
    found = result.diagnosis
    if found and run.exercise.language == "cuda" and found.advice == KINDS.get(found.kind):
        found = replace(found, advice=CUDA_ADVICE.get(found.kind, found.advice))
    return replace(result, diagnosis=found)


def _examine(run: Run, outcome: Outcome, result: CaseResult) -> CaseResult:
    if outcome.problem is not None:
        found = [from_problem(outcome.problem)]
        if outcome.problem.kind in ("error", NEEDS_GPU):  # an access out of bounds may be what led to the exception
            found += _from_findings(outcome, run)
        return replace(result, diagnosis=most_specific(found))
    found = _from_findings(outcome, run) + _from_guards(run)
    if outcome.stopped and found:
        return replace(result, diagnosis=most_specific(found))
    if outcome.launches == 0:
        found.append(diagnosis("no-kernel", "your function ran, but launched no kernel"))
    worst = 0.0
    comparison = Comparison(run)
    if outcome.unstable or any(_other_result(comparison, *pair) for pair in outcome.earlier.items()):
        found.append(diagnosis("race", "the result differs from run to run on the same input"))
    for name in run.outputs:
        output = comparison.output(name)
        worst = max(worst, output.error)
        found += _from_output(comparison, output)
    unwritten = any(d.kind == "not-written" for d in found)
    if outcome.returned and unwritten:
        found.append(
            diagnosis("returned", f"your function returned a {outcome.returned} and left the output untouched")
        )
    return replace(result, diagnosis=most_specific(found), error=worst)


def _from_findings(outcome: Outcome, run: Run) -> list[Diagnosis]:
    found = []
    for f in outcome.findings:
        kind = f.kind
        if kind == "out-of-bounds" and f.past_end and f.array in run.buffers:
            kind = "tail-unmasked"
        advice = LANES_ADVICE if getattr(f, "lanes", False) else None
        if getattr(f, "overflowed", False):
            advice = OVERFLOW_ADVICE
        found.append(diagnosis(kind, f.sentence(), advice=advice))
    return found


def _from_guards(run: Run) -> list[Diagnosis]:
    found = []
    for b in run.buffers.values():
        changed, inside = b.changed(), b.inside()
        outside = (changed & ~inside).nonzero().flatten() - b.start
        if outside.numel():
            last = int(inside.nonzero()[-1]) - b.start
            past_end = int(outside[0]) == last + 1
            count = outside.numel()
            message = (
                f"{count} element{'s' * (count > 1)} outside {b.name} changed, the first at {b.name}[{outside[0]}]"
            )
            found.append(diagnosis("tail-unmasked" if past_end else "out-of-bounds", message))
        if not b.is_output and (changed & inside).any():
            at = int((changed & inside).nonzero()[0]) - b.start
            found.append(diagnosis("input-overwritten", f"the input {b.name} was changed, first at element {at}"))
    return found


def _from_output(comparison: Comparison, output: OutputComparison) -> list[Diagnosis]:
    found, chance = [], _few_match_poison(output)
    if output.unwritten.any() and not chance:
        found.append(_unwritten(output))
    bad = output.bad if chance else output.bad & ~output.unwritten
    if bad.any():
        found.append(_wrong(comparison, output, bad))
    return found


def _few_match_poison(output: OutputComparison) -> bool:
    """Are the elements that hold poison so few, and other wrong elements so many, that they match it by chance?

    The probability of a match is nearly the expected number of matches where that is small; 1 % counts as likely. A
    kernel that computes with what the output held before keeps poison that is NaN.
    """
    kept = output.got[output.unwritten]
    likely = expected_poison_matches(output.buffer.view) > 0.01 or (kept.numel() > 0 and bool(kept.isnan().all()))
    few = max(3, most_poison_matches(output.buffer.view), int(output.bad.sum()) // 50)
    return likely and int(output.unwritten.sum()) <= few < int(output.bad.sum())


def _unwritten(output: OutputComparison) -> Diagnosis:
    name, missing = output.name, output.unwritten
    row = missing.shape[-1] if missing.dim() else 1
    rows = missing.reshape(-1, row)
    each_row = len(rows) > 1 and bool((rows == rows[0]).all()) and not rows[0].all()
    flat = rows[0] if each_row else missing.flatten()
    n, count, first = flat.numel(), int(flat.sum()), int(flat.nonzero()[0])
    of = f"elements of each row of {name}" if each_row else f"elements of {name}"
    if count == n:
        return diagnosis("not-written", f"no element of {name} was written", output.report())
    if count != n - first:
        return diagnosis("not-written", f"{count} of {n} {of} were never written", output.report())
    # exactly a tail is missing: all but one block (or one row), or the rest that fills no block
    a_block = first >= 16 and first & (first - 1) == 0
    if 2 * first <= n and (a_block or (len(rows) > 1 and first == row)):
        return diagnosis("first-block-only", f"only the first {first} of {n} {of} were written", output.report())
    return diagnosis("tail-not-written", f"the last {count} of {n} {of} were not written", output.report())


def _wrong(comparison: Comparison, output: OutputComparison, bad: torch.Tensor) -> Diagnosis:
    if mistake := recognise(comparison, output):
        return from_mistake(mistake, output, barely(mistake, comparison, output))
    return from_values(comparison, output, bad)


def from_mistake(mistake: KnownMistake, output: OutputComparison, barely_seen: bool) -> Diagnosis:
    """What a known mistake says of an output that is like its result."""
    message = mistake.sentence.format(name=output.name) + (SAME if barely_seen else "")
    advice = mistake.advice or GUESS_ADVICE.get(mistake.diagnosis)
    return replace(diagnosis(mistake.diagnosis, message, output.report(), advice), guess=True)


def from_values(comparison: Comparison, output: OutputComparison, bad: torch.Tensor) -> Diagnosis:
    """What wrong values show by themselves: not finite, imprecise, or wrong."""
    name = output.name
    finite = bad & torch.isfinite(output.expected)
    # where the terms themselves come near the type's largest number, any wrong sum of them may leave it
    largest = torch.finfo(output.buffer.view.dtype).max if output.buffer.view.is_floating_point() else float("inf")
    roomy = 4 * output.magnitude.abs() < largest
    strange = output.got[finite & roomy & ~output.stale & ~torch.isfinite(output.got)]
    if strange.numel():
        what = "NaN" if torch.isnan(strange).any() else "inf"
        return diagnosis("overflow", f"{name} has {what} where the answer is finite", output.report())
    rounds = output.buffer.view.is_floating_point()  # codes and counts are right or wrong
    relative = _relative_error(output, finite & (roomy | torch.isfinite(output.got))) if rounds else 1.0
    # errors of a few fp16 or bf16 roundings, where the contract asks for a finer type
    coarse = 16 * ROUND_OFF["bfloat16" if output.dtype == "bfloat16" else "float16"]
    if relative < coarse and _nearly_right(output, finite):
        contract = comparison.exercise.contract.accumulate
        message = f"{name} is right to about {relative:.0e}, but the contract is {contract} arithmetic"
        return diagnosis("precision", message, output.report())
    return diagnosis("wrong-values", f"{int(bad.sum())} of {bad.numel()} elements of {name} are wrong", output.report())


def _nearly_right(output: OutputComparison, where: torch.Tensor) -> bool:
    """Is half of these elements at least near the right result? Beside the terms of a long sum any result is near."""
    near = output.difference[where] <= 0.25 * output.expected[where].abs()
    return bool(2 * near.sum() >= near.numel())


def _relative_error(output: OutputComparison, where: torch.Tensor) -> float:
    """The largest error beside the size of the terms that were summed."""
    if not where.any():
        return 1.0
    scale = (output.magnitude.abs() + output.expected.abs())[where].clamp_min(1e-300)
    return float((output.difference[where] / scale).max())
