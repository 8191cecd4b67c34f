"""Which version of a function is being checked? Cells that failed, were skipped, or now define something else.

A cell that fails leaves what an earlier version defined: without a word, the check would grade that. So the notebook's
cells are watched as they run: `failed` holds the names whose latest cell did not run, and why.
"""

from __future__ import annotations

import builtins
import contextlib
import difflib
import dis
import inspect
import re
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import CodeType, FunctionType
from typing import Any

from ..backends.errors import is_unfilled
from ..cuda import Kernel, Module
from ..cuda.kernel import NotBuilt
from ..spec.exercise import NOT_WRITTEN

_DEFINED = re.compile(r"^(?:async )?def\s+(\w+)\s*\(", re.MULTILINE)
_KERNEL = re.compile(r"__global__\s+void\s*(?:__launch_bounds__\s*\([^)]*\)\s*)?(\w+)\s*\(")


@dataclass
class Cells:
    """What the cells that ran so far defined. `failed`: name to the error of its latest cell and what to try;
    `replaced`: name to the names that its cell defines now; `cell_of`: the cell of a name, the latest last."""

    failed: dict[str, tuple[str, str]] = field(default_factory=dict)
    replaced: dict[str, tuple[str, ...]] = field(default_factory=dict)
    cell_of: dict[str, str] = field(default_factory=dict)

    def begins(self, cell: str, text: str) -> None:
        """A cell begins to run: what it no longer defines is replaced, also for a check in the same cell."""
        names = defined(text)
        for gone in [n for n, c in self.cell_of.items() if cell and c == cell and n not in names] if names else ():
            self.replaced[gone] = names
            del self.cell_of[gone]

    def ran(self, cell: str, text: str, error: BaseException | None) -> None:
        """A cell has run; `error` is what ended it. `cell` is its id, "" where the front end gives none."""
        self.begins(cell, text)
        names = defined(text)
        if error is not None:
            done = _defined_before(text, error)
            why = _sentence(error), getattr(error, "advice", "")
            self.failed |= dict.fromkeys([n for n in names if n not in done], why)
            names = done
        for name in names:
            self.failed.pop(name, None)
            self.replaced.pop(name, None)
            self.cell_of.pop(name, None)
            self.cell_of[name] = cell


cells = Cells()


def defined(text: str) -> tuple[str, ...]:
    """Names of the functions and kernels that a cell's text defines, also where it does not compile."""
    return tuple(dict.fromkeys(_KERNEL.findall(text) if text.lstrip().startswith("%%cuda") else _DEFINED.findall(text)))


def _defined_before(text: str, error: BaseException) -> tuple[str, ...]:
    """Names that a cell has defined although it ended with an error: those above the line that raised it."""
    if isinstance(error, SyntaxError) or text.lstrip().startswith("%%"):
        return ()
    frames = traceback.extract_tb(error.__traceback__)
    at = next((f.lineno for f in frames if f.name == "<module>" or f.name.startswith("<cell line")), 0)
    return defined("\n".join(text.splitlines()[: max(at - 1, 0)]))


def _sentence(error: BaseException) -> str:
    text = str(getattr(error, "text", None) or "") if not isinstance(error, SyntaxError) else ""
    if text:  # a compiler's: its first line
        return text.strip().splitlines()[0]
    line = getattr(error, "lineno", None)
    message = " ".join(str(getattr(error, "msg", None) or error).split())[:200]
    return f"{type(error).__name__}: {message}" + (f" (line {line})" if line else "")


def watch() -> None:
    """Follow the cells of this notebook, if it is one."""
    with contextlib.suppress(ImportError):
        from IPython import get_ipython

        shell = get_ipython()
        if shell is not None and not getattr(shell, "_gpulab_watched", False):
            shell._gpulab_watched = True
            shell.events.register("pre_run_cell", _begins)
            shell.events.register("post_run_cell", _ran)
            shell.set_custom_exc((NotImplementedError, *_interpreters_error()), _unfilled)


def _interpreters_error() -> tuple[type[Exception], ...]:
    """What Triton's interpreter wraps a kernel's exception in."""
    with contextlib.suppress(ImportError):
        from triton.runtime.errors import InterpreterError

        return (InterpreterError,)
    return ()


