"""GPU Kernel Lab's helpers for notebooks: `import labutils as lab`.

`lab.setup()` shows the device, `lab.tiny()` a small case, `lab.check()` checks an exercise. `lab.hint()` gives a hint,
`lab.explain()` says what a kernel does, `lab.walkthrough()` shows a solution, `lab.claims()` asks for predictions,
`lab.progress()` says what you have done. Modules with more: `lab.device`, `lab.exercise`, `lab.inputs`, `lab.roofline`.
"""

import functools
import importlib

from . import support as _support

_support.require()  # before anything that needs torch

# Nothing below imports PyTorch, unless a GPU's driver is here: it takes a second, and not every process that imports
# labutils runs a kernel.
from . import check as _check  # noqa: F401  (now: the first import of this package would hide the function below)
from . import cuda, environment
from .backends import bootstrap as _bootstrap  # noqa: F401  (before anything that imports Triton)
from .cuda.alignment import aligned, padded
from .cuda.kernel import use_emulator as _use_emulator
from .gpu import device

__version__ = "0.1.0"


def _for_readers(show):
    """Skip it while a class is graded: nobody looks there, and it costs minutes or, if a kernel never ends, the GPU."""

    @functools.wraps(show)
    def shown(*args, **kwargs):
        if environment.grading_in_progress():
            print(f"{show.__name__}: skipped while grading")
            return None
        return show(*args, **kwargs)

    return shown


def _emulator():
    from .backends import emulator

    return emulator


_use_emulator(_emulator)  # without a GPU `lab.cuda` launches there; it is loaded for the first kernel


def check(exercise_id: str, fn=None) -> float:
    """Check `fn` (by default the notebook's function of the exercise's name), print the report, return the points."""
    from .check.check import check as checked

    return checked(exercise_id, fn, _remember)


def _remember(exercise, verdict) -> None:
    """After a check: progress, and where to look further."""
    from .study import explain, progress, walkthroughs

    progress.note(exercise, verdict)
    for offer in (explain.offer, walkthroughs.offer):
        offered = offer(exercise, verdict)
        if isinstance(offered, str):
            print(offered, end="\n" if offered else "")
        else:
            from IPython.display import display

            display(offered)


@_for_readers
def tiny(exercise_id: str, fn=None) -> None:
    """Print inputs, yours and expected of the exercise's tiny case side by side."""
    from .check.check import tiny as show

    show(exercise_id, fn)


@_for_readers
def explain(exercise_id: str, fn=None):
    """A card on your kernel beside the reference solution: what it moves, what the compiler made of it, what to change.

    `fn` is by default the notebook's function of the exercise's name. Needs no GPU.
    """
    from .study.explain import explain as explained

    return explained(exercise_id, fn)


@_for_readers
def evidence(exercise_id: str, fn=None) -> None:
    """What a kernel with a bug does in each case: which cases fail, and where. The cause is yours to find."""
    from .study.hunt import evidence as show

    show(exercise_id, fn)


@_for_readers
def play(fn, *arguments):
    """The first launch of `fn(*arguments)` as a film: step through what every warp, or every Triton program, does.

    For small launches: it runs in the emulator or the interpreter, on copies. `.save("film.html")` writes a page for
    any browser.
    """
    from .backends import film
    from .plots.theater import Theater

    try:
        return Theater(film.film(fn, *arguments))
    except film.NotFilmed as e:
        print(f"No film: {e}")


@_for_readers
def hint(exercise_id: str) -> None:
    """Print the next hint for an exercise; which ones you have seen is remembered."""
    from .study.hints import hint as show

    show(exercise_id)


@_for_readers
def walkthrough(name: str, anyway: bool = False):
    """A solution, why it is written so, and the next exercise: for a solved exercise, or `anyway`.

    With the name of a unit, such as "06_elementwise_triton": model answers to its questions.
    """
    from .study.walkthroughs import walkthrough as show

    return show(name, anyway)


