"""The text of a function with everything it leans on, as a module of its own.

A kernel is compiled, and a launcher is recorded, in another process. Learners' functions live in notebook cells, so
they cannot be imported there; their text travels instead, with the helpers, constants and imports that it names.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
import types
from typing import Any


class NotExtractable(ValueError):
    """This function cannot be told as text; the message says why."""


def module_text(fn: Any, globals_: dict[str, Any] | None = None) -> str:
    """Source of a module that defines `fn` (a Python or `@triton.jit` function) and all that it names."""
    parts: dict[str, str] = {}
    _collect(fn, globals_, parts, set())
    return "\n\n".join(parts.values()) + "\n"


def plain_function(fn: Any) -> Any:
    """The Python function inside `@triton.jit`, `@triton.autotune` and the like."""
    while not isinstance(fn, types.FunctionType) and hasattr(fn, "fn"):
        fn = fn.fn
    if not isinstance(fn, types.FunctionType):
        raise NotExtractable(f"{fn!r} is not a function")
    return fn


def source_of(fn: types.FunctionType) -> str:
    try:
        return textwrap.dedent(inspect.getsource(fn))
    except (OSError, TypeError):
        raise NotExtractable(f"the source of {fn.__name__} cannot be read") from None


def _collect(fn, globals_, parts: dict[str, str], seen: set[int]) -> None:
    function = plain_function(fn)
    if id(function) in seen:
        return
    seen.add(id(function))
    if function.__closure__:
        raise NotExtractable(f"{function.__name__} uses variables of an enclosing function")
    text = source_of(function)
    names = {n.id for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Name)}
    scope = function.__globals__ if globals_ is None else globals_
    own = function.__name__
    for name in sorted(names - {own} - set(parts)):
        if name in scope:
            _define(name, scope[name], globals_, parts, seen)
    if not text.lstrip().startswith("@") and fn is not function:
        text = "@triton.jit\n" + text
    parts[own] = text


def _define(name: str, value: Any, globals_, parts: dict[str, str], seen: set[int]) -> None:
    if isinstance(value, types.ModuleType):
        parts[name] = f"import {value.__name__} as {name}" if "." not in value.__name__ else _submodule(value, name)
    elif isinstance(value, types.FunctionType) or hasattr(value, "fn"):
        module = getattr(value, "__module__", None) or plain_function(value).__module__
        if module.split(".")[0] in ("triton", "torch", "math", "numpy"):
            parts[name] = f"from {module} import {plain_function(value).__name__} as {name}"
        else:
            _collect(value, globals_, parts, seen)
            if plain_function(value).__name__ != name:
                parts[name] = f"{name} = {plain_function(value).__name__}"
    elif isinstance(value, (bool, int, float, str, type(None))):
        parts[name] = f"{name} = {_literal(value)}"
    elif type(value).__name__ == "constexpr" and isinstance(value.value, (bool, int, float, str, type(None))):
        parts[name] = f"import triton.language as _tl\n{name} = _tl.constexpr({_literal(value.value)})"
    elif hasattr(value, "__module__") and hasattr(value, "__qualname__") and "." not in value.__qualname__:
        if value.__module__ == "__main__":
            raise NotExtractable(f"the class {name} is defined in the notebook")
        parts[name] = f"from {value.__module__} import {value.__qualname__} as {name}"
    elif type(value).__module__ == "torch" and str(value).startswith("torch."):  # torch.float32 and other dtypes
        parts[name] = f"import torch\n{name} = {value}"
    elif type(value).__name__ == "dtype" and type(value).__module__.startswith("triton"):
        parts[name] = f"import triton.language as _tl\n{name} = _tl.dtype({value.name!r})"
    # anything else is left out: if the code really uses it, the other process says which name is missing


def _submodule(value: types.ModuleType, name: str) -> str:
    return f"import {value.__name__}\nimport sys as _sys\n{name} = _sys.modules[{value.__name__!r}]"


def _literal(value: Any) -> str:
    return f"float({str(value)!r})" if isinstance(value, float) else repr(value)
