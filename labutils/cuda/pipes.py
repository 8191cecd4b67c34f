"""Which pipe of an SM each machine instruction takes, and how many bytes a thread loads before it waits.

Rates are those of compute capability 9.0, from the table "Throughput of Native Arithmetic Instructions" of the CUDA C++
Programming Guide: results per cycle and SM, so that a warp takes 32 · 4 / rate cycles of one of the four schedulers'
pipes.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from .cubin import Instruction

CYCLES = {"fma": 1, "multiply": 2, "alu": 2, "convert": 2, "fp64": 2, "shuffle": 4, "special": 8}
"""Cycles that an instruction of a warp occupies its pipe: 128 results per cycle and SM for fp32 and fp16x2, 64 for
integers, comparisons, conversions and fp64, 32 for shuffles, 16 for special functions and for what counts bits. Integer
multiplications take one half of the fp32 pipe, additions and logic a pipe of their own."""

_PIPES = {
    "fma": ("FADD", "FMUL", "FFMA", "FSWZADD", "HADD2", "HMUL2", "HFMA2"),
    "multiply": ("IMAD", "IMUL"),
    "shuffle": ("SHFL",),
    "alu": ("IADD", "IADD3", "LOP", "LOP3", "LEA", "SHF", "SHL", "SHR", "ISETP", "FSETP", "HSETP2",
            "IMNMX", "VIMNMX", "FMNMX", "HMNMX2", "SEL", "FSEL", "PRMT", "IABS", "FSET", "HSET2", "PLOP3", "VIADD",
            "BMSK", "SGXT", "FCHK"),
    "convert": ("I2FP", "F2FP", "I2F", "F2I", "F2F", "I2I", "FRND"),
    "special": ("MUFU", "POPC", "FLO", "BREV"),
    "fp64": ("DADD", "DMUL", "DFMA", "DSETP", "DMNMX"),
}  # fmt: skip

_PIPE = {opcode: pipe for pipe, opcodes in _PIPES.items() for opcode in opcodes}


@dataclass(frozen=True)
class Part:
    """What a thread executes of a piece of code: cycles of the busiest pipe, bytes of global loads, wavefronts of
    shared memory without bank conflicts, barriers, and instructions. `either`: cycles of both sides of conditions, of
    which a warp whose lanes agree executes one. `skipped` and `skipped_load`: cycles and bytes that a condition may
    skip."""

    busy: int = 0
    load: int = 0
    shared: int = 0
    barriers: int = 0
    issued: int = 0
    either: int = 0
    skipped: int = 0
    skipped_load: int = 0


@dataclass(frozen=True)
class Schedule:
    """What the threads of a block execute `once`, and in one iteration of the loops.

    `flight`: bytes of a thread's global loads that are in flight before it needs the first of them. `copies`: loads
    go to shared memory while the threads work, by cp.async or the tensor memory accelerator. `atomics`: there are
    some in a loop. `spins`: a loop reads what another block writes.
    """

    once: Part
    loop: Part
    flight: int
    copies: bool
    atomics: bool = False
    spins: bool = False

    @staticmethod
    def from_json(data: dict) -> Schedule:
        return Schedule(**{**data, "once": Part(**data["once"]), "loop": Part(**data["loop"])})


def schedule(code: Sequence[Instruction]) -> Schedule:
    """Read from the text: every instruction outside of loops is taken to run once, and all loops equally often.
    Subroutines, which handle what is rare in divisions and square roots, are left out."""
    code = list(itertools.takewhile(lambda i: not i.label.startswith("$"), code))
    code = _usual([i for i in code if i.opcode != "NOP"])
    inside, either = _in_loops(code), _either(code)
    skipped = {k for begin, end in _skips(code) for k in range(begin + 1, end)}
    parts = []
    for kind in (False, True):
        kept = [k for k, deep in enumerate(inside) if deep == kind]
        of = [code[k] for k in kept if either[k]], [code[k] for k in kept if k in skipped and not either[k]]
        parts.append(_part([code[k] for k in kept], *of))
    copies = any(i.opcode.startswith(("LDGSTS", "UTMALDG", "UBLKCP")) for i in code)
    loop = [i.opcode for i, deep in zip(code, inside, strict=True) if deep]
    atomics = any(o.startswith(("ATOM", "RED.")) for o in loop)
    spins = any(_waits(code[first : last + 1]) for first, last in _loops(code) if last - first < SPIN)
    return Schedule(*parts, in_flight(code), copies, atomics, spins)


def _part(code: Sequence[Instruction], either: Sequence[Instruction], skipped: Sequence[Instruction]) -> Part:
    return Part(
        _busy(code),
        _load(code),
        sum(_wavefronts(i) for i in code),
        sum(_base(i) == "BAR" for i in code),
        len(code),
        _busy(either),
        _busy(skipped),
        _load(skipped),
    )


def _load(code: Sequence[Instruction]) -> int:
    """Bytes."""
    return sum(_width(i) for i in code if _base(i) in ("LDG", "LDGSTS"))


def _usual(code: Sequence[Instruction]) -> list[Instruction]:
    """Without calls of subroutines that a condition skips, and what belongs to them."""
    left = list(code)
    for k, end in _skips(code):
        between = range(k + 1, end)
        if any(_base(code[j]) == "CALL" and "$" in code[j].text for j in between) and len(between) <= SLOW_PATH:
            for j in between:
                left[j] = None
    return [i for i in left if i is not None]


SLOW_PATH = 12
"""Instructions around the call of a subroutine, at most."""


def _skips(code: Sequence[Instruction]) -> Iterator[tuple[int, int]]:
    """Conditional branches forward: from where to where."""
    at = {i.label: k for k, i in enumerate(code) if i.label}
    for k, i in enumerate(code):
        if i.text.startswith("@") and (target := _target(i)) and at.get(target, 0) > k:
            yield k, at[target]


def _either(code: Sequence[Instruction]) -> list[bool]:
    """Whether each instruction is on one of two sides of a condition: before the second one a branch skips it."""
    at, found = {i.label: k for k, i in enumerate(code) if i.label}, [False] * len(code)
    for k, other in _skips(code):
        last = code[other - 1]
        end = at.get(_target(last), 0) if not last.text.startswith("@") else 0
        if other - 1 > k and end > other:
            found[k + 1 : end] = [True] * (end - k - 1)
    return found


def _target(instruction: Instruction) -> str | None:
    """The label that a branch names."""
    found = re.search(r"\.L_x_\d+", instruction.text) if _base(instruction) == "BRA" else None
    return found.group() if found else None


def _wavefronts(instruction: Instruction) -> int:
    """128 bytes each, as many as banks give at a time."""
    opcode = _base(instruction)
    if opcode in ("LDSM", "STSM"):
        return int(match.group(1)) if (match := re.search(r"\.(\d)$", instruction.opcode)) else 1
    return max(1, _width(instruction) // 4) if opcode in ("LDS", "STS") else 0


SPIN = 40
"""Instructions of a loop that only waits, at most."""


def _waits(loop: Sequence[Instruction]) -> bool:
    """Whether it reads, past the L1, what another block may have written."""
    return any(_base(i) in ("LD", "LDG", "ATOM", "ATOMG") and ".STRONG." in i.opcode for i in loop)


def _loops(code: Sequence[Instruction]) -> Iterator[tuple[int, int]]:
    """First and last instruction: the target of a backward branch and that branch. A branch to itself, with which
    every kernel ends, is no loop, nor is one that comes back from behind the end, where the compiler puts what is
    rare."""
    at = {i.label: k for k, i in enumerate(code) if i.label}
    for k, instruction in enumerate(code):
        begin = at.get(_target(instruction) or "", k)
        if begin < k and not any(i.text == "EXIT" for i in code[begin:k]):
            yield begin, k


def _in_loops(code: Sequence[Instruction]) -> list[bool]:
    """Whether each instruction is in a loop."""
    inside = [False] * len(code)
    for begin, end in _loops(code):
        inside[begin : end + 1] = [True] * (end + 1 - begin)
    return inside


def _base(instruction: Instruction) -> str:
    return instruction.opcode.split(".")[0]


def _busy(code: Sequence[Instruction]) -> int:
    """Cycles of the busiest pipe; issuing takes one cycle for each instruction."""
    counts = Counter(_PIPE.get(_base(instruction)) for instruction in code)
    both_halves = counts["fma"] + counts["multiply"]
    return max([len(code), both_halves, *(cycles * counts[pipe] for pipe, cycles in CYCLES.items())])


def _width(instruction: Instruction) -> int:
    bits = re.search(r"\.[US]?(8|16|32|64|128)(?:\.|$)", instruction.opcode)
    return int(bits.group(1)) // 8 if bits else 4


def in_flight(code: Sequence[Instruction]) -> int:
    """The most bytes that global loads to registers have requested before an instruction reads one of the registers."""
    most, waiting, pending = 0, 0, set()
    for instruction in code:
        opcode, _, operands = instruction.text.partition(" ")
        if opcode.startswith("@"):
            operands = operands.partition(" ")[2]
        read = operands
        if _base(instruction) == "LDG":
            target, _, read = operands.partition(",")
        if pending and pending & _registers(read):
            waiting, pending = 0, set()
        if _base(instruction) == "LDG" and (number := re.match(r"R(\d+)", target)):
            width = _width(instruction)
            first = int(number.group(1))
            pending |= set(range(first, first + max(1, width // 4)))
            waiting += width
            most = max(most, waiting)
    return most


def _registers(operands: str) -> set[int]:
    """Numbers of the registers in a text; of a pair ("R2.64") both."""
    found = set()
    for number, pair in re.findall(r"\bR(\d+)(\.64)?", operands):
        found |= {int(number), int(number) + 1} if pair else {int(number)}
    return found
