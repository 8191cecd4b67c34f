"""Why elements stay unwritten, or accesses leave an array: read from where each program stored, and under which mask.

The grid is given in most exercises, so advice names what the kernel computes; it counts programs, and lets the reader
see whether they are too few.
"""

from __future__ import annotations

import re

import torch

from ..backends.simt import source as source_of
from ..spec.inputs import Run
from . import regions, statements
from .accesses import Access, Recording, numbers
from .findings import Evidence


def unwritten(run: Run, name: str, missing: torch.Tensor, seen: Recording) -> Evidence | None:
    """Why these elements of an output were not written."""
    if run.exercise.language == "cuda":
        return _unwritten_cuda(run, name, missing, seen)
    if not seen.launches:
        return None
    stores = seen.of(name, "store", "atomic")
    programs = _count(seen)
    if not stores:
        return _no_store(run, name, programs, seen)
    return (
        _between_rows(run, name, stores, seen)
        or _same_place(run, name, stores, seen)
        or _masked_off(run, name, missing, stores, seen)
        or _not_reached(run, name, missing, stores, seen)
    )


def _count(seen: Recording) -> int:
    sizes = seen.launches[-1][0]
    return sizes[0] * sizes[1] * sizes[2]


def _who(place: tuple[int, ...]) -> str:
    return f"program {place[0] if not any(place[1:]) else place}"


def _ran(programs: int) -> str:
    return "1 program ran" if programs == 1 else f"{programs} programs ran"


def _no_store(run: Run, name: str, programs: int, seen: Recording) -> Evidence:
    elsewhere = [a for a in seen.accesses if a.kind in ("store", "atomic")]
    if elsewhere and len(run.outputs) == 1:
        line = statements.statement(seen.lines(elsewhere[0].filename), elsewhere[0].line)
        where = f"line {elsewhere[0].line}: `{statements.shortened(line)}`"
        return Evidence(f"{_ran(programs)}, and what they store goes to {elsewhere[0].array} ({where})",
                        f"Store the result to {name}: check the pointer of that line.")  # fmt: skip
    return Evidence(
        f"{_ran(programs)}, and none of them executed a tl.store to {name}",
        f"End the kernel with tl.store({name}_ptr + …, value, mask=…), outside of any branch that is never taken.",
    )


def _masked_off(run: Run, name: str, missing, stores: list[Access], seen: Recording) -> Evidence | None:
    """Programs point at the missing elements, but their mask is False there. All of them: behind the end of a row lies
    the next one, at which lanes that are rightly masked point as well."""
    wanted = set(missing.flatten().nonzero().flatten().tolist())
    if not wanted <= _masked(run, name, stores):
        return None
    for a in stores:
        off = [n for n in numbers(run.buffers[name], a.masked) if n in wanted]
        if off:
            lines = seen.lines(a.filename)
            text = statements.statement(lines, a.line)
            call = statements.memory_call(text)
            mask = call.mask if call else "mask"
            made = statements.origin(lines, mask, a.line)
            first = regions.at(name, tuple(missing.shape), off[0])
            where = f"; it was computed on {made}" if made else ""
            return Evidence(
                f"{_who(a.program)} points at {first}, but its mask is False there "
                f"(line {a.line}: `{statements.shortened(text)}`)",
                f"`{mask}` must be True for each index that exists in {name}, and only there{where}.",
            )
    return None


def _masked(run: Run, name: str, stores: list[Access]) -> set[int]:
    """The elements at which lanes point that are masked."""
    return {n for a in stores for n in numbers(run.buffers[name], a.masked)}


def _same_place(run: Run, name: str, stores: list[Access], seen: Recording) -> Evidence | None:
    """Several programs store to the same elements."""
    sets: dict[tuple[int, ...], Access] = {}
    for a in stores:
        if a.elements and a.elements in sets and sets[a.elements].program != a.program:
            first = sets[a.elements]
            lines = seen.lines(a.filename)
            what = regions.of_flat(name, tuple(run.buffers[name].view.shape), numbers(run.buffers[name], a.elements))
            text = statements.statement(lines, a.line)
            call = statements.memory_call(text)
            made = statements.origin(lines, call.pointer, a.line) if call else None
            axis = next(k for k in range(3) if first.program[k] != a.program[k])
            advice = f"The address must contain tl.program_id({axis}), in which these programs differ"
            if helper := statements.helper_call(lines, call.pointer, a.line) if call else None:
                return Evidence(
                    f"{_who(first.program)} and {_who(a.program)} both store to {what} "
                    f"(line {a.line}: `{statements.shortened(text)}`)",
                    f"Their addresses come from {helper}: compute by hand what that function returns for both.",
                )
            return Evidence(
                f"{_who(first.program)} and {_who(a.program)} both store to {what} "
                f"(line {a.line}: `{statements.shortened(text)}`)",
                f"{advice}: check {made}." if made else f"{advice}.",
            )
        sets.setdefault(a.elements, a)
    return None


def _between_rows(run: Run, name: str, stores: list[Access], seen: Recording) -> Evidence | None:
    """Stores go to memory between the rows of an array, which belongs to none of its elements."""
    view = run.buffers[name].view
    end = sum((n - 1) * s for n, s in zip(view.shape, view.stride(), strict=True))
    if view.is_contiguous() or view.dim() < 2:
        return None
    inside = set()
    for offsets in (torch.arange(n) * s for n, s in zip(view.shape, view.stride(), strict=True)):
        inside = {a + b for a in inside or {0} for b in offsets.tolist()}
    for a in stores:
        gap = [e for e in a.elements if 0 <= e < end and e not in inside]
        if gap:
            lines = seen.lines(a.filename)
            text = statements.statement(lines, a.line)
            return Evidence(
                f"{_who(a.program)} stores between two rows of {name}, which lie {view.stride(-2)} elements apart and "
                f"have {view.shape[-1]} (line {a.line}: `{statements.shortened(text)}`)",
                f"Step from row to row by {name}'s own stride, not by the length of a row.",
            )
    return None


