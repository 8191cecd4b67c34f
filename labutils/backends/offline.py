"""Compiling Triton kernels for GPUs that are not here.

The interpreter runs Python and accepts much that a GPU's compiler refuses. So each launch is described (`launch_spec`)
and compiled by a second process, in which the interpreter is off: `compiler.py`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import torch

from ..source import NotExtractable, module_text, plain_function
from . import Problem
from .errors import compile_problem, is_unfilled

TIME_LIMIT = 60.0
"""Seconds for one compiler process; a course kernel takes about one."""

TYPES = {
    torch.float64: "fp64",
    torch.float32: "fp32",
    torch.float16: "fp16",
    torch.bfloat16: "bf16",
    torch.float8_e4m3fn: "fp8e4nv",
    torch.float8_e5m2: "fp8e5",
    torch.int64: "i64",
    torch.int32: "i32",
    torch.int16: "i16",
    torch.int8: "i8",
    torch.uint8: "u8",
    torch.bool: "i1",
}
"""Triton's names of element types."""

OPTIONS = ("num_warps", "num_stages", "num_ctas", "maxnreg")

__all__ = ["NotExtractable", "compile_all", "first_problem", "launch_spec"]


def launch_spec(kernel, args: tuple, kwargs: dict) -> dict:
    """What a compiler needs to know about one launch, as JSON: text, types, constants, alignment, options."""
    function = plain_function(kernel)
    names = list(function.__code__.co_varnames[: function.__code__.co_argcount])
    values = dict(zip(names, args, strict=False))
    values.update({k: v for k, v in kwargs.items() if k in names})
    defaults = function.__defaults__ or ()
    for name, default in zip(names[len(names) - len(defaults) :], defaults, strict=True):
        values.setdefault(name, default)
    signature, constants, aligned = {}, {}, []
    for name in names:
        if name not in values:
            raise NotExtractable(f"{name} has no value")
        value = values[name]
        kind = _type(value)
        if "constexpr" in str(function.__annotations__.get(name, "")) or kind is None:
            signature[name], constants[name] = "constexpr", _constant(name, value)
        else:
            signature[name] = kind
            if _divisible(value):
                aligned.append(name)
    options = {k: kwargs[k] for k in OPTIONS if kwargs.get(k) is not None}
    text = module_text(kernel)
    if (
        f"@triton.jit\ndef {function.__name__}" not in text
        and "@triton" not in text.split(f"def {function.__name__}(")[0]
    ):
        text = text.replace(f"def {function.__name__}(", f"@triton.jit\ndef {function.__name__}(", 1)
    return {
        "module": "import triton\n" + text if "import triton as triton" not in text else text,
        "kernel": function.__name__,
        "signature": signature,
        "constants": constants,
        "aligned": aligned,
        "options": options,
    }


def _type(value) -> str | None:
    """The type of a run-time argument; None for one that the launch makes a constant."""
    if isinstance(value, torch.Tensor):
        return "*" + TYPES[value.dtype]
    if isinstance(value, bool):
        return "i1"
    if isinstance(value, int):
        return None if value == 1 else ("i32" if -(2**31) <= value < 2**31 else "i64")
    if isinstance(value, float):
        return "fp32"
    if hasattr(value, "block_shape"):
        block = ", ".join(str(n) for n in value.block_shape)
        return f"tensordesc<{TYPES[value.base.dtype]}[{block}]>"
    return None


def _constant(name, value):
    value = getattr(value, "value", value)
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if type(value).__name__ == "dtype":
        return {"dtype": getattr(value, "name", str(value).removeprefix("torch."))}
    raise NotExtractable(f"the constant {name} is a {type(value).__name__}")


def _divisible(value) -> bool:
    if isinstance(value, torch.Tensor):
        return value.data_ptr() % 16 == 0
    return isinstance(value, int) and not isinstance(value, bool) and value % 16 == 0


def compile_all(specs: list[dict], targets) -> list[dict]:
    """Compile each spec for each target: dicts with `kernel`, `target`, and `error` (text) or the `resources`."""
    environment = {k: v for k, v in os.environ.items() if k not in ("TRITON_INTERPRET", "PYTHONPATH")}
    # numerics as on a GPU's default, and no start-up warning from Triton 3.9
    environment |= {"CUDA_VISIBLE_DEVICES": "", "TRITON_DEFAULT_FP_FUSION": "1"}
    job = json.dumps({"specs": specs, "targets": list(targets), "path": [p for p in sys.path if "triton" in p.lower()]})
    try:
        done = subprocess.run(
            [sys.executable, str(Path(__file__).with_name("compiler.py"))],
            input=job,
            capture_output=True,
            text=True,
            env=environment,
            timeout=TIME_LIMIT,
        )
    except subprocess.TimeoutExpired:
        return [
            {
                "kernel": specs[0]["kernel"],
                "target": 0,
                "error": f"the compiler took more than {TIME_LIMIT:.0f} s",
            }
        ]
    if done.returncode:
        raise RuntimeError(f"the compiler process failed: {done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def first_problem(specs: list[dict], targets, known: dict[str, Problem | None]) -> Problem | None:
    """The first refusal among the launches, or None; `known` remembers launches already compiled."""
    keys = [json.dumps(s, sort_keys=True) for s in specs]
    new = [s for s, k in zip(specs, keys, strict=True) if k not in known]
    if new:
        results = compile_all(new, targets)
        for spec in new:
            known[json.dumps(spec, sort_keys=True)] = next(
                (_problem(r) for r in results if r.get("spec") == new.index(spec) and r.get("error")), None
            )
        for r in results:
            if r.get("error") and "spec" not in r:
                return _problem(r)
    return next((known[k] for k in keys if known[k]), None)


def _problem(result: dict) -> Problem:
    if is_unfilled(ValueError(result["error"])):
        return Problem("unfilled", result["error"].splitlines()[-1])
    p = compile_problem(result["error"])
    p.message = f"{result['kernel']} does not compile for sm_{result['target']}: {p.message}"
    return p
