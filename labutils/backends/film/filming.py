"""Films a call in the process that it runs in: a child, or, on a machine with a GPU, one whose Triton interprets."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from ... import cuda
from .. import child, emulator, interpreter, trace
from . import emulated
from .frames import Film
from .interpreted import Camera


def filmed(fn: Callable, arguments: tuple) -> dict:
    """The film of the call's first launch, of CUDA C++ or of Triton, as JSON; or why there is none."""
    films: list[Film] = []
    camera = Camera()

    def launch(kernel: cuda.Kernel, grid, block, shared: int, values: tuple) -> None:
        if not films and camera.kernel is None:
            films.append(emulated.launched(kernel, grid, block, shared, values))

    with contextlib.ExitStack() as stack:
        stack.enter_context(cuda.redirected(launch))
        if interpreter.ready():
            stack.enter_context(interpreter.recording(camera, camera.begin, follow_pointers=True))
        attempt = child.attempt(fn, arguments)
    if camera.frames and not films:
        early = attempt.problem if attempt.problem and not camera.ended else None
        films.append(camera.film([early.message] if early else []))
    if not films:
        return {"failed": attempt.problem.message if attempt.problem else "the call launches no kernel"}
    return films[0].to_json()


def record(fn: Callable, names: list[str], arguments: list) -> dict:
    """`filmed`, as `trace.serve` calls it."""
    shared: dict = {}
    return filmed(fn, tuple(emulator.copied(a, shared) for a in arguments))


if __name__ == "__main__":
    trace.serve(record)