def _not_reached(run: Run, name: str, missing, stores: list[Access], seen: Recording) -> Evidence:
    """No program points at the missing elements."""
    programs, shape = _count(seen), tuple(missing.shape)
    last = max(stores, key=lambda a: max(a.elements, default=-1))
    lines = seen.lines(last.filename)
    text = statements.statement(lines, last.line)
    call = statements.memory_call(text)
    made = statements.origin(lines, call.pointer, last.line) if call else None
    where = f"line {last.line}: `{statements.shortened(text)}`"
    beyond = [m for m in last.masked if m >= run.buffers[name].view.numel()]
    stored = f"{name}[{min(beyond)}] and behind, past its end" if beyond else "nothing"
    if inside := numbers(run.buffers[name], last.elements):
        stored = regions.of_flat(name, shape, inside)
    elif last.elements:
        stored = f"memory that is no element of {name}"
    unseen = sorted(set(missing.flatten().nonzero().flatten().tolist()) - _masked(run, name, stores))
    if not unseen:
        return None
    first = regions.at(name, shape, unseen[0])
    per = {a.program: 0 for a in stores}
    for a in stores:
        per[a.program] += len(a.elements) + len(a.masked)
    cause = f"{_ran(programs)}, and no store points at {first}: {_who(last.program)} points at {stored} ({where})"
    if sum(per.values()) >= missing.numel():
        advice = "The programs could cover all of it, but their addresses leave gaps or overlap: check "
        if helper := statements.helper_call(lines, call.pointer, last.line) if call else None:
            return Evidence(cause, f"{advice}what the function of {helper} returns for the last programs.")
        return Evidence(cause, advice + (f"{made}." if made else "the offsets of the store."))
    each = max(per.values())
    idle = programs - len(per)
    if idle > 0 and programs * each >= missing.numel():
        return Evidence(
            cause,
            f"{idle} of {programs} programs execute{'s' * (idle == 1)} no store to {name}: check the condition, or the "
            f"loop, around line {last.line}, and what its names stand for.",
        )
    if each == 1 and made:
        return Evidence(cause, f"Each program stores one element: should {made} be a block, with tl.arange(0, BLOCK)?")
    advice = (
        f"{programs} × {each} elements are fewer than {missing.numel()}: each program must go on in a loop until the "
        "end, or there must be more programs"
    )
    return Evidence(cause, advice + (f". The address comes from {made}." if made else "."))


# --- CUDA C++ ------------------------------------------------------------------------------------------------------


def _unwritten_cuda(run: Run, name: str, missing, seen: Recording) -> Evidence | None:
    if not seen.launches or not seen.sources:
        return None
    grid, block = seen.launches[-1]
    source = seen.sources[-1]
    stores = statements.uses(source, name, stored=True)
    blocks, threads = grid[0] * grid[1] * grid[2], block[0] * block[1] * block[2]
    ran = f"{blocks} block{'s' * (blocks > 1)} of {threads} threads ran"
    if not stores and not re.search(rf"\b{name}\b[^;]*[,)]\s*;", source.split("{", 1)[-1]):
        return Evidence(f"{ran}, and no line of the kernel assigns to {name}[…]", f"End the kernel with {name}[…] = …;")
    line = stores[-1] if stores else None
    used = [f"blockIdx.{a}" for a, n in zip("xyz", grid, strict=True) if n > 1]
    unused = [word for word in used if word not in source]
    if unused:
        return Evidence(
            f"{ran}, and the kernel never uses {unused[0]}: all blocks store to the same elements",
            f"Compute the index from {unused[0]} too, as {unused[0]} * {unused[0].replace('Idx', 'Dim')} + "
            f"{unused[0].replace('block', 'thread')}.",
        )
    if line is None:
        return Evidence(ran)
    guard = statements.guard(source, line.number)
    made = [x for x in statements.made_of(source, line) if x != guard]
    if bool(missing.all()):
        advice = "Which threads reach it?" + "".join(f" Check {x}." for x in ([guard] if guard else []) + made)
        return Evidence(f"{ran}, and none of them stored to {name} ({line})", advice)
    for place, division, rest in statements.rounded_down(source, line.number, dict(run.case.sizes)):
        if rest == int(missing.any(tuple(range(missing.dim() - 1))).sum() if missing.dim() > 1 else missing.sum()):
            return Evidence(
                f"as many are left over by {division} on {place}, which rounds down",
                "The rest counts too: let the loop go on to the last element, and guard what lies beyond it.",
            )
    loops = [x for x in statements.enclosing_loops(source, line.number) if x not in (guard, line)]
    first = regions.element(name, missing.nonzero()[0].tolist())
    cause = f"{ran}; which of them should store {first}? The store is {line}"
    whom = (
        "thread 0 of block 1 and for the last thread of the last block" if blocks > 1 else "threads 0, 1 and the last"
    )
    advice = f"Work out the index of that store for {whom}"
    also = [str(x) for x in dict.fromkeys([*([guard] if guard and guard != line else []), *loops, *made])]
    return Evidence(cause, advice + (f"; check {', '.join(also)}." if also else "."))


# --- outside of an array -------------------------------------------------------------------------------------------


