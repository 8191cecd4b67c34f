"""The text of a function with everything it leans on, to be run in another process.

A kernel is compiled, and a launcher is recorded, in another process. Learners' functions live in notebook cells, so
they cannot be imported there; their text travels instead, with the helpers, constants and imports that it names. Each
piece keeps its place, so that messages from over there name the learner's own lines.

Imports nothing of labutils: the compiler process loads this file alone.
"""

from __future__ import annotations

import ast
import builtins
import functools
import inspect
import linecache
import sys
import textwrap
import types
import weakref
from typing import Any, NamedTuple

LITERALS = (bool, int, float, str, type(None))


class NotExtractable(ValueError):
    """This function cannot be written as text; the message says why."""


class Part(NamedTuple):
    """A piece of a module: its text, and where that was written."""

    text: str
    file: str = "<labutils>"
    line: int = 1


_Cached = functools._lru_cache_wrapper
"""What `@functools.cache` makes of a function."""


def module_parts(fn: Any, kernel: bool = False) -> list[Part]:
    """Source of a module that defines `fn` and all that it names, in an order in which it can be run.

    With `kernel`, `fn` is the Python function inside a kernel: it is defined with `@triton.jit` alone, without the
    autotuning and the heuristics that chose the arguments at hand.
    """
    parts: dict[str, Part] = {}
    _collect(fn, parts, set(), kernel)
    return list(parts.values())


def module_text(fn: Any) -> str:
    """`module_parts` as one text."""
    return "\n\n".join(p.text for p in module_parts(fn)) + "\n"


def load(parts: list[Part], name: str = "learner") -> dict[str, Any]:
    """Run the parts as a module of this process; return its namespace."""
    module = sys.modules[name] = types.ModuleType(name)
    keep_lines(parts)
    for part in parts:
        _run(part, module.__dict__)
    return module.__dict__


def define(part: Part, namespace: dict[str, Any]) -> None:
    """Run one more part in a module's namespace."""
    keep_lines([part])
    _run(part, namespace)


def _run(part: Part, namespace: dict[str, Any]) -> None:
    text, file, line = part  # from another process it comes as a list
    exec(compile("\n" * (line - 1) + text, file, "exec"), namespace)


def keep_lines(parts: list[Part]) -> None:
    """Put the lines of these parts where inspect.getsource, which Triton uses, looks first."""
    lines: dict[str, list[str]] = {}
    for text, file, line in parts:
        into, own = lines.setdefault(file, []), text.splitlines(keepends=True)
        into.extend(["\n"] * (line - 1 + len(own) - len(into)))
        into[line - 1 : line - 1 + len(own)] = own
    for file, known in lines.items():
        linecache.cache[file] = (sum(map(len, known)), None, known, file)


def flat(values: dict[str, Any]) -> dict[str, Any]:
    """Arguments of a launch with the elements of tuples one by one: `sizes` is `sizes.0`, `sizes.1`, …"""
    found: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, tuple):
            found |= flat({f"{name}.{k}": v for k, v in enumerate(value)})
        else:
            found[name] = value
    return found


def grouped(values: dict[str, Any]) -> dict[str, Any]:
    """What `flat` made of arguments, with the tuples together again: each as the elements stand, in order."""
    tuples: dict[str, dict[str, Any]] = {}
    found: dict[str, Any] = {}
    for name, value in values.items():
        own, dot, rest = name.partition(".")
        if dot:
            found[own] = tuples.setdefault(own, {})
            tuples[own][rest] = value
        else:
            found[name] = value
    for own, elements in tuples.items():
        found[own] = tuple(grouped(elements).values())
    return found


def plain_function(fn: Any) -> types.FunctionType:
    """The Python function inside `@triton.jit`, `@triton.autotune`, `@functools.cache` and the like."""
    while not isinstance(fn, types.FunctionType) and (hasattr(fn, "fn") or isinstance(fn, _Cached)):
        fn = fn.__wrapped__ if isinstance(fn, _Cached) else fn.fn
    if not isinstance(fn, types.FunctionType):
        raise NotExtractable(f"{fn!r} is not a function")
    return fn


def _collect(fn: Any, parts: dict[str, Part], seen: set[int], kernel: bool = False) -> None:
    function = plain_function(fn)
    if id(function) in seen:
        return
    seen.add(id(function))
    own, scope = function.__name__, function.__globals__
    if function.__closure__:
        raise NotExtractable(f"{own} uses variables of an enclosing function")
    try:
        lines, first = _lines(function)
    except (OSError, TypeError):
        raise NotExtractable(f"the source of {own} cannot be read") from None
    text = textwrap.dedent("".join(lines))
    node = ast.parse(text).body[0]
    if not isinstance(node, ast.FunctionDef):
        raise NotExtractable(f"{own} is not written with def")
    if kernel:
        text, first = "".join(text.splitlines(keepends=True)[node.lineno - 1 :]), first + node.lineno - 1
        node.decorator_list = []
    if kernel or (function is not fn and not node.decorator_list):  # kernel = triton.jit(function)
        parts["triton"] = Part("import triton")
        text = f"{text.rstrip()}\n{own} = triton.jit({own})\n"
    for name in _names(node, function):
        if name in scope and name not in parts and name != own and not _stands_for_builtin(name, scope[name]):
            _define(name, scope[name], parts, seen)
    parts[own] = Part(text, inspect.getsourcefile(function) or function.__code__.co_filename, first)


