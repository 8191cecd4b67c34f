"""Why a right kernel misses a count: the line and the access that cost most, and which lanes go where.

The counted case runs again in a child, once counted by source line and once with every request of a warp written to a
file. Only for kernels that pass and miss a bound.
"""

from __future__ import annotations

import functools
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from ..backends import TIME_LIMIT, child, emulator
from ..backends.film import stream
from ..gpu.device import SECTOR
from ..spec.bounds import Bound
from ..spec.exercise import KernelExercise
from ..spec.inputs import Run, make_run
from . import figures, lane_patterns, names, statements
from .statements import shortened

MOST_REQUESTS = 400_000
"""Requests of a case that are looked at for their lanes."""


def reasons(exercise: KernelExercise, fn: Callable, counts: Mapping[str, Any], missed, seed: int) -> dict[str, str]:
    """For each missed bound, by its text, the line and access that cost most and one thing to try."""
    case = next((c for c in exercise.cases if c.name == counts.get("case")), None)
    if case is None or not missed:
        return {}
    bounds = {b.text: b.missed(counts) for b in missed}
    if exercise.language == "triton":
        lines = _run(lambda: figures.triton_lines(fn, make_run(exercise, case, seed)))
        texts = names.texts(fn)
        said = {text: _moved(b, lines or [], counts, texts) for text, b in bounds.items()}
    else:
        job = functools.partial(_accesses, fn, make_run(exercise, case, seed))
        seen = _run(job)
        if not seen:
            return {}
        patterns = _run(functools.partial(_patterns, fn, make_run(exercise, case, seed))) or {
            "requests": [],
            "steps": [],
        }
        outputs = {n: b.view.numel() * b.view.element_size() for n, b in make_run(exercise, case, seed).buffers.items()
                   if b.is_output}  # fmt: skip
        again = _stored_again(seen, outputs)
        said = {text: _of_cuda(b, seen, patterns, counts, again) for text, b in bounds.items()}
    return {text: why for text, why in said.items() if why}


def _run(job: Callable[[], Any]) -> Any:
    result = next(child.fork([job], TIME_LIMIT), None)
    return None if isinstance(result, str) else result


# --- in the child --------------------------------------------------------------------------------------------------


def _accesses(fn: Callable, run: Run) -> dict:
    """Counts by line, and by access of each line: [line, text, ...]."""
    _, launched = emulator.case_by_launch(fn, run, TIME_LIMIT)
    lines, accesses = [], []
    for launch in launched:
        text = launch.kernel.module.source.splitlines()
        at = lambda n, text=text: text[n - 1].strip() if 0 < n <= len(text) else ""  # noqa: E731
        lines += [{**row, "text": at(row["line"])} for row in launch.lines]
        shared = re.findall(r"__shared__[^;(]*?\b(\w+)\s*\[", launch.kernel.module.source)
        accesses += [{**vars(a), "text": at(a.line), "name": _name(a, at(a.line), shared)} for a in launch.accesses]
    sources = list(dict.fromkeys(launch.kernel.module.source for launch in launched))
    return {"lines": lines, "accesses": accesses, "sources": sources}


def _name(access, text: str, shared: list[str]) -> str:
    """The array that a message names: of shared memory the only one that the line indexes, if there is one."""
    if access.array:
        return access.array
    here = {name for name in shared if re.search(rf"\b{name}\s*\[", text)}
    return here.pop() if len(here) == 1 else "shared memory"


def _patterns(fn: Callable, run: Run) -> dict:
    """For each access (line, operation, array, bytes) the request that costs most, by lane; and the masks of active
    lanes by line, the most frequent first."""
    with tempfile.TemporaryFile() as file:
        launched = emulator.traced_case(fn, run, TIME_LIMIT, file.fileno())
        file.seek(0)
        worst: dict[tuple, tuple] = {}
        steps: Counter = Counter()
        for number, (launch, pc, operation, lanes, array, size, base, offsets) in enumerate(
            stream.launch_records(file, [one.arrays for one in launched])
        ):
            if number >= MOST_REQUESTS:
                break
            if operation == "step":
                steps[launch, pc, lanes] += 1
                continue
            key = (launch, pc, operation, array, size)
            cost = lane_patterns.cost(array, size, base, offsets)
            if key not in worst or cost > worst[key][0]:
                worst[key] = (cost, lanes, base, offsets)
    of = [one.line_of({pc for k, pc, *_ in [*worst, *steps] if k == n}) for n, one in enumerate(launched)]
    requests = [
        [of[k].get(pc, 0), operation, array, size, cost, lanes, base, list(offsets)]
        for (k, pc, operation, array, size), (cost, lanes, base, offsets) in worst.items()
    ]
    return {"requests": requests, "steps": [[of[k].get(pc, 0), m, n] for (k, pc, m), n in steps.most_common()]}


# --- sentences -----------------------------------------------------------------------------------------------------