def outside(run: Run, array: str, index: int, kind: str, line: int, seen: Recording) -> Evidence | None:
    """Why an access leaves an array: its mask or guard lets an index through, or there is none. `index` counts
    elements of memory from the array's first."""
    if run.exercise.language == "cuda":
        return _outside_cuda(run, array, index, line, seen)
    found = [a for a in seen.of(array, kind) if a.line == line]
    if not found:
        return None
    a = found[0]
    lines = seen.lines(a.filename)
    text = statements.statement(lines, line)
    call = statements.memory_call(text)
    if call is None:
        return None
    made = statements.origin(lines, call.pointer, line)
    bound = _bound(run, array, index)
    if index < 0:
        return Evidence(bound, f"An index became negative: check {made}." if made else "An index became negative.")
    if foreign := statements.foreign_stride(lines, call.pointer, line):
        where, stride, owner = foreign
        return Evidence(
            f"{bound}; {where} steps through {array} by {stride}, by its name a stride of {owner}",
            f"Step through {array} by its own strides, or by the length of its own rows.",
        )
    also = f" The index comes from {made}." if made else ""
    base = re.match(r"\w+", call.pointer)
    if base and (step := statements.moved(lines, base[0], line)):
        also += f" It moves on {step}."
    if not call.mask:
        advice = _no_mask(call.pointer, len(a.elements) + len(a.masked), array, _axis(run, array), also)
        return Evidence(f"{bound}, and there is no mask on that line", advice)
    if base and (passed := statements.passed_as(lines, base[0], line, array)):
        also = f" The pointer is passed on {passed}.{also}"
    touched = {e for b in found for e in b.elements}
    here = next((b for b in found if index in b.elements), a)
    if array in run.buffers and (
        len(touched) <= run.buffers[array].view.numel()  # as many as there are, but elsewhere
        or not numbers(run.buffers[array], here.elements)
    ):
        return Evidence(
            f"{bound}; the mask lets as many lanes through as {array} has elements, or fewer: other lanes, or the "
            "address is wrong",
            f"Check each term of `{call.pointer}` (the index of the row, its stride, the start of the block), and that "
            f"the mask compares each index with the size of its own axis.{also}",
        )
    return _wide_mask(lines, call, line, f"{bound}, and the mask lets that lane through", also)


def _axis(run: Run, array: str) -> str:
    """The axis along which an array of one axis has its elements; "" for any other array."""
    dims = getattr(run.exercise.arguments.get(array), "dims", ())
    return dims[0] if len(dims) == 1 and len(run.case.sizes) > 1 else ""


def _no_mask(pointer: str, lanes: int, array: str, axis: str, also: str) -> str:
    """What to try without a mask: a single element may be meant, and then the index is wrong."""
    if lanes == 1 and axis:
        return (
            f"A program reads one element there, and {array} has one for each index along {axis}: is "
            f"`{pointer}` such an index? If it is another axis's, use the right one; else give it mask=….{also}"
        )
    if lanes == 1:
        return (
            f"Each program reads or writes a single element there. Work out `{pointer}` for that program: a term of "
            f"it is wrong, or that program has nothing to do there.{also}"
        )
    return (
        "If lanes past the end have nothing to do there, give it mask=…, which compares the index with the size of "
        f"that axis. If each lane should have an element, a term of `{pointer}` is wrong.{also}"
    )


def _wide_mask(lines: list[str], call, line: int, cause: str, also: str) -> Evidence:
    """The mask is True for more lanes than the array has elements."""
    masked = statements.definition(lines, call.mask, line) if call.mask.isidentifier() else None
    mask = f"`{call.mask}`" + (f" ({masked})" if masked else "")
    text = masked.text if masked else call.mask
    if re.search(r"\b(and|or)\b", text):
        return Evidence(
            cause, f"{mask}: `and` and `or` do not combine blocks; write (a < b) & (c < d), in parentheses."
        )
    if re.search(r"(?<!\|)\|(?!\|)", text):
        return Evidence(
            cause, f"{mask}: `|` lets a lane through that is inside along one axis alone; both must be true, `&`."
        )
    if "<=" in text:
        return Evidence(cause, f"{mask} has `<=`: the index that equals the size does not exist, so it must be `<`.")
    if also and masked and masked.text in also:
        also = ""
    return Evidence(
        cause,
        f"{mask} must compare each index of the address with the size of the axis it runs along, with `<`. If it "
        f"does, a term of `{call.pointer}` is wrong.{also}",
    )


def _bound(run: Run, array: str, index: int) -> str:
    """The size of an array, in words that fit an index outside of it."""
    if array not in run.buffers:
        return "that is outside of it"
    view = run.buffers[array].view
    shape = tuple(view.shape)
    if len(shape) == 1:
        return f"{array} has {shape[0]} element{'s' * (shape[0] != 1)}, the last is {array}[{shape[0] - 1}]"
    size = " × ".join(map(str, shape))
    if 0 <= index < sum((n - 1) * s for n, s in zip(shape, view.stride(), strict=True)):
        row = index // view.stride(0)
        return (
            f"{array} has the shape {size}, with {view.stride(-2)} elements from row to row, and this lies behind "
            f"row {row}'s end"
        )
    return f"{array} has the shape {size}"