@_for_readers
def claims(unit: str, **predicted: float) -> None:
    """A two-minute quiz: claims of a unit with a number left out. Predict each, then have it counted.

    In a notebook it has boxes and buttons; anywhere, `lab.claims(unit, name=prediction)` answers the card `name`.
    """
    from .study.claims import quiz

    if (cards := quiz(unit, **predicted)) is None:
        return
    try:
        from IPython import get_ipython
        from IPython.display import display
    except ImportError:
        print(cards)
        return
    if get_ipython() is None:
        print(cards)
    else:
        display(cards)


@_for_readers
def progress():
    """Exercises done, points, and what comes next: from one file on this machine, which nobody else reads."""
    from .study.progress import progress as known

    return known()


@_for_readers
def access_map(fn, *arguments, title: str = ""):
    """A picture of which elements each program of `fn(*arguments)` loads and stores, and which lanes are masked off.

    Of CUDA C++: which elements each block of the first launch loads and stores. The first 1024 elements are drawn.
    """
    from . import plots
    from .backends import interpreter
    from .backends.extract import NotExtractable
    from .backends.film.accesses import accesses
    from .backends.trace import TraceFailed

    try:
        return plots.access_map(accesses(fn, *arguments), title)
    except (TraceFailed, NotExtractable, interpreter.Unavailable, plots.Unavailable) as e:
        print(f"No picture: {e}")


@_for_readers
def coalescing(offset, width: int = 4, title: str = ""):
    """A picture of one global access of a warp: lane k touches `width` bytes from *byte* `offset(k)` on.

    `offset` is a function of the lane, in bytes, not in elements: `lambda lane: 4 * lane` for x[lane] of 4 bytes.
    """
    from . import plots

    return plots.coalescing(offset, width, title)


@_for_readers
def banks(offset, width: int = 4, title: str = ""):
    """A picture of one shared-memory access of a warp: lane k touches `width` bytes from *byte* `offset(k)` on.

    `offset` is a function of the lane, in bytes, not in elements: `lambda lane: 4 * 32 * lane` for `tile[lane][0]` of a
    float tile with rows of 32.
    """
    from . import plots

    return plots.banks(offset, width, title)


def record():
    """`with lab.record() as r:` counts every access of the launches inside: `r.totals()`, `r.findings`."""
    from .backends import recording

    return recording.record()


@_for_readers
def annotate(kernel) -> None:
    """Print the source of a CUDA C++ kernel's last recorded launch with what each line costs. Takes a launcher, too."""
    from .backends.recording import annotate as show

    show(kernel)


@_for_readers
def benchmark(what, *arguments, **options):
    """Time on the GPU; without one say why not, and count instead.

    `lab.benchmark("unit/exercise", fn)` times an exercise's function beside the library and a plain copy.
    `lab.benchmark(fn, x, y, bytes=…, flops=…, precision="fp16")` times `fn(x, y)`: all but `fn` may be left out.
    """
    from .timing import benchmark as of_exercises
    from .timing import measure

    return (of_exercises if isinstance(what, str) else measure).benchmark(what, *arguments, **options)


@_for_readers
def compare(*arguments, **functions):
    """`lab.compare(x, mine=f, library=g)` times f(x) and g(x) in turns: which is faster, and how sure is that?"""
    from .timing import measure

    return measure.compare(*arguments, **functions)


@_for_readers
def ceilings():
    """Bandwidths and matmul rates that this GPU reaches: measured once, then cached."""
    from .timing.ceilings import ceilings as measured

    return measured()


@_for_readers
def profile(fn, *arguments, **options):
    """Which kernels `fn(*arguments)` runs on the GPU, what their names say, what each takes; `.timeline()` draws."""
    from .timing import profiling

    return profiling.profile(fn, *arguments, **options)