def _stored_again(seen: dict, outputs: dict[str, int]) -> dict[int, str]:
    """Of outputs of which more is stored than there is: what to say of each line that takes part. `outputs`: bytes."""
    said = {}
    for name, size in outputs.items():
        rows = [a for a in seen["accesses"] if a["array"] == name and a["operation"] == "store"]
        stored = sum(a["bytes"] for a in rows)
        if stored <= 1.01 * size:
            continue
        loops = []
        for source in seen["sources"]:
            for a in rows:
                here = statements.line_of(source, a["line"])
                if here is not None and here.text == a["text"]:
                    loops += statements.enclosing_loops(source, a["line"])[:1]
        where = "; ".join(f"line {a['line']} stores {a['bytes']:,} bytes" for a in rows[:3])
        check = f": check the first index, the step and the end of {'; '.join(map(str, dict.fromkeys(loops)))}"
        check = check if loops else ""
        for a in rows:
            said[a["line"]] = (
                f"{name} has {size:,} bytes, and {stored:,} are stored to it ({where}): elements are stored more than "
                f"once. Try: let one thread, and one iteration of it, store each element{check}."
            )
    return said


def _of_cuda(bound: Bound, seen: dict, patterns: dict, counts: Mapping[str, Any], again: dict[int, str]) -> str:
    space, _, rest = bound.count.partition("_")
    way, _, unit = rest.partition("_")
    if space in ("global", "shared") and way in ("load", "store") and bound.count != "shared_bytes":
        return _of_access(bound, space, way, unit, seen["accesses"], patterns["requests"], again)
    if bound.count in ("divergent_branches", "lanes"):
        return _of_lanes(bound, seen["lines"], patterns["steps"])
    if bound.count in _WRITTEN:
        return _written(bound, seen["sources"])
    if bound.count == "atomics":
        return _of_atomics(seen["accesses"])
    if bound.count == "moved_bytes":
        return _moved(bound, [[row["line"], row["text"], row] for row in seen["lines"]], counts)
    return ""


def _of_access(bound, space: str, way: str, unit: str, accesses: list[dict], requests: list, again) -> str:
    ways = (way, "atomic", "copy") if way == "load" else (way, "atomic")
    rows = [a for a in accesses if a["space"] == space and a["operation"] in ways]
    if unit == "bytes" and bound.at_least is not None:
        rows = [a for a in rows if a["bytes"] < bound.at_least * a["requests"]]
    costs: dict[str, Callable[[dict], float]] = {
        "sectors": lambda a: a["sectors"] - a["ideal_sectors"],
        "wavefronts": lambda a: a["wavefronts"] - a["ideal_wavefronts"],
        "bytes": lambda a: a["requests"] if bound.at_least is not None else a["bytes"],
        "requests": lambda a: a["requests"],
        "total": lambda a: a["sectors"],
    }
    cost = costs.get(unit, costs["requests"])
    if unit == "sectors" and bound.per != f"{space}_{way}_requests":  # a total: what is accessed again costs, too
        cost = costs["total"]
    a = max(rows, key=cost, default=None)
    if a is None:
        return ""
    if (
        cost(a) <= 0 or unit == "sectors" and a["sectors"] < 1.5 * a["ideal_sectors"]
    ):  # nothing is wasted by an access: there are too many of them
        unit, a = "requests", max(rows, key=lambda a: (a["sectors"] or a["bytes"], a["requests"]))
    name = a["name"]
    doing = {"load": f"the load of {name}", "store": f"the store to {name}", "copy": f"the copy of {name}"}
    what = f"Line {a['line']}, `{shortened(a['text'])}`: {doing.get(a['operation'], f'the atomic on {name}')}"
    if name == "shared memory":
        what = what.replace("load of", "load from").replace("atomic on", "atomic in")
    worst = [r for r in requests if r[0] == a["line"] and r[2] == (a["array"] or "shared") and r[3] == a["size"]
             and (r[1] == a["operation"] or a["operation"] == "copy")]  # fmt: skip
    lanes = max(worst, key=lambda r: r[4], default=None)
    per, bytes_each = a["requests"], a["bytes"] / a["requests"]
    if a["line"] in again and space == "global" and unit in ("bytes", "requests", "total"):
        return f"{what}; {again[a['line']]}"
    if unit == "sectors":
        figure = f"has {a['sectors'] / per:.3g} sectors per request; its bytes need {a['ideal_sectors'] / per:.3g}"
        why = lane_patterns.of_memory(lanes[5], lanes[6], lanes[7], a["size"]) if lanes else ""
    elif unit == "wavefronts":
        figure = f"has {a['wavefronts'] / per:.3g} wavefronts per request; {a['ideal_wavefronts'] / per:.3g} would do"
        why = lane_patterns.of_banks(lanes[5], lanes[7], a["size"]) if lanes else ""
    elif unit == "bytes" and bound.at_least is not None:
        figure = f"moves {bytes_each:.3g} bytes per request, {a['size']} bytes per lane"
        why = lane_patterns.of_width(a["size"], a["lanes"] / per)
    else:
        figure = f"makes {per:,} requests, {a['bytes']:,} bytes in all, the most of this kind"
        why = "Try: do it once for each element, and keep what is needed again in registers or shared memory."
    return f"{what} {figure}. {why}".rstrip()