def _outside_cuda(run: Run, array: str, index: int | None, line: int, seen: Recording) -> Evidence | None:
    if not seen.sources:
        return None
    source = next((s for s in seen.sources if statements.line_of(s, line)), "")
    here = statements.line_of(source, line)
    if here is None:
        return None
    guard = statements.guard(source, line)
    shape = tuple(run.buffers[array].view.shape) if array in run.buffers else None
    size = f"{array} has the shape {' × '.join(map(str, shape))}" if shape and len(shape) > 1 else ""
    if index is not None and index < 0:
        return Evidence(
            f"the index is negative; the line is `{statements.shortened(here.text)}`",
            "An index is shifted to before the start: work out the smallest index of that line.",
        )
    if guard is None and (short := _too_short(array, index, here, source)):
        return short
    if guard is None:
        return Evidence(
            f"{size + '; ' if size else ''}the line is `{statements.shortened(here.text)}`, with no if around it",
            "Let only threads whose index exists reach that line: if (index < size) …",
        )
    what = f"`{statements.shortened(here.text)}`"
    if guard.number != line:
        what += f", under {guard}"
    cause = f"{size + '; ' if size else ''}the line is {what}"
    if array in run.buffers and (wrong := _row_length(run, array, here.text)):
        return Evidence(cause, wrong)
    guards = statements.conditions(source, line)
    slip = _joined(array, here.text, guards) or _slip(array, here.text, guards)
    if not slip and (short := _too_short(array, index, here, source)):
        return short
    slip = slip or _summed(array, here.text, source)
    return Evidence(cause, slip or _guard_advice(array, here.text, guards, guard.text, source))


def _too_short(array: str, index: int | None, here: statements.Line, source: str) -> Evidence | None:
    """Of an array that the kernel declares itself: it may be too short for an index that is right."""
    declared = next((x for x in statements.uses(source, array) if "__shared__" in x.text), None)
    lengths = source_of.prepare(source).shared[array].lengths if declared else None
    if index is None or not lengths or len(lengths) > 1 or not lengths[0] <= index < 2 * lengths[0]:
        return None
    return Evidence(
        f"{array} has {lengths[0]} elements, and index {index} needs {index + 1} ({declared}); the line is "
        f"`{statements.shortened(here.text)}`",
        f"Which indices should be used, for the first thread and for the last? If {index} is one of them, {array} is "
        "too short; if not, correct the index, or let only threads whose index exists reach that line.",
    )


def _summed(array: str, text: str, source: str) -> str | None:
    """Of an array with several dimensions that the kernel declares itself: an index that adds two variables."""
    declared = any("__shared__" in x.text for x in statements.uses(source, array))
    lengths = (source_of.prepare(source).shared[array].lengths or ()) if declared else ()
    for indices in re.findall(rf"\b{re.escape(array)}\s*((?:\[[^\]]*\])+)", text):
        for length, index in zip(lengths, re.findall(r"\[([^\]]*)\]", indices), strict=False):
            if len(lengths) > 1 and (m := re.fullmatch(r"\s*([A-Za-z_]\w*)\s*\+\s*([A-Za-z_]\w*)\s*", index)):
                return (
                    f"That dimension of {array} has {length} elements: `{index.strip()}` must stay below {length} for "
                    f"the largest {m[1]} and the largest {m[2]} together. If only one of them belongs there, drop the "
                    "other; if both do, take an operation that stays inside."
                )
    return None


def _row_length(run: Run, array: str, text: str) -> str | None:
    """The index multiplies by a size of the exercise that is not the row length of this array."""
    dims = run.exercise.arguments[array].dims
    sizes = {d for a in run.exercise.arguments.values() for d in getattr(a, "dims", ())}
    if len(dims) != 2:
        return None
    for index in re.findall(rf"\b{re.escape(array)}\s*\[([^\]]*)\]", text):
        factors = set(re.findall(r"\*\s*([A-Z]\w*)\b", index)) & sizes
        if factors and dims[1] not in factors:
            wrong = ", ".join(sorted(factors))
            return f"The index [{index}] steps by {wrong} from row to row, but a row of {array} has {dims[1]} elements."
    return None


def _slip(array: str, text: str, guards: list[statements.Line]) -> str | None:
    """A condition on a variable of the index that lets the size itself through: `n > N` before a return."""
    variables = {
        v
        for index in re.findall(rf"\b{re.escape(array)}\d?\s*\[([^\]]*)\]", text)
        for v in re.findall(r"[A-Za-z_]\w*", index)
    }
    for guard in guards:
        leaves = re.search(r"\b(return|continue|break)\b", guard.text)
        sign = r">(?!=|>)" if leaves else "<="
        for part in re.split(r"&&|\|\||[;?{(]", guard.text):
            m = re.search(rf"\b(\w+)\s*(?<!>){sign}\s*([A-Za-z]\w*)", part)
            if m and m[1] in variables and not re.search(rf"\b{m[1]}\s*-", text):
                return f"{guard}: `{m[0].strip()}` lets {m[1]} = {m[2]} through, but the last index is {m[2]} − 1."
    return None


def _joined(array: str, text: str, guards: list[statements.Line]) -> str | None:
    """A guard of two indices that are joined the wrong way round: `m >= M && n >= N` before a return."""
    variables = set(re.findall(r"[A-Za-z_]\w*", " ".join(re.findall(rf"\b{re.escape(array)}\d?\s*\[([^\]]*)\]", text))))
    for guard in guards:
        leaves = re.search(r"\b(return|continue|break)\b", guard.text)
        joint, sign = ("&&", ">") if leaves else ("||", "<")
        condition = re.search(r"\bif\s*\((.*)\)", guard.text)
        if condition is None or joint not in condition[1]:
            continue
        tests = [re.match(rf"[\s(!]*(\w+)\s*{sign}=?\s*\w", part) for part in condition[1].split(joint)]
        if not all(tests) or not variables & {m[1] for m in tests}:
            continue
        if leaves:
            return (
                f"{guard} stops only threads that are outside in each direction; one direction must be enough, by an "
                "or."
            )
        return f"{guard} lets a thread in that is inside in one direction alone; both must be true, by an and."
    return None


