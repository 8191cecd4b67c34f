"""Every access of a call in either language, for an access map: by Triton's recorder, or from a CUDA C++ film."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from .. import trace
from ..extract import NotExtractable
from ..interpreter import Unavailable
from . import film
from .frames import Film, NotFilmed

ACCESSES = ("load", "store", "atomic")


def accesses(fn: Callable, *arguments) -> trace.Trace:
    """Call `fn(*arguments)` on copies of the tensors: the accesses of its Triton launches, or, where it has none, those
    of its first CUDA C++ launch.

    Raises TraceFailed when the learner's code fails, `backends.interpreter.Unavailable` where Triton cannot run.
    """
    try:
        seen = trace.trace(fn, *arguments)
        if seen.events:
            return seen
        problem: Exception = trace.TraceFailed("the call accesses none of its arrays")
    except (trace.TraceFailed, Unavailable, NotExtractable) as e:
        problem = e
    try:
        made = film(fn, *arguments)
    except NotFilmed:
        raise problem from None
    if not made.threads:  # Triton, of which the recorder has said why there is no trace
        raise problem
    return of_film(made)


def of_film(made: Film) -> trace.Trace:
    """The accesses to global memory in the film of a CUDA C++ launch; arrays have their names in the kernel."""
    events, counts = [], Counter(load_bytes=0, store_bytes=0, masked_lanes=0)
    for f in made.frames:
        if f.operation in ACCESSES and f.array in made.arrays:
            item = made.arrays[f.array].itemsize
            elements = tuple(e for o in f.offsets for e in range(o // item, -(-(o + f.size) // item)))
            events.append(trace.Event(f.operation, f.array, f.block, elements, item))
            counts["load_bytes"] += f.size * len(f.offsets) * (f.operation != "store")
            counts["store_bytes"] += f.size * len(f.offsets) * (f.operation != "load")
    inside = {name: (True,) * (a.bytes // a.itemsize) for name, a in made.arrays.items()}
    return trace.Trace(tuple(events), inside, dict(counts), made.messages, "block")