_WRITTEN = {
    "barriers": ("__syncthreads()", "keep only barriers between a write to shared memory and a read or a write of the "
                 "same elements by another warp"),
    "shared_bytes": ("__shared__", "declare only what threads exchange, with rows as long as the data"),
    "square_roots": ("sqrt", "compute each side of the branch only in the warps that use its result"),
    "wgmma_drains": ("wgmma_wait<", "in a loop wait for all batches except the latest, so that the tensor cores have "
                     "work while the threads wait; wait for all batches only before the accumulators are read"),
}  # fmt: skip
"""Counts that stand in the text: the word that makes them, and what to try."""


def _written(bound: Bound, sources: list[str]) -> str:
    """Of what is counted where it is written: the lines, and the loops around them."""
    word, advice = _WRITTEN[bound.count]
    found = []
    for source in sources:
        for number, text in enumerate(source.splitlines(), 1):
            if word in text and not text.lstrip().startswith("//"):
                loops = [x for x in statements.enclosing_loops(source, number) if bound.count != "shared_bytes"]
                inside = f" (in the loop of line {loops[0].number})" if loops else ""
                found.append(f"line {number}, `{shortened(text, 60)}`{inside}")
    return f"They come from {'; '.join(found[:6])}. Try: {advice}." if found else ""


def _of_atomics(accesses: list[dict]) -> str:
    a = max((a for a in accesses if a["operation"] == "atomic"), key=lambda a: a["lanes"], default=None)
    if a is None:
        return ""
    lanes = a["lanes"] / a["requests"]
    each = f"{lanes:.3g} lanes of a warp each" if lanes > 1 else "one lane of a warp each"
    return (
        f"Line {a['line']}, `{shortened(a['text'])}`: {a['lanes']:,} atomics on {a['name']} in {a['requests']:,} "
        f"requests, {each}. Try: add up within the block first, and let one thread of it execute the atomic."
    )


def _of_lanes(bound: Bound, lines: list[dict], steps: list) -> str:
    divergent = bound.count == "divergent_branches"
    cost = (lambda r: r["divergent_branches"]) if divergent else (lambda r: r["lane_slots"] - r["lanes"])
    row = max(lines, key=cost, default=None)
    if row is None or cost(row) <= 0:
        return ""
    if divergent:
        figure = f"{row['divergent_branches']:,} of {row['branches']:,} branches diverge there"
    else:
        figure = f"{row['lanes'] / row['lane_slots']:.0%} of its lanes are active"
    partial = [m for line, m, _ in steps if line == row["line"] and lane_patterns.split(m)]
    partial = partial or [m for _, m, _ in steps if lane_patterns.split(m)]
    why = lane_patterns.of_mask(partial[0]) if partial else ""
    part = max(lines, key=lambda r: r["divergent_branches"])
    if not divergent and part["divergent_branches"] and part["line"] != row["line"]:
        figure += f"; most warps part on line {part['line']}, `{shortened(part['text'])}`"
    return f"Line {row['line']}, `{shortened(row['text'])}`: {figure}. {why}".rstrip()


def _moved(bound: Bound, lines: list, counts: Mapping[str, Any], texts: list[tuple[int, str]] = ()) -> str:
    """Of bytes that move more often than they must: the lines that move most of them."""
    if bound.count not in ("moved_bytes", "wave_load_sectors", "global_store_sectors", "atomics"):
        return ""
    wanted = {"global_store_sectors": ("store",), "wave_load_sectors": ("load",), "atomics": ("atomic",)}
    ways = wanted.get(bound.count, ("load", "store", "atomic"))
    rows = sorted(
        ((sum(c.get(f"global_{way}_bytes", 0) for way in ways), n, text) for n, text, c in lines), reverse=True
    )
    listed = "; ".join(f"line {n}, `{shortened(text, 80)}`: {size:,} bytes" for size, n, text in rows[:3] if size and n)
    if not listed:
        return ""
    if bound.count == "wave_load_sectors":
        return (
            f"Most move on {listed}. Programs that run at the same time read a sector only once: give neighboring "
            "program numbers tiles that share rows or columns of the inputs, in both directions."
        )
    must = f"{counts['compulsory_read']:,} bytes must be read and {counts['compulsory_written']:,} written"
    loops = [h for size, n, _ in rows[:3] if size and (h := statements.python_loop(texts, n))]
    repeated = ""
    if loops:
        made = "".join(f"; {line}" for line in statements.bounds_of(texts, loops[0])[:4])
        repeated = f"leave out iterations that change no result (where does {loops[0]} begin and end{made}?), "
    return (
        f"Most move on {listed}; {must}. Try: {repeated}load on one line what two of these load, or store no "
        f"intermediate result, and access whole sectors of {SECTOR} bytes."
    )