def _guard_advice(array: str, text: str, guards: list[statements.Line], guard: str, source: str) -> str:
    """What the guards lack: a variable of the index that none of them tests, or `<`."""
    if "<=" in guard:
        return f"`<=` lets an index through that equals the size: the last index of {array} is its size − 1."
    bounded, sizes = statements.compared(guard)
    tested = set().union(*(names for g in guards for names in statements.compared(g.text))) | bounded | sizes
    found = re.findall(rf"\b{re.escape(array)}\d?\s*((?:\[[^\]]*\])+)", text)
    for index in found:
        named = re.findall(r"[A-Za-z_]\w*", re.sub(r"\b(?:thread|block|grid)(?:Idx|Dim)\.[xyz]", "", index))
        variables = [v for v in dict.fromkeys(named) if not v.isupper()]
        alone = index.strip("[] ")
        if alone in sizes - bounded or re.search(rf"\b(?:int|size_t|unsigned)\s+{re.escape(alone)}\s*[,)]", source):
            return f"{array}{index} does not exist, its last element is one before: which index belongs there?"
        if untested := [v for v in variables if v not in tested]:
            names = " and ".join(untested)
            return (
                f"No condition bounds {names} of the index {index}: test {names} itself, or, if that index is wrong, "
                "use what is tested."
            )
    index = max(found, key=len, default="of that line")
    return (
        f"Work out the index {index} for that thread: a term of it is wrong, or the condition compares it with the "
        "wrong size."
    )


# --- shared memory and loops of CUDA C++ ---------------------------------------------------------------------------


def conflict(line: int, message: str, sources: list[str]) -> Evidence | None:
    """Two threads meet at one element although a barrier is there: then the indices are wrong."""
    source = next((s for s in sources if statements.line_of(s, line)), "")
    here = statements.line_of(source, line)
    if m := re.search(r"writes (\w+)\[.*which .* wrote \(line (\d+)\)", message):
        other = statements.line_of(source, int(m[2]))
        shared = re.search(rf"__shared__[^;]*\b{m[1]}\b", source)
        if here and other and other != here and not (shared and _in_one_loop(here, other, source)):
            return _stored_twice(m[1], here, other, source)
    if here is not None and (
        m := re.search(r"\b(reads|overwrites) (\w+)\[.*which .* (?:wrote|read) \(line (\d+)\)", message)
    ):
        return _of_two_lines(m[1] == "reads", m[2], here, statements.line_of(source, int(m[3])), source)
    if here is None or "(line" in message:
        return None
    if (m := re.search(r"\b(?:reads|overwrites|writes) (\w+)\[", message)) and (
        own := _own_element(m[1], here, source)
    ):
        return own
    barrier = statements.barrier_near(source, line)
    if barrier is None:
        return None
    if re.match(r"if\b", barrier.text):
        return Evidence(
            f"both accesses are on {here}; in the iterations in which the condition of {barrier} is false, no barrier "
            "separates them",
            "Let all threads reach the barrier in every iteration.",
        )
    return Evidence(
        f"both accesses are on {here}, in the same iteration, and the barrier of {barrier} separates only iterations",
        "In one iteration each element may be written by one thread and read by no other: check the indices of that "
        "line.",
    )


def _in_one_loop(here: statements.Line, other: statements.Line, source: str) -> bool:
    """Are two lines in one loop? Then what one iteration has written the next may overwrite."""
    lines = (statements.in_the_kernel(source, x).number for x in (here, other))
    return statements.common_loop(source, *lines) is not None


def _own_element(array: str, here: statements.Line, source: str) -> Evidence | None:
    """One statement reads and writes one and the same element: no barrier can stand in between."""
    indices = re.findall(rf"\b{re.escape(array)}\s*((?:\[[^\]]*\])+)", here.text)
    if len(indices) < 2 and not re.search(rf"\b{re.escape(array)}\s*(?:\[[^\]]*\])+\s*[-+*/|^&]=", here.text):
        return None
    if len(set(indices)) != 1:
        return None
    loops = statements.enclosing_loops(source, here.number)
    around = (
        f" The loop is {loops[0]}: where does each thread start, and is the step the number of threads?"
        if loops
        else ""
    )
    return Evidence(
        f"both accesses are on {here}, at one and the same index {indices[0]}, so two threads work on the same element",
        f"No barrier helps: each element should have one thread. Work out {indices[0]} for both threads.{around}",
    )


def _of_two_lines(
    reads: bool, array: str, here: statements.Line, other: statements.Line | None, source: str
) -> Evidence | None:
    """A write and a read on two lines: which way round nothing orders them, seen from the barriers in the text."""
    if other is None or here == other:
        return None
    written, read = (other, here) if reads else (here, other)
    if first := _before_the_loop(array, written, read, source):
        return first
    written, read = statements.in_the_kernel(source, written), statements.in_the_kernel(source, read)
    if not (loop := statements.common_loop(source, written.number, read.number)):
        return None
    between = statements.barriers(source, *sorted((written.number, read.number)))
    around = [
        *statements.barriers(source, loop[0], min(written.number, read.number)),
        *statements.barriers(source, max(written.number, read.number), loop[1]),
    ]
    if between and not around and written.number < read.number:
        return Evidence(
            f"{between[0]} stands between the two lines in one iteration, but nothing between {read} and the next "
            f"iteration's {written}",
            f"The next iteration overwrites {array} while other threads still read it: what separates the iterations?",
        )
    if around and not between and re.search(rf"__shared__[^;]*\b{array}\s*\[2\]", source):
        return Evidence(
            f"in one iteration {written} and {read} use the same one of the two buffers of {array}",
            f"What is written in an iteration belongs into the buffer that is not read in it: work out the first index "
            f"of {array} on both lines for two iterations.",
        )
    if re.search(rf"__shared__[^;]*\b{array}\s*(\[\w+\]){{3}}", source) or read.number > written.number:
        return None
    if between and not around:
        return Evidence(
            f"{between[0]} stands between the two lines in one iteration, but nothing between {written} and the next "
            f"iteration's {read}",
            f"In the next iteration a thread reads {array} before others have written it: what separates the "
            "iterations?",
        )
    if around and not between:
        return Evidence(
            f"in one iteration {read} comes before {written}, and a thread that is ahead writes while others have "
            "still to read",
            f"First all threads read {array}, then all write it: put __syncthreads() between the two lines.",
        )
    if not around:
        return Evidence(
            f"no barrier stands in the loop of line {loop[0]}, in which {read} comes before {written}",
            f"Two are needed: one after all have read {array} and before it is overwritten, and one before the next "
            "iteration reads it.",
        )
    return None


