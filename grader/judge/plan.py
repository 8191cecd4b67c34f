"""A launch plan: what a submission's launcher would do, as data that was checked.

The sandbox tells a plan as JSON (`inside/launch.py`), and what comes from there is not trusted. `read` takes nothing
over that is not of the expected form and within the limits. A plan names kernels by their text, memory by the argument
or the scratch array it lies in, and holds nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from grader.judge import copies

MOST_LAUNCHES, MOST_CHOICES, MOST_TEXT = 128, 48, 256 << 10
MOST_SCRATCH = 2 << 30
"""Bytes of scratch memory that one call may ask for."""

MOST_PROGRAMS = 1 << 31
MOST_SPECS, MOST_PARTS = 128, 200
"""Kernels of one plan, and pieces of text of one kernel."""

DTYPES = {
    *("float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"),
    *("int64", "int32", "int16", "int8", "uint8", "bool"),
}
"""Element types that memory may be read as."""

MAPPED = {"uint8", "int32", "int64", "float16", "bfloat16", "float32", "float64"}
"""Element types that a tensor map of a CUDA C++ kernel can have."""

UNREADABLE = "the sandbox returned no readable plan"

NOT_PRINTABLE = re.compile(
    "[^\n\t\x20-\x7e\xa0-\ud7ff\ue000-\U0010ffff]|[\u200b-\u200f\u202a-\u202e\u2066-\u2069\ufeff]"
)
"""What a terminal or a report would obey or choke on, rather than show."""

OPTIONS = {"num_warps": (1, 64), "num_stages": (1, 16), "num_ctas": (1, 16), "maxnreg": (16, 255)}


class BadPlan(ValueError):
    """The plan asks for what no plan may; the message says it to the learner, `kind` what kind of mistake it is."""

    def __init__(self, message: str, kind: str = "error"):
        super().__init__(message)
        self.kind = kind


@dataclass(frozen=True)
class Launch:
    """One launch: which of the plan's kernels, on what grid, with which arguments by name. CUDA C++ also has the
    threads of a block, the bytes of shared memory and the blocks of a cluster."""

    kernel: int
    grid: tuple[int, int, int]
    args: dict[str, dict]
    block: tuple[int, int, int] | None = None
    shared: int = 0
    cluster: int = 1


@dataclass(frozen=True)
class Fill:
    """Set `count` elements, from a pointer on, to a value."""

    pointer: dict
    count: int
    value: float


@dataclass(frozen=True)
class Copy:
    """Move elements from one view to another: pointers with a shape and strides."""

    source: dict
    target: dict


@dataclass(frozen=True)
class Choice:
    """Launches of which one is to be made: the configurations of an autotuned kernel."""

    launches: tuple[Launch, ...]


@dataclass
class Plan:
    """Steps in order, the kernels that they name (`specs`, by text) and the sizes in bytes of scratch arrays."""

    steps: list[Launch | Fill | Copy | Choice]
    specs: list[dict]
    scratch: list[int]
    printed: str = ""
    returned: str = ""
    needs_gpu: bool = False
    """Does a kernel's text hold what only a GPU may be able to run?"""
    atomics: bool = False
    """Does a kernel call an atomic operation? The child that reads its text finds it, as it does `needs_gpu`."""

    def to_json(self) -> dict:
        """The plan as the sandbox and the runner read it."""
        steps = []
        for step in self.steps:
            if isinstance(step, Fill):
                steps.append({"fill": step.pointer, "count": step.count, "value": step.value})
            elif isinstance(step, Copy):
                steps.append({"copy": step.source, "to": step.target})
            elif isinstance(step, Choice):
                steps.append({"choices": [vars(s) for s in step.launches]})
            else:
                steps.append(vars(step))
        return {"steps": steps, "specs": self.specs, "scratch": self.scratch}

    def copies(self) -> list[tuple[dict, dict]]:
        """The copies in it, as (source view, target view)."""
        return [(step.source, step.target) for step in self.steps if isinstance(step, Copy)]

    def launches(self) -> list[Launch]:
        """Every launch there is in it, all choices included."""
        found = []
        for step in self.steps:
            found += step.launches if isinstance(step, Choice) else [step] if isinstance(step, Launch) else []
        return found