def tensor_map(tensor, box, swizzle: int = 0):
    """A kernel's `CUtensorMap`: a matrix that Hopper copies in boxes of (rows, columns), with an optional swizzle."""
    from .cuda.tensor_map import tensor_map as describe

    return describe(tensor, box, swizzle)


def setup(language: str | None = None) -> None:
    """Print the device card: what this notebook's kernels will run on, and what that means.

    `language`, such as "zh", is that of all messages; by default that of $GPULAB_LANG, or else of the system.
    """
    from .check import names
    from .language import show

    if sentence := show.use(language):
        print(sentence)
    print(device.card())
    for sentence in _support.limits():
        print(sentence)
    try:
        if sentence := environment.ensure_cache():
            print(sentence)
    except environment.NoRoom as e:  # plain Python works all the same
        print(e)
    cuda.register_magic()
    names.watch()
    if not device.has_gpu():
        from .backends import hooks, interpreter

        try:
            interpreter.require()
            importlib.import_module(f"{__name__}.backends.driver").install()
            hooks.guard_plain_launches(_print_outside)
        except interpreter.Unavailable as e:
            print(e)


def _print_outside(sentences: list[str]) -> None:
    """What a plain launch did outside of its arrays, in a notebook without a GPU."""
    print(f"Careful: {sentences[0]}. These lanes were skipped; on a GPU they would read or change other memory.")


_MODULES = {
    "attention": "lessons.attention",
    "blocks": "lessons.blocks",
    "capstone": "lessons.capstone",
    "clusters": "lessons.clusters",
    "compiled": "lessons.compiled",
    "decoding": "lessons.decoding",
    "distributed": "lessons.distributed",
    "exercise": "spec.exercise",
    "fewer_bits": "lessons.fewer_bits",
    "formats": "gpu.formats",
    "fragments": "lessons.fragments",
    "graphs": "lessons.graphs",
    "hardware": "lessons.hardware",
    "hopper": "lessons.hopper",
    "inputs": "spec.inputs",
    "inspect": "cuda.cubin",
    "ladder": "lessons.ladder",
    "launches": "lessons.launches",
    "machine": "gpu.machine",
    "machine_plots": "lessons.machine_plots",
    "nvrtc": "cuda.nvrtc",
    "occupancy": "gpu.occupancy",
    "peaks": "lessons.peaks",
    "pipelines": "lessons.pipelines",
    "profiles": "lessons.profiles",
    "plots": "plots",
    "queues": "lessons.queues",
    "ranks": "lessons.ranks",
    "registers": "lessons.registers",
    "roofline": "gpu.roofline",
    "rooflines": "lessons.rooflines",
    "rounding": "lessons.rounding",
    "roofs": "timing.ceilings",
    "tiles": "lessons.tiles",
    "traffic": "lessons.traffic",
    "training": "lessons.training",
    "trees": "lessons.trees",
    "widgets": "lessons.widgets",
}
"""Modules that a notebook may use as `lab.widgets` and the like, and where they are."""

_NAMES = {
    "DoesNotFit": "gpu.tuning",
    "GPU": "gpu.machine",
    "Ledger": "gpu.roofline",
    "SimulatedGPU": "gpu.machine",
    "counted": "study.claims",
    "Roof": "gpu.roofline",
    "fuse": "gpu.roofline",
    "units": "gpu.roofline",
}
"""What notebooks take from such a module by name: `from labutils import Ledger`."""


def __getattr__(name: str):
    """The modules and names above, loaded when they are first used."""
    if name in _MODULES:
        return importlib.import_module(f"{__name__}.{_MODULES[name]}")
    if name in _NAMES:
        return getattr(importlib.import_module(f"{__name__}.{_NAMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "access_map", "aligned", "annotate", "banks", "benchmark", "ceilings", "check", "claims", "coalescing",
    "compare", "cuda", "device", "evidence", "explain", "hint", "padded", "play", "profile", "progress", "record",
    "setup", "tensor_map", "tiny", "walkthrough",
]  # fmt: skip
