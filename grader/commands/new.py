"""`python -m grader new UNIT/EXERCISE`: the skeleton of an exercise, with marked holes that `grader build` lists.

It writes the cells at the end of `solutions/UNIT/UNIT.py`, the entry at the end of the unit's module in
`labutils/exercises/`, and `solutions/UNIT/mutants/EXERCISE.toml`. No test is needed: `tests/exercises` runs over the
registry, and `python -m grader audit` over solutions and mutants.
"""

from __future__ import annotations

import argparse
import ast
import re
from dataclasses import dataclass
from pathlib import Path

from grader.course.holes import registry_module
from grader.course.sources import ROOT, unit_names

ID = re.compile(r"(\d\d_[a-z0-9_]+)/([a-z][a-z0-9_]*)")
WIDTH = 120


class CannotAdd(ValueError):
    """The exercise cannot be added; the message says why."""


@dataclass(frozen=True)
class Skeleton:
    """The texts for one kind of exercise, to be filled with `{unit}` and `{name}`. `names`: what the entry imports from
    `spec.exercise`."""

    cells: str
    entry: str
    names: tuple[str, ...]


TRITON_IMPORTS = """

# %% cell="given"
import torch
import triton
import triton.language as tl
"""

_BEFORE = """

# %% [markdown]
# ## {name}
#
# HOLE: what {name} computes, its arguments as a table, and three hints in <details>


"""

_AFTER = """
# %% cell="check" exercise="{unit}/{name}"
lab.check("{unit}/{name}")
"""

_KERNEL_ENTRY = """

# --- {name} {rule}

register(
    KernelExercise(
        id="{unit}/{name}",
        # HOLE: a title for learners, and how many points {name} earns
        title="{name}",
        entry="{name}",
        points=Points(correct=2),
        # HOLE: the arguments of the launcher {name}, in order, with their dimensions
        arguments={{"x": array("n"), "out": out("n")}},
        # HOLE: what {name} computes from float64 tensors, and the same expression on absolute values
        reference=lambda x: x,
        magnitude=lambda x: x.abs(),
        # HOLE: terms that are added for one element; bytes read, bytes written and FLOPs of the whole
        contract=Contract(terms=1),
        cost=lambda sizes, item: Cost(item * sizes["n"], item * sizes["n"], sizes["n"]),
        # HOLE: cases around a block's size, with awkward values and addresses (see `_cases.py`), and how to draw one
        cases=(
            Case("one element", {{"n": 1}}),
            Case("n = 1025, one more than a block", {{"n": 1025}}, "position"),
            Case("n = 5000, not aligned to 16 bytes", {{"n": 5000}}, layout="offset"),
            Case("n = 3001, fp16", {{"n": 3001}}, dtype="float16"),
        ),
        draw=lambda rng: {{"n": rng.randrange(1, 5000)}},
        tiny=Case("ten elements", {{"n": 10}}, "integers"),
        bench={{"n": 2**27}},{language}
    )
)
"""

_KERNEL_NAMES = ("Case", "Contract", "Cost", "KernelExercise", "Points", "array", "out", "register")

TRITON = Skeleton(
    _BEFORE
    + '''# %% cell="solution" id="{name}_kernel"
@triton.jit
def {name}_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """HOLE: one line on what {name}_kernel writes; one program computes BLOCK elements."""
    ### BEGIN SOLUTION
    pid = tl.program_id(0)
    offs = pid * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    # HOLE: the body of {name}_kernel
    tl.store(out_ptr + offs, tl.load(x_ptr + offs, mask=mask), mask=mask)
    ### END SOLUTION


# %% cell="given" id="{name}"
def {name}(x, out, BLOCK=1024):
    n = x.numel()
    {name}_kernel[(triton.cdiv(n, BLOCK),)](x, out, n, BLOCK=BLOCK)


lab.tiny("{unit}/{name}")
'''
    + _AFTER,
    _KERNEL_ENTRY,
    _KERNEL_NAMES,
)

CUDA = Skeleton(
    _BEFORE
    + """# %% cell="solution" id="{name}_kernel"
# %%cuda
# // HOLE: one line on what {name}_kernel writes, and which elements a thread takes
# __global__ void {name}_kernel(const float* __restrict__ x, float* __restrict__ out, int n) {{
#     // ### BEGIN SOLUTION
#     int i = blockIdx.x * blockDim.x + threadIdx.x;
#     // HOLE: the body of {name}_kernel
#     if (i < n) out[i] = x[i];
#     // ### END SOLUTION
# }}


# %% cell="given" id="{name}"
def {name}(x, out):
    n = x.numel()
    {name}_kernel[(n + 255) // 256, 256](x, out, n)


lab.tiny("{unit}/{name}")
"""
    + _AFTER,
    _KERNEL_ENTRY.replace('            Case("n = 3001, fp16", {{"n": 3001}}, dtype="float16"),\n', ""),
    _KERNEL_NAMES,
)

PLAIN = Skeleton(
    _BEFORE
    + '''# %% cell="solution" id="{name}"
def {name}(n):
    """HOLE: one line on what {name} returns."""
    ### BEGIN SOLUTION
    # HOLE: the body of {name}
    return n
    ### END SOLUTION

'''
    + _AFTER,
    """

# --- {name} {rule}

register(
    PlainExercise(
        id="{unit}/{name}",
        # HOLE: a title for learners, and how many points {name} earns
        title="{name}",
        entry="{name}",
        points=Points(correct=1),
        # HOLE: what {name} returns, worked out in another way than in the solution where there is one
        reference=lambda n: n,
        # HOLE: cases that tell a right function from a nearly right one, and how to draw one
        cases=(
            Case("n = 1", {{"n": 1}}),
            Case("n = 1000", {{"n": 1000}}),
        ),
        draw=lambda rng: {{"n": rng.randrange(1, 10**6)}},
    )
)
""",
    ("Case", "PlainExercise", "Points", "register"),
)

