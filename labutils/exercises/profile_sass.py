"""Unit 25: what a listing of machine code says: width of global loads, matrix instructions, spills.

The stored listings are kernels of this course, compiled for sm_90 (`python -m bench.listings`).
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path

from ..spec.exercise import Case, Hint, PlainExercise, Points, register

UNIT = "25_profile"
STORED = Path(__file__).with_name("listings_sm90.json")

PUBLIC = (
    "vector_add",
    "gelu",
    "one fp16 value per thread",
    "an 8 x 8 tile in 48 registers",
    "matmul, copies straight to shared memory",
    "matmul, one warpgroup",
)

_INSTRUCTION = re.compile(r"^\s*/\*[0-9a-f]+\*/\s+(?:@!?U?P\w+ )?([A-Z0-9_.]+)", re.M)

Opcodes = list[str]
Answer = tuple[int, str | None, int]
"""(bytes per lane of the widest global load, family of the matrix instructions, instructions on local memory)"""


@cache
def listings() -> dict[str, str]:
    """Name -> listing, an instruction a line."""
    return json.loads(STORED.read_text(encoding="utf-8"))["listings"]


def opcodes(text: str) -> Opcodes:
    """The instructions' names with their suffixes, without guards such as `@P0`."""
    return _INSTRUCTION.findall(text)


def width(opcode: str) -> int:
    """Bytes per lane that a load or store moves: 4 unless a suffix gives the bits."""
    for part in opcode.split("."):
        if bits := re.fullmatch(r"[US]?(8|16|32|64|128)", part):
            return int(bits.group(1)) // 8
    return 4


def global_loads(text: str) -> list[int]:
    """The width of each LDG, in the order of the listing."""
    return [width(code) for code in opcodes(text) if code.split(".")[0] == "LDG"]


def read(text: str) -> Answer:
    first = [code.split(".")[0] for code in opcodes(text)]
    matrix = "wgmma" if "HGMMA" in first else "mma.sync" if "HMMA" in first else None
    return max(global_loads(text), default=0), matrix, sum(name in ("LDL", "STL") for name in first)


# --- common mistakes --------------------------------------------------------------------------------------------------


def _widest(choose: Callable[[str], bool]) -> Callable[[str], int]:
    return lambda text: max((width(code) for code in opcodes(text) if choose(code)), default=0)


def _name(line: str) -> str:
    """The name of the instruction in a line of a listing, without suffixes."""
    return next((code.split(".")[0] for code in opcodes(line)), "")