def _unfilled(shell, kind, error, trace, tb_offset=None):
    """A cell that uses an exercise which is still the stub ends with a sentence, and not with a traceback."""
    if not is_unfilled(error):
        shell.showtraceback((kind, error, trace), tb_offset=tb_offset)
        return None
    name = re.search(rf"(\w+) {re.escape(NOT_WRITTEN)}", f"{error} {error.__cause__} {error.__context__}")
    text = f"{name[1] if name else 'This exercise'} {NOT_WRITTEN}: fill its cell, run it, then run this cell again."
    shell._showtraceback(kind, text, [text])
    return None


def _begins(info) -> None:
    cells.begins(getattr(info, "cell_id", None) or "", info.raw_cell or "")


def _ran(result) -> None:
    info = result.info
    error = result.error_before_exec or result.error_in_exec
    cells.ran(getattr(info, "cell_id", None) or "", info.raw_cell or "", error)


def outdated(fn: Any, entry: str) -> tuple[str, str] | None:
    """What is checked is not what the cells say: a symptom and advice; None where all is well."""
    own = getattr(fn, "__name__", entry)  # another function may be given to the check
    for name in dict.fromkeys([own, *reached(fn)]):
        if name in cells.failed:
            why, advice = cells.failed[name]
            again = (
                f"Correct the cell of {name} and run it, then run this check again. An earlier version is not graded."
            )
            return f"the latest version of {name} did not run: {why}", f"{advice} {again}".strip()
        if name in cells.replaced:
            now = " and ".join(cells.replaced[name])
            uses = f"{entry} still uses {name}, whose cell" if name != own else f"the cell of {name}"
            return (
                f"{uses} now defines {now} instead",
                f"Did you mean to rename it? Name it {name} again and run its cell. An earlier version is not graded.",
            )
    return None


ALIKE = 0.6
"""Names are alike from this ratio of `difflib` on: add_kernel and my_add_kernel, add_kernel_v2, kernel_add."""


def unused(fn: Any, entry: str) -> str:
    """A line on a function or kernel that was defined after one of those in use, is called nearly alike, takes the same
    arguments, and is not used; "" where there is none. What belongs to another exercise is not meant for this one."""
    values = getattr(fn, "__globals__", {})
    used = dict.fromkeys([getattr(fn, "__name__", entry), *reached(fn)])
    others = _of_other_exercises(values, entry)
    order = list(cells.cell_of)
    for name in used:
        later = order[order.index(name) + 1 :] if name in order else ()
        parameters = _parameters(values.get(name))
        for other in later if parameters else ():
            alike = difflib.SequenceMatcher(None, name, other).ratio() >= ALIKE
            if other not in used and other not in others and alike and _parameters(values.get(other)) == parameters:
                return (
                    f"{name} was checked. {other} was defined after it, takes the same arguments, and is not used by "
                    f"{entry}: if you mean that one, name it {name} and run its cell."
                )
    return ""


def _of_other_exercises(values: dict[str, Any], entry: str) -> set[str]:
    """The names of the functions of all other exercises that the notebook holds, and of what these use."""
    from .. import exercises  # not above: what the judge lets a submission see has no exercises

    entries = {e.entry for e in exercises.all_exercises().values()} & values.keys() - {entry}
    return entries.union(*(reached(values[name]) for name in entries))


def _parameters(value: Any) -> tuple[str, ...]:
    """The names of what a function or kernel takes."""
    if isinstance(value, Kernel):
        return tuple(p.name for p in value.signature.parameters)
    function = _function(value)
    if function is None:
        return ()
    return function.__code__.co_varnames[: function.__code__.co_argcount]


def not_built(fn: Any) -> str:
    """Why a kernel that a function uses could not be built on this machine, or ""."""
    values = (getattr(fn, "__globals__", {}).get(name) for name in reached(fn))
    return next((value.why for value in values if isinstance(value, NotBuilt)), "")


def _function(value: Any) -> FunctionType | None:
    """The function of a kernel of Triton, also of one that is tuned automatically; a function itself."""
    while hasattr(value, "fn"):
        value = value.fn
    return value if isinstance(value, FunctionType) else None


