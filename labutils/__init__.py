"""GPU Kernel Lab's helpers for notebooks: `import labutils as lab`.

`lab.setup()` shows the device, `lab.tiny()` a small case, `lab.check()` checks an exercise. Modules with more:
`lab.compare`, `lab.device`, `lab.exercise`, `lab.inputs`.
"""

from . import device
from .backends import interpreter as _interpreter

__version__ = "0.1.0"

if not device.has_gpu():
    _interpreter.prepare()

from .check import check, tiny  # noqa: E402  (the interpreter must be prepared before anything imports triton)


def access_map(fn, *arguments, title: str = ""):
    """A picture of which elements each program of `fn(*arguments)` loads and stores, and which lanes are masked off."""
    from . import plots, trace

    try:
        return plots.access_map(trace.trace(fn, *arguments), title)
    except (trace.TraceFailed, _interpreter.Unavailable) as e:
        print(f"No picture: {e}")


def benchmark(exercise_id: str, fn=None):
    """Time the learner's function beside the library and a plain copy; without a GPU say why not, and count instead."""
    from . import bench

    return bench.benchmark(exercise_id, fn)


def setup() -> None:
    """Print the device card: what this notebook's kernels will run on, and what that means."""
    print(device.card())
    if not device.has_gpu():
        try:
            _interpreter.require()
        except _interpreter.Unavailable as e:
            print(e)


__all__ = ["access_map", "benchmark", "check", "device", "setup", "tiny"]