MUTANTS = """\
# Mutants of {unit}/{name}: edits of its solution; `python -m grader audit` checks them.
# HOLE: common mistakes in {name}, as tables in the form below
#
# [short_name_of_the_mistake]
# expect = "wrong-values"                  # the diagnosis that it must get: a kind of labutils/check/diagnose.py
# why = "What this mutant does, in one sentence."
# edit = ['old text', 'new text']          # the old text occurs in the solution exactly once
#
# [another_mistake]
# expect = "tail-unmasked"
# why = "Edits of several lines are written like this; `edits` takes several pairs."
# edit = ['''
#     mask = offs < n
# ''', '''
#     mask = offs >= 0
# ''']
"""


def new_exercise(root: Path, exercise_id: str, skeleton: Skeleton = TRITON) -> list[Path]:
    """Write the skeleton of an exercise into the course in `root`; returns the files. Raises CannotAdd, and then
    nothing is written."""
    found = ID.fullmatch(exercise_id)
    if not found:
        raise CannotAdd(
            f"{exercise_id!r} is not an exercise id: write UNIT/EXERCISE, such as 06_elementwise_triton/saxpy."
        )
    unit, name = found.groups()
    if unit not in unit_names(root):
        raise CannotAdd(f"There is no unit {unit!r}; there are {', '.join(unit_names(root))}.")
    source, registry = root / "solutions" / unit / f"{unit}.py", registry_module(root, unit)
    mutants = source.parent / "mutants" / f"{name}.toml"
    text = source.read_text(encoding="utf-8")
    for module in sorted(registry.parent.glob("*.py")):
        if f'"{exercise_id}"' in module.read_text(encoding="utf-8"):
            raise CannotAdd(f"{exercise_id} is in labutils/exercises/{module.name} already.")
    if taken := re.search(rf'\bid="({name}|{name}_kernel)"', text):
        raise CannotAdd(f"{unit}.py has a cell with the id {taken[1]!r} already.")
    if taken := re.search(rf"^(?:# __global__ void|def) ({name}|{name}_kernel)\(", text, re.MULTILINE):
        raise CannotAdd(f"{unit}.py defines {taken[1]!r} already.")
    if mutants.exists():
        raise CannotAdd(f"{mutants.relative_to(root)} exists already.")

    words = {
        "unit": unit,
        "name": name,
        "rule": "-" * max(3, WIDTH - 7 - len(name)),
        "language": '\n        language="cuda",' if skeleton is CUDA else "",
    }
    cells = skeleton.cells.format(**words)
    if skeleton is TRITON and "import triton.language as tl" not in text:
        cells = TRITON_IMPORTS + cells
    entries = registry.read_text(encoding="utf-8") if registry.exists() else f'"""Unit {unit[:2]}: {unit[3:]}."""\n'
    entries = with_imports(entries, skeleton.names).rstrip("\n") + "\n" + skeleton.entry.format(**words)

    source.write_text(text.rstrip("\n") + "\n" + cells, encoding="utf-8")
    registry.write_text(entries, encoding="utf-8")
    mutants.parent.mkdir(exist_ok=True)
    mutants.write_text(MUTANTS.format(**words), encoding="utf-8")
    return [source, registry, mutants]


def with_imports(text: str, names: tuple[str, ...]) -> str:
    """The text of a registry module that imports these names from `spec.exercise`, beside those it imports."""
    tree, lines = ast.parse(text), text.split("\n")
    old = next((n for n in tree.body if isinstance(n, ast.ImportFrom) and n.module == "spec.exercise"), None)
    if old:
        wanted = {a.name for a in old.names} | set(names)
        lines[old.lineno - 1 : old.end_lineno] = _import(wanted)
    else:
        # After the docstring and the imports that are there; `ruff check --fix` puts them in order.
        head = [n for n in tree.body if isinstance(n, (ast.Import, ast.ImportFrom)) or n is tree.body[0]]
        last = max((n.end_lineno for n in head), default=0)
        lines[last:last] = ["", *_import(set(names))]
    return "\n".join(lines)


def _import(names: set[str]) -> list[str]:
    """In the order and the form of ruff: constants, classes, functions."""
    ordered = sorted(names, key=lambda n: (not n.isupper(), not n[0].isupper(), n))
    line = f"from ..spec.exercise import {', '.join(ordered)}"
    if len(line) <= WIDTH:
        return [line]
    return ["from ..spec.exercise import (", *(f"    {n}," for n in ordered), ")"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("exercise", metavar="UNIT/EXERCISE", help="its id, such as 06_elementwise_triton/saxpy")
    kinds = parser.add_mutually_exclusive_group()
    kinds.add_argument("--cuda", action="store_true", help="a kernel in CUDA C++; default: Triton")
    kinds.add_argument("--plain", action="store_true", help="a Python function without a kernel")
    parser.add_argument("--root", type=Path, default=ROOT, metavar="DIR", help="the course; default: this repository")


def main(args) -> int:
    skeleton = CUDA if args.cuda else PLAIN if args.plain else TRITON
    try:
        written = new_exercise(args.root, args.exercise, skeleton)
    except CannotAdd as problem:
        print(problem)
        return 1
    for path in written:
        print(path.relative_to(args.root))
    unit = args.exercise.split("/")[0]
    print(f"Fill each HOLE and remove its line; `python -m grader build {unit}` lists those that are left.")
    return 0