def _before_the_loop(array: str, written: statements.Line, read: statements.Line, source: str) -> Evidence | None:
    """A write before a loop and a read in its first iteration, with no barrier between the two in the text."""
    for one in statements.calls_of(source, written):
        for two in statements.calls_of(source, read):
            behind = [first for first, _ in statements.loops(source, two.number) if first > one.number]
            if (
                behind
                and behind[-1] - one.number <= CLOSE
                and not statements.barriers(source, one.number, two.number + 1)
            ):
                last = dict(statements.loops(source, two.number))[behind[-1]]
                advice = (
                    "Let all threads meet between the two: the barriers in the loop come too late for what was written "
                    "before it."
                    if statements.barriers(source, behind[-1], last)
                    else f"Put __syncthreads() in front of the loop of line {behind[-1]}: in the loop each thread "
                    "reads elements that other threads have written."
                )
                return Evidence(
                    f"{one} writes {array} before the loop and {two} reads it in the loop, and no __syncthreads() "
                    "stands between them",
                    advice,
                )
    return None


CLOSE = 12
"""Lines before a loop in which a write counts as the one that fills its first tile."""


def _stored_twice(array: str, here: statements.Line, other: statements.Line, source: str) -> Evidence:
    """Two statements store to one element of an array: a barrier orders them, but one of them may be too many."""
    made = [x for x in dict.fromkeys([*statements.made_of(source, here), *statements.made_of(source, other)])]
    check = f" Check {', '.join(map(str, made[:3]))}." if made else ""
    return Evidence(
        f"both {here} and {other} store to that element",
        f"Should each element of {array} be stored once? Then one of the two lines begins or ends at the wrong "
        f"index.{check} Only if both stores are meant put __syncthreads() between them.",
    )


def same_element(array: str, line: int, sources: list[str]) -> Evidence | None:
    """Threads that nothing orders meet at one element."""
    source = next((s for s in sources if statements.line_of(s, line)), "")
    here = statements.line_of(source, line)
    if here is None:
        return None
    made = "".join(f" Check {x}." for x in statements.made_of(source, here)[:2])
    return Evidence(
        f"the line is `{statements.shortened(here.text)}`",
        f"Work out the index of {array} for both threads. If each has an element of its own, a term of the index or a "
        f"condition is missing.{made} If they shall meet there, use an atomic.",
    )


def not_initialised(array: str, sources: list[str]) -> Evidence | None:
    """Where a shared array is written: by a copy that must have arrived, or by threads."""
    for source in sources:
        copies = [x for x in _calls(source, "tma_load") if re.search(rf"\btma_load\w*\(&?{re.escape(array)}\b", x.text)]
        waits = _calls(source, "mbarrier_wait")
        if copies and waits:
            return Evidence(
                f"{array} is filled by the copy of {copies[0]}, and this thread reads it before the copy has "
                "arrived, or where it does not go",
                f"Each thread that reads {array} must have waited for the copy itself: which threads reach {waits[0]}?",
            )
        if stores := statements.uses(source, array, stored=True):
            made = [m for store in stores[:1] for m in statements.made_of(source, store)]
            listed = "; ".join(str(x) for x in [*stores[:2], *made[:2]])
            return Evidence(f"{array} is written on {listed}", READ_OR_WRITTEN.format(array))
        named = [x for x in statements.uses(source, array) if "__shared__" not in x.text]
        if named:
            listed = "; ".join(map(str, named[:4]))
            return Evidence(f"{array} is used on {listed}", READ_OR_WRITTEN.format(array))
    return None


READ_OR_WRITTEN = (
    "Should that element of {} be read at all? If so, which thread should write it: check the indices of these lines "
    "and the condition around them (elements past the end of the data need a value too, such as 0). If not, the index "
    "of the read is wrong: a term, or the row length, which includes padding."
)
"""What to try where an element of shared memory has no value."""


def endless(line: int, sources: list[str]) -> Evidence | None:
    """The loop that does not come to an end, or takes too long."""
    source = next((s for s in sources if statements.line_of(s, line)), "")
    loops = statements.enclosing_loops(source, line)
    if not loops:
        return None
    for loop in loops:
        if statements.is_open(loop):
            ways = statements.exits(source, loop)
            if not ways:
                return Evidence(
                    f"the loop is {loop}, and nothing in it ends it", "Give it a condition, or a break when it is done."
                )
            only = "only " * (len(ways) == 1) + " and ".join(map(str, ways[:2]))
            return Evidence(
                f"the loop is {loop}, which {only} can end",
                "Work out the condition there for a few iterations: does it come true, for each thread, and how soon?",
            )
        if why := statements.endless(loop):
            return Evidence(f"the loop is {loop}: {why}", "Test what the loop changes.")
    return Evidence(
        f"the loop is {loops[0]}",
        "Work out its variable for a few iterations: does the step move it, and does it reach the end, and how soon?",
    )


