"""Films of small launches: what every warp, or every Triton program, did, in the order in which it was run here.

The emulator and the interpreter make them, in one form (frames.py), and `plots/theater.py` shows them.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from ...gpu import device
from .. import child, emulator, trace
from ..extract import NotExtractable
from .filming import filmed
from .frames import Film, FilmedArray, Frame, Mbarrier, NotFilmed, SharedVariable

__all__ = ["Film", "FilmedArray", "Frame", "Mbarrier", "NotFilmed", "SharedVariable", "film"]

TIME_LIMIT = 20.0


def film(fn: Callable, *arguments) -> Film:
    """Call `fn(*arguments)` on copies of the tensors, in another process, and film its first launch.

    Raises NotFilmed.
    """
    shared: dict[tuple, torch.Tensor] = {}
    copies = tuple(emulator.copied(a, shared) for a in arguments)
    result = next(child.fork([lambda: filmed(fn, copies)], TIME_LIMIT))
    if (isinstance(result, str) or "failed" in result) and device.has_gpu():  # Triton runs compiled in this process
        result = _interpreted(fn, copies) or result
    if isinstance(result, str):
        raise NotFilmed(child.end(result).message)
    if "failed" in result:
        raise NotFilmed(result["failed"])
    return Film.from_json(result)


def _interpreted(fn: Callable, arguments: tuple) -> dict | None:
    """Film in a process whose Triton interprets; None if the call cannot be made there."""
    plain = [a for a in arguments if isinstance(a, torch.Tensor | int | float | str | bool | None)]
    if len(plain) < len(arguments):
        return None
    try:
        return trace.elsewhere(f"{__name__}.filming", fn, trace.names_of(fn, len(arguments)), plain)
    except NotExtractable as e:
        return {"failed": str(e)}