_known: weakref.WeakKeyDictionary[types.FunctionType, tuple[list[str], int]] = weakref.WeakKeyDictionary()


def _lines(function: types.FunctionType) -> tuple[list[str], int]:
    """`inspect.getsourcelines`, once for each function: a launcher launches its kernels again and again."""
    if function not in _known:
        _known[function] = inspect.getsourcelines(function)
    return _known[function]


def _stands_for_builtin(name: str, value: Any) -> bool:
    """Is it what the interpreter calls in place of Python's `max` or `min`? A compiler has its own."""
    return hasattr(builtins, name) and getattr(value, "__wrapped__", None) is getattr(builtins, name)


def _names(node: ast.FunctionDef, function: types.FunctionType) -> list[str]:
    """Global names that the function may use: those of its body that are no locals, and all of its header."""

    def names(nodes) -> set[str]:
        return {n.id for top in nodes for n in ast.walk(top) if isinstance(n, ast.Name)}

    header = names([node.args, *node.decorator_list, *([node.returns] if node.returns else [])])
    return sorted(header | names(node.body) - set(function.__code__.co_varnames))


def _define(name: str, value: Any, parts: dict[str, Part], seen: set[int]) -> None:
    """Add what gives `name` its value. What has no text is left out: if the code really uses it, the other process
    says which name is missing."""
    if isinstance(value, types.ModuleType):
        parts[name] = Part(f"import importlib\n{name} = importlib.import_module({value.__name__!r})")
    elif isinstance(value, (types.FunctionType, _Cached)) or hasattr(value, "fn"):
        function = plain_function(value)
        module = function.__module__ or ""
        if module.split(".")[0] in ("triton", "torch", "math", "numpy", "labutils"):
            parts[name] = Part(f"from {module} import {function.__name__} as {name}")
            return
        _collect(value, parts, seen)
        if function.__name__ != name:
            parts[name] = Part(f"{name} = {function.__name__}")
    elif type(value).__module__ == "labutils.cuda.kernel":  # a CUDA C++ kernel travels as its own text
        if type(value).__name__ != "Kernel":
            raise NotExtractable(f"the kernel {name} was not built")
        made = f"compile_cuda({value.module.source!r}, {value.name!r}, {value.module.options!r})"
        parts[name] = Part(f"from labutils.cuda import compile as compile_cuda\n{name} = {made}")
    elif (expression := _expression(value)) is not None:
        # PyTorch takes over a second to import, so the compiler process does it for a dtype only.
        modules = [m for m in ("torch", "triton", "triton.language") if f"{m}." in expression]
        parts[name] = Part("".join(f"import {m}\n" for m in modules) + f"{name} = {expression}")
    elif isinstance(value, type) and value.__module__ == "__main__":
        raise NotExtractable(f"the class {name} is defined in the notebook")
    elif isinstance(value, (type, types.BuiltinFunctionType)) and "." not in value.__qualname__:
        parts[name] = Part(f"from {value.__module__} import {value.__qualname__} as {name}")


def _expression(value: Any) -> str | None:
    """Python for a constant: numbers, text, element types, Triton's constexpr and Config, and containers of them."""
    if isinstance(value, LITERALS):
        return f"float({str(value)!r})" if isinstance(value, float) else repr(value)
    kind, home = type(value).__name__, type(value).__module__.split(".")[0]
    if type(value) in (list, tuple):
        inner = [_expression(v) for v in value]
        return None if None in inner else f"{kind}([{', '.join(inner)}])"
    if type(value) is dict:
        inner = [(_expression(k), _expression(v)) for k, v in value.items()]
        return None if any(None in pair for pair in inner) else f"dict([{', '.join(f'({k}, {v})' for k, v in inner)}])"
    if (home, kind) == ("torch", "dtype"):
        return str(value)
    if (home, kind) == ("triton", "dtype"):
        return f"triton.language.dtype({value.name!r})"
    if (home, kind) == ("triton", "constexpr"):
        inner = _expression(value.value)
        return inner and f"triton.language.constexpr({inner})"
    if (home, kind) == ("triton", "Config") and value.pre_hook is None:
        inner = _expression(value.kwargs)
        return inner and f"triton.Config({inner}, num_warps={value.num_warps}, num_stages={value.num_stages})"
    return None