def waits_by_changing(seen: Recording) -> Evidence | None:
    """Of a race: a program waits for a counter by an atomic that changes it."""
    for a in seen.accesses:
        text = statements.statement(seen.lines(a.filename), a.line) if a.kind == "atomic" else ""
        call = re.search(r"\batomic_(add|max|or)\(([^,()]+), *([^,()]+)", text)
        if not text.startswith("while ") or call is None or call[3].strip() == "0":
            continue
        return Evidence(
            f"the loop on line {a.line}, `{statements.shortened(text)}`, changes the counter that it waits for, so "
            "programs that wait end the wait themselves, before what they wait for is there",
            f"Look at the counter with an atomic that changes nothing: tl.atomic_add({call[2].strip()}, 0).",
        )
    return None


def raised_early(array: str, seen: Recording) -> Evidence | None:
    """Of a race: a program raises its counters before it changes the array, before its threads have met, or by an
    atomic that orders nothing."""
    by_program: dict[tuple[int, ...], list[Access]] = {}
    for a in seen.accesses:
        by_program.setdefault(a.program, []).append(a)
    for place, own in by_program.items():
        # counter and array may be parts of one tensor
        tiles = {e for a in own if a.array == array and len(a.elements) > 1 for e in a.elements}
        counters = [k for k, a in enumerate(own) if a.kind == "atomic" and len(a.elements) == 1
                    and (a.array != array or tiles and a.elements[0] not in tiles)]  # fmt: skip
        changes = [k for k, a in enumerate(own) if a.array == array and a.kind != "load" and a.elements
                   and k not in counters]  # fmt: skip
        if not changes or not counters:
            continue
        raised, changed = own[counters[-1]], own[changes[-1]]
        text = statements.statement(seen.lines(raised.filename), raised.line)
        what = f"{_who(place)} raises the counter {raised.array} on line {raised.line}, `{statements.shortened(text)}`"
        if counters[-1] < changes[-1]:
            return Evidence(
                f"{what}, before it changes {array} on line {changed.line}",
                f"Who sees the counter reads {array} too early: move line {raised.line} behind line {changed.line}.",
            )
        if "relaxed" in text:
            return Evidence(
                f"{what}, and a relaxed atomic orders nothing",
                f'Leave out sem="relaxed" on line {raised.line}: what was changed before it must be visible with it.',
            )
        met = any(a.kind == "barrier" for a in own[changes[-1] : counters[-1]])
        if len(changed.elements) > 1 and not met:
            return Evidence(
                f"{what}: one thread does so, while others may still have to change {array} (line {changed.line})",
                f"All threads of the program must have met before one of them counts: which barrier stands between "
                f"line {changed.line} and line {raised.line}?",
            )
    return None


UNWAITED = {
    "does not lie in shared memory": "Work out the address of that tile for the largest indices. p + n goes n elements "
    "of p's type further, not n bytes.",
    "do not fit into shared memory there": "Work out the address of that box for the largest indices, and the bytes of "
    "shared memory that are asked for. p + n goes n elements of p's type further, not n bytes.",
    "begins at a multiple of": "Work out the address of that box for each stage and part: which term is no multiple?",
    "which nobody has filled": "Either no copy fills that tile, or another tile is meant: compare the address there "
    "with the one that the copy fills.",
    "different products": "No thread of the group may leave out or change a call of wgmma: look at the conditions and "
    "the addresses, which may depend on the thread only by its group.",
    "than it was made for|it was made for": "Compare the count in mbarrier_init with the threads that arrive in each "
    "phase: a condition on the thread may be missing around the arrival.",
    "a wgmma, started and not waited for": "Which stage is given back there, and have the products that read it been "
    "waited for? wgmma_wait<1> lets the latest batch run on.",
    "other warps' products": "Each warp waits for its own part of the products only: let all four meet, or count an "
    "arrival of each, before the tile is overwritten.",
}
"""What to try where a copy, a product or an mbarrier is used the wrong way, by words of the emulator's report."""


def unwaited(message: str, line: int, sources: list[str]) -> Evidence | None:
    """Of an access to what is still under way: whether a wait, a commit or the choice of the buffer is wrong."""
    if advice := next((text for words, text in UNWAITED.items() if re.search(words, message)), None):
        return Evidence("", advice)
    source = next((s for s in sources if statements.line_of(s, line)), "")
    commits = _calls(source, "__pipeline_commit", "cp_async_commit")
    waits = _calls(source, "__pipeline_wait_prior", "cp_async_wait")
    if "asynchronous copy" not in message or not commits or not waits:
        return None
    listed = "; ".join(map(str, waits))
    skipped = [c for c in commits if statements.condition(source, c)]
    if "let it go on" in message and skipped:
        return Evidence(
            f"{skipped[0]} stands under {statements.condition(source, skipped[0])}",
            f"A wait counts groups, the latest first ({listed}). Where no group is committed, the copy that is needed "
            "is among the latest ones: commit in each iteration, also a group without copies.",
        )
    if "let it go on" in message:
        return Evidence(
            "",
            f"Count the groups for the first and the last iterations: how many are committed after the copy that is "
            f"needed, and how many may still be under way ({listed})?",
        )
    if "no wait since" in message:
        return Evidence(
            "",
            f"Is it the copy for a later iteration? Then it goes into a buffer that is still read: work out, for three "
            f"iterations, which buffer is filled and which is read. If it is the copy that is read here, a wait and a "
            f"barrier are missing in between ({listed}).",
        )
    return None


WAITS = re.compile(
    r"(\d+) threads? waits? at mbarrier_wait for the end of a phase of parity (\d)[^;]*? lacks (\d+) arrivals? and "
    r"(-?\d+) bytes(?:, after (\d+) phases?)?"
)
"""What the emulator reports of threads that wait at an mbarrier."""