def read(payload: dict, arguments: Sequence[dict]) -> Plan:
    """The plan that was sent, for a launcher of these arguments. Raises BadPlan."""
    try:
        steps, specs, scratch = payload["steps"], payload["specs"], payload["scratch"]
        _require(isinstance(steps, list) and isinstance(specs, list) and isinstance(scratch, list))
        if len(steps) > MOST_LAUNCHES:
            raise BadPlan(f"your launcher makes {len(steps)} launches in one call; at most {MOST_LAUNCHES} are judged")
        if len(specs) > MOST_SPECS:
            raise BadPlan(f"your launcher launches {len(specs)} different kernels; at most {MOST_SPECS} are judged")
        scratch = [_whole(n, 0, 1 << 62) for n in scratch]
        if sum(scratch) > MOST_SCRATCH:
            size = f"{sum(scratch) / 2**30:,.0f} GB"
            raise BadPlan(f"your launcher asks for {size} of scratch memory; at most {MOST_SCRATCH >> 30} GB are given")
        specs = [_spec(s) for s in specs]
        sizes = {"argument": len(arguments), "scratch": len(scratch)}
        plan = Plan(
            [_step(s, specs, sizes) for s in steps],
            specs,
            scratch,
            text(payload.get("printed", ""), 4000),
            text(payload.get("returned", ""), 100),
        )
        _check_copies(plan, arguments)
        return plan
    except BadPlan:
        raise
    except (KeyError, IndexError, TypeError, AttributeError, ValueError, ArithmeticError, RecursionError) as e:
        raise BadPlan(UNREADABLE) from e


def text(value: Any, most: int) -> str:
    """Text from a sandbox, without what a terminal or a report would obey. Raises BadPlan for what is no text."""
    return NOT_PRINTABLE.sub("\ufffd", _text(value, most).replace("\0", ""))


def _check_copies(plan: Plan, arguments: Sequence[dict]) -> None:
    """Copies line data up for a kernel, and bring a kernel's result to its place. They are no answer by themselves."""
    try:
        copies.check(plan.copies(), arguments, plan.scratch)
    except copies.NotAlignment as e:
        raise BadPlan(f"your launcher {e}", "no-kernel") from None


def _require(fine: bool) -> None:
    if not fine:
        raise BadPlan(UNREADABLE)


def _text(value: Any, most: int) -> str:
    _require(isinstance(value, str))
    return value[:most]


def _whole(value: Any, low: int, high: int) -> int:
    _require(isinstance(value, int) and not isinstance(value, bool) and low <= value <= high)
    return value


def _spec(payload: dict) -> dict:
    language = payload["language"]
    _require(language in ("triton", "cuda"))
    if language == "cuda":
        return {
            "language": "cuda",
            "source": _defines(payload["options"]) + _whole_text(payload["source"]),
            "name": _whole_text(payload["name"], 500),
            "options": [],
        }
    _require(isinstance(payload["module"], list) and len(payload["module"]) <= MOST_PARTS)
    # Every piece lies in a file of its own: Triton reads a kernel's text again by file and line.
    module = [[_whole_text(t), f"<piece {k}>", _whole(n, 1, 10**5)] for k, (t, _, n) in enumerate(payload["module"])]
    _require(sum(len(t) for t, _, _ in module) <= MOST_TEXT)
    signature = {_text(k, 100): _text(v, 100) for k, v in payload["signature"].items()}
    constants = {_text(k, 100): _constant(v) for k, v in payload["constants"].items()}
    _require(constants.keys() <= signature.keys() and set(payload["aligned"]) <= signature.keys())
    _require(len(signature) <= 100 and len(set(payload["aligned"])) == len(payload["aligned"]))
    options = {k: _whole(v, *OPTIONS[k]) for k, v in payload["options"].items()}
    return {
        "language": "triton",
        "module": module,
        "kernel": _text(payload["kernel"], 200),
        "signature": signature,
        "constants": constants,
        "aligned": list(payload["aligned"]),
        "options": options,
    }


def _whole_text(value: Any, most: int = MOST_TEXT) -> str:
    """Text that means another thing when it is cut."""
    _require(isinstance(value, str) and len(value) <= most)
    return value


def _defines(options: Any) -> str:
    """What a compiler's options -DNAME=VALUE say, as the first lines of the text: both compilers then read them."""
    _require(isinstance(options, list) and len(options) <= 20)
    found = [re.fullmatch(r"-D([A-Za-z]\w*)(?:=([\w.+-]{0,40}))?", o) for o in options]
    if None in found:
        raise BadPlan(f"the option {options[found.index(None)]!r} cannot be judged; there are -DNAME and -DNAME=VALUE")
    return "".join(f"#define {m[1]} {'1' if m[2] is None else m[2]}\n" for m in found)


def _constant(value: Any):
    if isinstance(value, dict):
        _require(len(value) == 1 and set(value) <= {"dtype", "function"})
        return {k: _text(v, 200) for k, v in value.items()}
    _require(value is None or isinstance(value, (bool, int, float, str)))
    return value


