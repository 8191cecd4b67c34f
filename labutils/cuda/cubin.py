"""What the compiler made of a kernel, for any GPU and without one: registers, spills, shared memory, SASS.

Reads cubins, whether NVRTC or Triton made them, with the disassemblers that come with Triton.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import re
import subprocess
import tempfile
import zlib
from collections import Counter
from dataclasses import dataclass
from enum import IntFlag
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from .. import environment
from ..gpu.device import limits_for
from ..gpu.occupancy import Occupancy, occupancy

if TYPE_CHECKING:
    from .kernel import Kernel

MATRIX = {
    "UTCHMMA": "tcgen05",
    "UTCQMMA": "tcgen05",
    "HGMMA": "wgmma",
    "QGMMA": "wgmma",
    "IGMMA": "wgmma",
    "HMMA": "mma.sync",
    "IMMA": "mma.sync",
    "QMMA": "mma.sync",
    "OMMA": "mma.sync",
    "DMMA": "mma.sync",
}
"""Machine instructions of the tensor cores, and the PTX family they come from; the most modern first."""


class ToolMissing(RuntimeError):
    """The disassembler is not here; the message says where it comes from."""


@dataclass(frozen=True)
class Resources:
    """Per thread: `registers` (32-bit) and `stack` bytes (spills and local arrays); per block: `shared` bytes."""

    registers: int
    stack: int
    shared: int

    def occupancy(self, capability: tuple[int, int], threads: int, dynamic_shared: int = 0) -> Occupancy:
        return occupancy(limits_for(capability), threads, self.registers, self.shared + dynamic_shared)


@dataclass(frozen=True)
class Instruction:
    """One machine instruction and the source line it comes from (None where the compiler does not say). `label`: the
    name that a branch to it has; that of a subroutine begins with "$"."""

    text: str
    line: int | None
    label: str = ""

    @property
    def opcode(self) -> str:
        words = self.text.split()
        return words[1] if words[0].startswith("@") else words[0]


@cache
def _tool(name: str) -> str:
    try:
        import triton
    except ImportError:
        raise ToolMissing(
            f"{name} comes with Triton, which is not installed here (pip install triton, on Linux)"
        ) from None
    path = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / name
    if not path.exists():
        raise ToolMissing(f"this Triton has no {name}")
    return str(path)


def _run(name: str, cubin: bytes, *arguments: str) -> str:
    with tempfile.NamedTemporaryFile(suffix=".cubin") as f:
        f.write(cubin)
        f.flush()
        done = subprocess.run([_tool(name), *arguments, f.name], capture_output=True, text=True, timeout=60)
    if done.returncode:
        raise RuntimeError(f"{name} failed: {done.stderr.strip()[:300]}")
    return done.stdout


def _disassembled(cubin: bytes) -> str:
    """From the cache, or else by the disassembler, which takes half a second to start."""
    path = environment.cache_folder() / "sass" / (hashlib.sha256(cubin).hexdigest() + ".gz")
    with contextlib.suppress(OSError, EOFError, zlib.error):
        return gzip.decompress(path.read_bytes()).decode()
    text = _run("nvdisasm", cubin, "--print-line-info")
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as f:
            f.write(gzip.compress(text.encode(), 1))
        Path(f.name).replace(path)
    return text


def capability(cubin: bytes) -> tuple[int, int]:
    """The compute capability that a cubin is for, from its ELF flags (bits 0–7; 8–15 since ABI 8)."""
    flags = int.from_bytes(cubin[48:52], "little")
    sm = (flags >> 8 if cubin[8] >= 8 else flags) & 0xFF
    return divmod(sm, 10)


def resources(cubin: bytes) -> dict[str, Resources]:
    """Resources of every kernel in a cubin, by symbol."""
    # from 9.0 on the figure holds the kilobyte that the system reserves in each block that uses shared memory
    reserve = 1024 if capability(cubin) >= (9, 0) else 0
    text = _run("cuobjdump", cubin, "--dump-resource-usage")
    found = {}
    for name, body in re.findall(r"Function ([^\s:]+):\s*\n\s*(REG:.*)", text):
        value = dict(re.findall(r"(\w+):(\d+)", body))
        found[name] = Resources(int(value["REG"]), int(value["STACK"]), max(0, int(value["SHARED"]) - reserve))
    return found


def of(kernel: Kernel, capability: tuple[int, int] = (9, 0)) -> Resources:
    """Resources of a CUDA C++ kernel, compiled for that GPU; needs none. `lab.inspect.of(kernel, (8, 0)).registers`."""
    compiled = kernel.compiled(10 * capability[0] + capability[1])
    return resources(compiled.cubin)[compiled.lowered[kernel.name]]


def sass(cubin: bytes) -> dict[str, list[Instruction]]:
    """Machine instructions of every kernel in a cubin, by symbol, with source lines where the cubin holds them."""
    kernels: dict[str, list[Instruction]] = {}
    current, line, label = None, None, ""
    for text in _disassembled(cubin).splitlines():
        if section := re.match(r"\s*\.section\s+\.text\.([^,\s]+)", text):
            current, line = kernels.setdefault(section.group(1), []), None
        elif place := re.search(r"//##.*, line (\d+)", text):
            line = int(place.group(1))
        elif target := re.match(r"(\.L_x_\d+|\$\S+):", text):
            label = target.group(1)
        elif current is not None and (code := re.match(r"\s*/\*[0-9a-f]+\*/\s+(.*?)\s*;", text)):
            current.append(Instruction(" ".join(code.group(1).split()), line, label))
            label = ""
    return {name: code for name, code in kernels.items() if code}


def matrix_instruction(code: list[Instruction]) -> str | None:
    """The tensor-core family that a kernel uses ("wgmma", "mma.sync", "tcgen05"), or None."""
    opcodes = {i.opcode.split(".")[0] for i in code}
    return next((family for opcode, family in MATRIX.items() if opcode in opcodes), None)


def mix(code: list[Instruction]) -> Counter[str]:
    """How often each opcode stands in the code, with its width ("LDG.E.128")."""
    return Counter(".".join(p for p in i.opcode.split(".") if p not in ("CONSTANT", "STRONG", "GPU")) for i in code)


class Form(IntFlag):
    """What the machine code of a source line does that its text does not say: loads of shared memory of 8 and of 16
    bytes, which several narrow ones can have become, and atomics for which one lane of a warp stands in for all (these
    bits are `kLoads8`, `kLoads16` and `kElects` of the emulator's runtime)."""

    LOADS_8 = 1
    LOADS_16 = 2
    ELECTS = 4


def forms(code: list[Instruction]) -> dict[int, Form]:
    """The forms of each source line that has any."""
    found: dict[int, Form] = {}
    votes = {i.line for i in code if i.opcode in ("VOTE.ANY", "VOTEU.ANY")}
    for i in code:
        opcode, _, kind = i.opcode.partition(".")
        wide = opcode == "LDS" and re.search(r"\b(64|128)\b", kind)
        elects = opcode in ("RED", "REDG", "ATOM", "ATOMG") and i.text.startswith("@") and i.line in votes
        form = Form.ELECTS if elects else wide and (Form.LOADS_8 if wide[1] == "64" else Form.LOADS_16)
        if form and i.line:
            found[i.line] = found.get(i.line, Form(0)) | form
    return found


def access_width(code: list[Instruction], opcode: str = "LDG") -> int | None:
    """The widest access of that opcode in bytes: 16 means that four floats move at a time; None if there is none."""
    widths = [
        int(bits.group(1)) // 8 if (bits := re.search(r"\.[US]?(8|16|32|64|128)(?:\.|$)", i.opcode)) else 4
        for i in code
        if i.opcode.split(".")[0] == opcode
    ]
    return max(widths, default=None)