def stuck(message: str, line: int, sources: list[str]) -> Evidence | None:
    """Of a deadlock at mbarriers: what is missing, and the lines that should supply it. `line` is that of the first
    wait that the message names."""
    waits = [tuple(int(x or -1) for x in m) for m in WAITS.findall(message)]
    source = next((s for s in sources if "mbarrier_wait" in s), "")
    if not waits or not source:
        return None
    lines = _calls(source, "mbarrier_wait")
    listed = "; ".join(map(str, lines))
    inits = "; ".join(map(str, _calls(source, "mbarrier_init")))
    arrivals = "; ".join(map(str, _calls(source, "mbarrier_arrive", "mbarrier_expect")))
    if more := next((w for w in waits if w[3]), None):
        return Evidence(
            f"a phase still expects {abs(more[3])} bytes, and no copy is in flight",
            f"The bytes that are expected must be those that the copies of a phase bring: {arrivals}.",
        )
    names = {x.number: m[1] for x in lines if (m := re.search(r"mbarrier_wait\(&?(\w+)", x.text))}
    order = [names.get(line, ""), *(name for number, name in names.items() if number != line)]
    wanted = dict(re.findall(r"mbarrier_init\(&?(\w+)[^,;]*,\s*(\d+)\)", source))
    for (_, _, lacks, *_), name in zip(waits, order, strict=False):
        count = int(wanted.get(name, 0))
        if 0 < lacks < count:
            return Evidence(
                f"{count - lacks} of the {count} arrivals at {name} have come, and the others never do",
                f"Compare the count of {name} with the threads that arrive in each phase: {inits}; {arrivals}.",
            )
    if of_text := _set_back(source, lines) or _given_back_early(source, lines):
        return of_text
    if len(waits) > 1:
        return Evidence(
            _phases({name: w[4] for name, w in zip(order, waits, strict=False) if name})
            or "nobody arrives any more in the phases that they wait for, so each side waits for the other",
            f"Go through the first rounds of the ring by hand. Which stage does each line give back, and have its "
            f"readers finished then ({arrivals})? How many threads arrive in a round, and how many does {inits} ask "
            f"for (more would end further phases)? Which parity does each wait need ({listed})?",
        )
    return Evidence(
        f"the other threads have gone on or returned, and none arrives any more ({arrivals or 'no line arrives'})",
        f"Each wait ({listed}) needs one phase that ends: do both sides run through the same number of rounds, and is "
        "every stage released?",
    )


def _set_back(source: str, waits: list[statements.Line]) -> Evidence | None:
    """One side of a ring sets stage and parity back for each tile, and the other goes on around the ring."""
    for wait in waits:
        around = statements.loops(source, wait.number)
        names = re.findall(r"\w+", wait.text.split("mbarrier_wait", 1)[-1])
        if len(around) < 2:
            continue
        (inner, _), (outer, end) = around[0], around[-1]
        for number in range(outer + 1, inner):
            line = statements.line_of(source, number)
            back = line and re.match(r"(\w+)\s*=\s*0\b", line.text)
            other = next((w for w in waits if not outer <= w.number <= end), None)
            if back and back[1] in names and other:
                return Evidence(
                    f"{line} sets {back[1]} back in each iteration of {statements.line_of(source, outer)}, and the "
                    f"side of {other} goes on around the ring",
                    "Both sides must be at the same stage and parity in each round: let them go on from tile to tile.",
                )
    return None


def _given_back_early(source: str, waits: list[statements.Line]) -> Evidence | None:
    """A stage is given back in the iteration that started its products, of which the latest batch may still run."""
    lines = [re.sub(r"//.*$", "", text) for text in source.splitlines()]
    for wait in waits:
        index = re.search(r"mbarrier_wait\(&?\w+\[(\w+)\]", wait.text)
        around = statements.loops(source, wait.number)
        if not index or not around:
            continue
        stage, partly = index[1], None
        for number in range(wait.number + 1, around[0][1]):
            text = lines[number - 1]
            if re.search(rf"\b{stage}\s*(\+\+|[-+^]?=[^=])|\+\+{stage}\b|\bnext_\w+\(", text):
                break
            if re.search(r"wgmma_wait<[1-9]", text):
                partly = statements.Line(number, text.strip())
            gives = re.search(rf"\b(?:release|mbarrier_arrive)\w*\([^;]*\b{stage}\b", text)
            if partly and gives:
                return Evidence(
                    f"line {number}: `{statements.shortened(text)}` gives {stage} back, the stage of the latest batch, "
                    f"which {partly} lets run on",
                    "Give back the stage whose products have been waited for: that of the batch before.",
                )
    return None


AHEAD = 2
"""Phases by which one mbarrier of a ring's stage is ahead of the other at most."""


def _phases(ended: dict[str, int]) -> str:
    """What the numbers of phases say of two mbarriers that wait for each other; "" where they fit."""
    if len(ended) != 2 or min(ended.values()) < 0:
        return ""
    (few, less), (many, more) = sorted(ended.items(), key=lambda x: x[1])
    if more - less > AHEAD:
        ended_by = f"{many} has ended {more} phases and {few} only {less}"
        return f"{ended_by}, so more threads arrive at {many} than it was made for"
    if less == 0:
        return f"no phase of {few} has ended since the start, so what it stands for has never been given on"
    return ""


def _calls(source: str, *names: str) -> list[statements.Line]:
    """The lines of a CUDA C++ text that call one of these functions."""
    return [
        statements.Line(number, line.strip())
        for number, line in enumerate(source.splitlines(), 1)
        if any(f"{name}(" in line for name in names)
    ]