def _step(payload: dict, specs: list[dict], sizes: dict[str, int]) -> Launch | Fill | Copy | Choice:
    if "fill" in payload:
        value = payload["value"]
        _require(isinstance(value, (int, float)))
        return Fill(_pointer(payload["fill"], sizes), _whole(payload["count"], 1, MOST_SCRATCH), float(value))
    if "copy" in payload:
        source, target = _view(payload["copy"], sizes), _view(payload["to"], sizes)
        _require(source["shape"] == target["shape"] and source["dtype"] == target["dtype"])
        return Copy(source, target)
    if "choices" in payload:
        _require(isinstance(payload["choices"], list))
        if not 0 < len(payload["choices"]) <= MOST_CHOICES:
            raise BadPlan(f"{len(payload['choices'])} configurations to choose from; at most {MOST_CHOICES} are judged")
        return Choice(tuple(_launch(s, specs, sizes) for s in payload["choices"]))
    return _launch(payload, specs, sizes)


def _launch(payload: dict, specs: list[dict], sizes: dict[str, int]) -> Launch:
    kernel = _whole(payload["kernel"], 0, len(specs) - 1)
    name = specs[kernel].get("kernel") or specs[kernel]["name"]
    grid = [_whole(n, -(2**62), 2**62) for n in payload["grid"]]
    if not 1 <= len(grid) <= 3:
        raise BadPlan(f"{name} is launched on a grid of {len(grid)} sides; a grid has one, two or three")
    grid += [1] * (3 - len(grid))
    if min(grid) < 0 or prod(grid) >= MOST_PROGRAMS or max(grid[1:]) > 65535:
        raise BadPlan(f"{name} is launched on a grid of {tuple(grid)}, which no GPU takes")
    args = {_text(k, 100): _argument(v, sizes) for k, v in payload["args"].items()}
    _require(len(args) <= 100)
    block, shared, cluster = None, 0, 1
    if specs[kernel]["language"] == "cuda":
        block = tuple(_whole(n, 1, 1024) for n in payload["block"])
        _require(len(block) == 3 and prod(block) <= 1024)
        shared = _whole(payload["shared"], 0, 1 << 20)
        cluster = _whole(payload.get("cluster", 1), 1, 16)
        if grid[0] % cluster:
            raise BadPlan(f"{name} is launched with {grid[0]} blocks in x, which are no whole clusters of {cluster}")
    return Launch(kernel, tuple(grid), args, block, shared, cluster)


def _argument(payload: dict, sizes: dict[str, int]) -> dict:
    _require(isinstance(payload, dict) and len(payload) == 1)
    if "pointer" in payload:
        return {"pointer": _pointer(payload["pointer"], sizes)}
    if "descriptor" in payload:
        d = payload["descriptor"]
        sides = ("shape", "strides", "block_shape")
        shape, strides, block = (tuple(_whole(n, 0, 1 << 40) for n in d[k]) for k in sides)
        _require(1 <= len(shape) <= 5 and len(shape) == len(strides) == len(block) and d["padding"] in ("zero", "nan"))
        tensor_map = {"swizzle": _whole(d["swizzle"], 0, 128)} if "swizzle" in d else {}  # of a CUDA C++ kernel
        _require(not tensor_map or (len(shape) == 2 and d["dtype"] in MAPPED and max(block) <= 256))
        return {
            "descriptor": {
                **_pointer(d, sizes),
                "shape": shape,
                "strides": strides,
                "block_shape": block,
                "padding": d["padding"],
                "tf32": bool(d["tf32"]),
                **tensor_map,
            }
        }
    number = payload["number"]
    _require(number is None or isinstance(number, (bool, int, float)))
    _require(not isinstance(number, int) or -(2**63) <= number < 2**63)
    return {"number": number}


def _view(payload: dict, sizes: dict[str, int]) -> dict:
    shape, strides = (tuple(_whole(n, 0, 1 << 40) for n in payload[k]) for k in ("shape", "strides"))
    _require(len(shape) == len(strides) <= 6)
    return {**_pointer(payload, sizes), "shape": shape, "strides": strides}


def _pointer(payload: dict, sizes: dict[str, int]) -> dict:
    """{"argument" or "scratch": which, "offset": elements, "dtype": of them}"""
    home = "argument" if "argument" in payload else "scratch"
    dtype = _text(payload["dtype"], 30)
    _require(dtype in DTYPES)
    return {
        home: _whole(payload[home], 0, sizes[home] - 1),
        "offset": _whole(payload["offset"], 0, 1 << 40),
        "dtype": dtype,
    }