def _anywhere(line: str) -> int:
    """The greatest width that stands behind a dot anywhere in a line; 4 without one."""
    return max((int(bits) // 8 for bits in re.findall(r"\.[US]?(8|16|32|64|128)\b", line)), default=4)


WIDTHS: tuple[tuple[Callable[[str], int], str], ...] = (
    (lambda text: 8 * read(text)[0], "The suffix gives bits: divide it by 8."),
    (_widest(lambda code: code.startswith("LDGSTS") or code.split(".")[0] == "LDG"),
     "LDGSTS copies from global to shared memory. It is not an LDG: no register receives the data."),
    (_widest(lambda code: code.startswith("LDG")),
     "Compare the name before the first dot with LDG: LDGSTS and LDGDEPBAR only begin with it."),
    (_widest(lambda code: "LDG" in code),
     "LDGSTS and UTMALDG are other instructions: compare the name before the first dot."),
    (_widest(lambda code: code.split(".")[0] in ("LDG", "LDS")), "LDS loads from shared memory."),
    (_widest(lambda code: code.startswith("LD")),
     "LDS, LDL and LDC load from shared, local and constant memory. Only LDG loads from global memory."),
    (_widest(lambda code: code.split(".")[0] in ("LDG", "STG")), "STG stores. Only loads count here."),
    (lambda text: [*global_loads(text), 0][0],
     "That is the first LDG. Take the widest one: other LDGs handle the tail."),
    (lambda text: min(global_loads(text), default=0), "That is the narrowest LDG. Take the widest one."),
    (lambda text: [0, *global_loads(text)][-1], "That is the last LDG. Take the widest one."),
    (lambda text: 8 if read(text)[0] else 0,
     "The .64 in the address [R2.64] says that the address has 64 bits. The width is in the instruction's name."),
    (lambda text: max((_anywhere(line) for line in text.splitlines() if _name(line) == "LDG"), default=0),
     "The .64 of an address such as [R2.64] is no width: search only the suffixes of the instruction's name."),
    (lambda text: max((_anywhere(line) for line in text.splitlines()), default=0),
     "Look at the lines of LDG alone, and there at the suffixes of the name alone, not at the address."),
    (lambda text: 4 if read(text)[0] else 0,
     "4 bytes is the width without a suffix. U8, U16, 64 and 128 give other widths, in bits."),
)  # fmt: skip
"""Wrong ways to find the width, and the sentence that explains each."""

MATRIX: tuple[tuple[Callable[[str], str | None], str], ...] = (
    (lambda text: "mma.sync" if "MMA" in text and not re.search(r"HG?MMA", text) else read(text)[1],
     "HFMA2.MMA is no matrix instruction: the compiler uses this fp16 multiply-add to write a constant to a register."),
    (lambda text: "mma.sync" if read(text)[1] == "wgmma" else read(text)[1],
     "HGMMA is the instruction of wgmma: G is for warpgroup."),
    (lambda text: "wgmma" if read(text)[1] == "mma.sync" else read(text)[1],
     "HMMA is the instruction of mma.sync: one warp. HGMMA is the one of wgmma."),
    (lambda text: None, "Look for HMMA and HGMMA."),
)  # fmt: skip

_NAMES = {
    "only the loads": ("LDL",),
    "only the stores": ("STL",),
    "shared": ("LDL", "STL", "LDS", "STS"),
    "stores to shared": ("STL", "STS"),
    "constants": ("LDL", "STL", "LDC"),
}
LOCAL_HINTS = {
    "only the loads": "Those are the loads. Count the stores, STL, too.",
    "only the stores": "Those are the stores. Count the loads, LDL, too.",
    "shared": "LDS and STS access shared memory. LDL and STL access local memory.",
    "stores to shared": "STS stores to shared memory. LDL and STL access local memory.",
    "constants": "LDC loads from constant memory. LDL and STL access local memory.",
}


def _local_mistakes(text: str) -> list[tuple[object, str]]:
    codes = opcodes(text)
    plain = len([c for c in codes if c in ("LDL", "STL")])
    found = [
        (sum(c.split(".")[0] in names for c in codes), LOCAL_HINTS[kind]) for kind, names in _NAMES.items()
    ]  # fmt: skip
    guarded = sum(line.split()[1:2] in (["LDL"], ["STL"]) for line in text.splitlines())
    suffix = "LDL.LU and STL.64 are accesses to local memory, too: compare the name before the first dot."
    return [*found, (plain, suffix), (guarded, suffix), (0, "Count the LDL and STL instructions."),
            (4 * read(text)[2], "Count instructions, not bytes.")]  # fmt: skip


PARTS = ("the widest global load", "the matrix instruction", "instructions on local memory")


def _examine(sizes, arguments, yours) -> tuple[str, str] | None:
    text = arguments["text"]
    right = read(text)
    if not isinstance(yours, (tuple, list)) or len(yours) != 3:
        return (
            f"read_sass returned {str(yours)[:40]}",
            "Return three values: bytes of the widest global load, the matrix instruction, instructions on local "
            "memory.",
        )
    mistakes = (
        [(wrong(text), hint) for wrong, hint in WIDTHS],
        [(wrong(text), hint) for wrong, hint in MATRIX],
        _local_mistakes(text),
    )
    usual = (
        "Look at every line whose instruction is LDG, with or without a guard such as @P0.",
        "It is 'wgmma' for HGMMA, 'mma.sync' for HMMA, and None without either.",
        "Count the lines whose instruction is LDL or STL, with or without a guard such as @P0.",
    )
    for part, value, expected, wrong, hint in zip(PARTS, yours, right, mistakes, usual, strict=True):
        if type(value) is bool or value != expected:
            known = Hint.of(said for other, said in wrong if other == value and other is not True)
            return f"{part}: {str(value)[:30]!r}, expected {expected!r}", known or hint
    return None


# --- cases ------------------------------------------------------------------------------------------------------------

FILLER = (
    "IMAD.WIDE R{a}, R{b}, 0x4, R{c}", "IADD3 R{a}, R{b}, R{c}, RZ", "FFMA R{a}, R{b}, R{c}, R{a}",
    "LDC.64 R{a}, c[0x0][0x218]", "ULDC.64 UR4, c[0x0][0x208]", "HFMA2.MMA R{a}, -RZ, RZ, 0, 0",
    "ISETP.GE.AND P0, PT, R{a}, R{b}, PT", "@P0 BRA `(.L_x_{a})", "MUFU.RCP R{a}, R{b}",
    "STG.E.128 desc[UR4][R{a}.64], R{b}", "STG.E desc[UR4][R{a}.64], R{b}", "S2R R{a}, SR_TID.X",
    "BAR.SYNC.DEFER_BLOCKING 0x0", "HADD2.F32 R{a}, -RZ, R{b}.H0_H0",
)  # fmt: skip
GROUPS: tuple[tuple[str, ...], ...] = (
    ("LDG.E R{a}, desc[UR4][R{b}.64]", "@!P1 LDG.E R{a}, desc[UR4][R{b}.64]"),
    ("LDG.E.U8 R{a}, desc[UR4][R{b}.64]", "LDG.E.S8 R{a}, desc[UR4][R{b}.64]"),
    ("LDG.E.U16 R{a}, desc[UR4][R{b}.64]", "@P0 LDG.E.U16.CONSTANT R{a}, desc[UR4][R{b}.64]"),
    ("LDG.E.64 R{a}, desc[UR4][R{b}.64]", "@P2 LDG.E.64.CONSTANT R{a}, desc[UR4][R{b}.64]"),
    ("LDG.E.128 R{a}, desc[UR4][R{b}.64+0x10]", "@!P0 LDG.E.128.CONSTANT R{a}, desc[UR4][R{b}.64]"),
    ("LDS R{a}, [R{b}]", "LDS.128 R{a}, [R{b}+0x200]", "STS.128 [R{b}], R{a}", "@!P2 STS [R{b}+0x4], R{a}"),
    ("LDL R{a}, [R1+0x4]", "LDL.LU R{a}, [R1+0x8]", "STL [R1+0x4], R{a}", "@P1 STL.64 [R1+0x8], R{a}"),
    ("LDL.LU R{a}, [R1+0x8]", "@P3 LDL.LU R{a}, [R1+0x10]", "STL [R1+0x8], R{a}"),
    ("LDGSTS.E.BYPASS.LTC128B.128 [R{a}], desc[UR4][R{b}.64], P0", "LDGDEPBAR"),
    ("UTMALDG.2D [UR8], [UR4], desc[UR6]",),
    ("HMMA.16816.F32 R{a}, R{b}, R{c}, R{a}",),
    ("HGMMA.64x128x16.F32 R24, gdesc[UR8], R24, gsb0",),
)
"""What a drawn listing may hold beside the filler."""
_HMMA, _HGMMA = len(GROUPS) - 2, len(GROUPS) - 1


def drawn_listing(seed: int) -> str:
    """A listing of random lines: four to seven of the groups, between other instructions."""
    rng = random.Random(seed)
    groups = rng.sample(range(len(GROUPS)), rng.randrange(4, 8))
    if _HMMA in groups and _HGMMA in groups:
        groups.remove(_HMMA)
    lines = [rng.choice(FILLER) for _ in range(rng.randrange(10, 40))]
    for group in groups:
        lines += [rng.choice(GROUPS[group]) for _ in range(rng.randrange(1, 6))]
    rng.shuffle(lines)
    filled = [line.format(**{k: rng.randrange(2, 200) for k in "abc"}) for line in lines]
    return "".join(f"/*{16 * k:04x}*/ {line} ;\n" for k, line in enumerate([*filled, "EXIT"]))


GUARDED = 10
"""A seed whose listing has its widest global load behind a guard."""


def _arguments(listing: int, seed: int) -> dict[str, str]:
    return {"text": drawn_listing(seed) if seed else list(listings().values())[listing]}


register(
    PlainExercise(
        id=f"{UNIT}/read_sass",
        title="Read machine code",
        entry="read_sass",
        points=Points(correct=2),
        make=_arguments,
        examine=_examine,
        cases=(
            *(Case(name, {"listing": list(listings()).index(name), "seed": 0}) for name in PUBLIC),
            Case("a drawn listing, the widest load behind a guard", {"listing": 0, "seed": GUARDED}),
        ),
        draw=lambda rng: rng.choice([
            {"listing": rng.randrange(len(PUBLIC), len(listings())), "seed": 0},
            *[{"listing": 0, "seed": rng.randrange(1, 10**6)}] * 3,
        ]),
    )
)  # fmt: skip
