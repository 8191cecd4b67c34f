"""Which pipe of an SM each machine instruction takes, and how many bytes a thread loads before it waits.

Rates are those of compute capability 9.0, from the table "Throughput of Native Arithmetic Instructions" of the CUDA C++
Programming Guide: results per cycle and SM, so that a warp takes 32 · 4 / rate cycles of one of the four schedulers'
pipes.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from .cubin import Instruction

CYCLES = {"fp32": 1, "half": 1, "int": 2, "convert": 2, "fp64": 2, "special": 8}
"""Cycles that an instruction of a warp occupies its pipe: 128 results per cycle and SM for fp32 and fp16x2, 64 for
integers, comparisons, conversions and fp64, 16 for special functions and for what counts bits."""

_PIPES = {
    "fp32": ("FADD", "FMUL", "FFMA", "FSWZADD"),
    "half": ("HADD2", "HMUL2", "HFMA2"),
    "int": ("IMAD", "IMUL", "IADD", "IADD3", "LOP", "LOP3", "LEA", "SHF", "SHL", "SHR", "ISETP", "FSETP", "HSETP2",
            "IMNMX", "VIMNMX", "FMNMX", "HMNMX2", "SEL", "FSEL", "PRMT", "IABS", "FSET", "HSET2", "PLOP3", "VIADD",
            "BMSK", "SGXT", "FCHK"),
    "convert": ("I2FP", "F2FP", "I2F", "F2I", "F2F", "I2I", "FRND"),
    "special": ("MUFU", "POPC", "FLO", "BREV"),
    "fp64": ("DADD", "DMUL", "DFMA", "DSETP", "DMNMX"),
}  # fmt: skip

# IMAD multiplies in the pipe of fp32, so it does not queue behind additions and logic: half of the integer work at most
# waits for the other half. Both are counted in one pipe here, and copies in disguise, such as IMAD.MOV, as well.
_PIPE = {opcode: pipe for pipe, opcodes in _PIPES.items() for opcode in opcodes}


@dataclass(frozen=True)
class Part:
    """What a thread executes of a piece of code: cycles of the busiest pipe, bytes of global loads, wavefronts of
    shared memory without bank conflicts, and barriers."""

    busy: int = 0
    load: int = 0
    shared: int = 0
    barriers: int = 0


@dataclass(frozen=True)
class Schedule:
    """What the threads of a block execute `once`, and in one iteration of the loops.

    `flight`: bytes of a thread's global loads that are in flight before it needs the first of them. `copies`: loads
    go to shared memory while the threads work, by cp.async or the tensor memory accelerator.
    """

    once: Part
    loop: Part
    flight: int
    copies: bool

    @staticmethod
    def from_json(data: dict) -> Schedule:
        return Schedule(Part(**data["once"]), Part(**data["loop"]), data["flight"], data["copies"])


def schedule(code: Sequence[Instruction]) -> Schedule:
    """Read from the text: every instruction outside of loops is taken to run once, and all loops equally often.
    Subroutines, which handle what is rare in divisions and square roots, are left out."""
    code = list(itertools.takewhile(lambda i: not i.label.startswith("$"), code))
    code = [i for i in code if i.opcode != "NOP"]
    inside = _in_loops(code)
    once, loop = ([i for i, deep in zip(code, inside, strict=True) if deep == kind] for kind in (False, True))
    copies = any(i.opcode.startswith(("LDGSTS", "UTMALDG", "UBLKCP")) for i in code)
    return Schedule(_part(once), _part(loop), in_flight(code), copies)


def _part(code: Sequence[Instruction]) -> Part:
    return Part(
        _busy(code),
        sum(_width(i) for i in code if _base(i) in ("LDG", "LDGSTS")),
        sum(_wavefronts(i) for i in code),
        sum(_base(i) == "BAR" for i in code),
    )


def _wavefronts(instruction: Instruction) -> int:
    """128 bytes each, as many as banks give at a time."""
    opcode = _base(instruction)
    if opcode in ("LDSM", "STSM"):
        return int(match.group(1)) if (match := re.search(r"\.(\d)$", instruction.opcode)) else 1
    return max(1, _width(instruction) // 4) if opcode in ("LDS", "STS") else 0


def _in_loops(code: Sequence[Instruction]) -> list[bool]:
    """Whether each instruction is between the target of a backward branch and that branch. A branch to itself, with
    which every kernel ends, is no loop."""
    at = {i.label: k for k, i in enumerate(code) if i.label}
    inside = [False] * len(code)
    for k, instruction in enumerate(code):
        if instruction.opcode.startswith("BRA") and (target := re.search(r"\.L_x_\d+", instruction.text)):
            begin = at.get(target.group(), k)
            if begin < k:
                inside[begin : k + 1] = [True] * (k + 1 - begin)
    return inside


def _base(instruction: Instruction) -> str:
    return instruction.opcode.split(".")[0]


def _busy(code: Sequence[Instruction]) -> int:
    """Cycles of the busiest pipe; issuing takes one cycle for each instruction."""
    pipes: Counter[str] = Counter()
    for instruction in code:
        if pipe := _PIPE.get(_base(instruction)):
            pipes[pipe] += CYCLES[pipe]
    return max([len(code), *pipes.values()])


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
