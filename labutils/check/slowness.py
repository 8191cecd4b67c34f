"""Why a Triton kernel is slow: every program stores what the others store too, or one element at a time.

A kernel whose programs each do the whole work gives the right result, and takes as many times as long as there are
programs. Its smallest cases pass, and its largest one may run out of time.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

from ..backends import Outcome
from ..spec.inputs import Run
from ..spec.verdict import REPEATED, Diagnosis
from . import accesses, names, statements
from .accesses import Access, Recording
from .findings import Evidence

SERIAL = 8
"""So many stores of single elements by one program, or more, are a loop over elements."""


def out_of_time(
    fn: Callable, found: Diagnosis, stopped: Run, ended: list[tuple[Run, Outcome]], seconds: float
) -> Diagnosis:
    """Of a kernel that ran out of time in one case, and came to an end in others: why it is slow, as far as the latter
    show it."""
    if not ended:
        return found
    begun = re.search(r"; (\d+ of \d+) programs were begun", found.symptom)
    late = f'the case "{stopped.case.name}" was stopped' + (f" when {begun[1]} programs had begun" if begun else "")
    several = [pair for pair in ended if pair[1].counts.get("repeated_stores")]
    if why := _repeated(fn, several, seconds) or _serial(fn, ended[-1][0], seconds):
        return replace(found, symptom=f"the kernel is slow, not endless: {why.cause}; {late}", advice=why.advice)
    place = found.symptom.find(" (line ")  # the statement quoted there may hold brackets of its own
    where = found.symptom[place:] if place >= 0 else ""
    symptom = f"{late}, and smaller cases came to an end: the kernel is slow, or a loop has no end at this size"
    return replace(
        found,
        symptom=symptom + where,
        advice="Work out how many iterations each loop has in this case. More than it needs? Or can its condition stay "
        "true?",
    )


def reasons(fn: Callable, ended: list[tuple[Run, Outcome]], seconds: float) -> dict[str, str]:
    """A reason REPEATED for a kernel that is right, and whose programs all do the same work; none for others."""
    several = [pair for pair in ended if _many(*pair)]
    why = _repeated(fn, several, seconds) if several else None
    return {REPEATED: f"Right, but slow: {why.cause}. {why.advice}"} if why else {}


def _many(run: Run, outcome: Outcome) -> bool:
    """Have programs stored again at least as many elements as the outputs have?"""
    return outcome.counts.get("repeated_stores", 0) >= sum(b.view.numel() for b in run.outputs.values()) > 1


def _repeated(fn: Callable, several: list[tuple[Run, Outcome]], seconds: float) -> Evidence | None:
    """Every program stores all of an output, or each of its elements is stored by several."""
    for run, outcome in several[:1]:
        if outcome.counts["launches"] > 1:  # whose programs share their numbers
            return None
        seen = accesses.record(fn, accesses.again(run), seconds)
        for name, buffer in run.outputs.items():
            found = _of_output(name, buffer.view.numel(), seen, outcome.counts["programs"], run)
            if found is not None:
                used = any("program_id" in text for _, text in names.texts(fn))
                unused = "" if used else "The kernel does not ask for tl.program_id. "
                return replace(found, advice=unused + found.advice)
    return None


def _of_output(name: str, count: int, seen: Recording, programs: int, run: Run) -> Evidence | None:
    stores = seen.of(name, "store")
    by_program: dict[tuple[int, ...], set[int]] = {}
    for a in stores:
        by_program.setdefault(a.program, set()).update(a.elements)
    times = Counter(e for own in by_program.values() for e in own)
    if count < 2 or len(times) < count or min(times.values()) < 2:
        return None
    where = f' in the case "{run.case.name}" ({_line(stores[-1], seen)})'
    advice = (
        f"Let each program work on its own part of {name}: its addresses must contain tl.program_id, as in "
        "offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)."
    )
    least = min(times.values())
    if least == programs:
        all_of_them = "both programs store" if programs == 2 else f"each of the {programs} programs stores"
        return Evidence(f"every program does the whole work, {all_of_them} all of {name}{where}", advice)
    return Evidence(f"each element of {name} is stored by {least} or more of {programs} programs{where}", advice)


def _serial(fn: Callable, run: Run, seconds: float) -> Evidence | None:
    """Each program stores one element after the other."""
    seen = accesses.record(fn, accesses.again(run), seconds)
    for name in run.outputs:
        stores = seen.of(name, "store")
        most = max(Counter(a.program for a in stores).values(), default=0)
        if most >= SERIAL and all(len(a.elements) + len(a.masked) == 1 for a in stores):
            return Evidence(
                f"each program stores one element of {name} at a time, up to {most} of them in the case "
                f'"{run.case.name}" ({_line(stores[-1], seen)})',
                "A program works on a block at once: in place of the loop over elements, load and store a block, with "
                "offsets from tl.arange(0, BLOCK) and a mask.",
            )
    return None


def _line(a: Access, seen: Recording) -> str:
    text = statements.statement(seen.lines(a.filename), a.line)
    return f"line {a.line}: `{re.sub('`', '', statements.shortened(text))}`"