def reached(fn: Any) -> Iterator[str]:
    """Names of the functions and kernels that a function uses, directly or through others."""
    seen, open_ = set(), [fn]
    while open_:
        f = _function(open_.pop())
        if f is None or id(f) in seen:
            continue
        seen.add(id(f))
        for name in _globals_of(f.__code__):
            yield name
            if name in f.__globals__:
                open_.append(f.__globals__[name])


def texts(fn: Any) -> list[tuple[int, str]]:
    """The text of each kernel that a function uses, with the number of its first line."""
    found = []
    for name in dict.fromkeys(reached(fn)):
        value = getattr(fn, "__globals__", {}).get(name)
        if isinstance(value, (Kernel, Module)):
            found.append((1, value.source if isinstance(value, Module) else value.module.source))
        elif hasattr(value, "fn") and (function := _function(value)):
            with contextlib.suppress(OSError, TypeError):
                lines, first = inspect.getsourcelines(function)
                body = _without_docstring(lines)
                found.append((first + len(lines) - len(body), "".join(body)))
    return found


def _without_docstring(lines: list[str]) -> list[str]:
    """The lines behind a function's docstring."""
    quotes = [k for k, line in enumerate(lines) if '"""' in line]
    if quotes and lines[quotes[0]].count('"""') == 2:
        return lines[quotes[0] + 1 :]
    return lines[quotes[1] + 1 :] if len(quotes) > 1 else lines


def _globals_of(code: CodeType) -> list[str]:
    """The global names that a function's code loads, also inside nested functions."""
    found = [i.argval for i in dis.get_instructions(code) if i.opname in ("LOAD_GLOBAL", "LOAD_NAME")]
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            found += _globals_of(constant)
    return found


def missing(message: str, fn: Callable) -> tuple[str, str] | None:
    """For a NameError: which name, and what was meant."""
    if not (m := re.search(r"\bname '(\w+)' is not defined|\b(\w+) is not defined", message)):
        return None
    name = m[1] or m[2]
    if name in cells.failed:
        return (
            f"{name} does not exist: its cell did not run: {cells.failed[name][0]}",
            f"{cells.failed[name][1]} Correct the cell of {name} and run it, then run this check again.".strip(),
        )
    if meant := ELSEWHERE.get(name) or (f"tl.{name}" if name in TYPES else ""):
        return f"the name {name} is not defined", f"In a Triton kernel write {meant}."
    if hasattr(builtins, name):
        return (
            f"a kernel cannot use Python's {name}",
            "A kernel takes range, tl's functions and other kernels' helpers.",
        )
    known, local = _known(fn)
    # a launcher is not meant by the name of the kernel that it lacks, and another exercise's kernel neither
    others = _of_other_exercises(getattr(fn, "__globals__", {}), getattr(fn, "__name__", ""))
    users = {n for n in known if name in reached(getattr(fn, "__globals__", {}).get(n))}
    near = difflib.get_close_matches(name, sorted(known - {name} - users - others), n=1, cutoff=0.75)
    symptom = f"the name {name} is not defined"
    if near:
        return symptom, f"Did you mean {near[0]}? Correct the name, and run its cell again."
    if name in local:
        return symptom, f"Assign {name} before it is used."
    return symptom, f"Run the cell that defines {name}, or define it before it is used."


TYPES = {"float16", "bfloat16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint32", "constexpr"}
"""Names that only tl has."""

ELSEWHERE = {
    "blockIdx": "tl.program_id(0), the program ID",
    "threadIdx": "tl.arange(0, BLOCK): a program works on a block, and has no threads to name",
    "blockDim": "BLOCK, the number of elements of a program",
    "gridDim": "tl.num_programs(0)",
    "np": "tl's functions: NumPy runs on the host, not in a kernel",
}
"""What stands in Triton for names of CUDA C++ and of NumPy."""


def _known(fn: Callable) -> tuple[set[str], set[str]]:
    """Names that could have been meant: functions and kernels of the notebook, and variables of what `fn` uses."""
    code = getattr(fn, "__globals__", {})
    names = {n for n, v in code.items() if not n.startswith("_") and (callable(v) or hasattr(v, "fn"))}
    local: set[str] = set()
    for name in reached(fn):
        if f := _function(code.get(name)):
            local |= set(f.__code__.co_varnames)
    if isinstance(fn, FunctionType):
        local |= set(fn.__code__.co_varnames)
    return names | local, local
