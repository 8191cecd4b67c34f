"""Instructions of PTX on numbers, each with the result that the PTX ISA's pseudocode gives."""

import struct
from typing import NamedTuple


class Case(NamedTuple):
    """An instruction with `%0` as its result, its inputs by constraint ("r" an integer, "f" a float, …), the result's
    constraint and the result as an integer of its bits."""

    text: str
    inputs: tuple
    expected: int
    output: str = "r"


def f32(x: float) -> int:
    return struct.unpack("<I", struct.pack("<f", x))[0]


def f16(x: float) -> int:
    return struct.unpack("<H", struct.pack("<e", x))[0]


def bf16(x: float) -> int:
    return f32(x) >> 16


def halves(low: float, high: float, kind=f16) -> int:
    return kind(low) | kind(high) << 16


def r(*values: int) -> tuple:
    return tuple(("r", v & 0xFFFFFFFF) for v in values)


def f(*values: float) -> tuple:
    return tuple(("f", v) for v in values)


A, B, C = 0x80C0FFEE, 0x1234ABCD, 0x0F0F3355
MASK = 0xFFFFFFFF

CASES = [
    Case("add.s32 %0, %1, %2;", r(-5, 3), -2 & MASK),
    Case("add.u32 %0, %1, 0x10;", r(MASK), 15),
    Case("add.u64 %0, %1, %2;", (("l", 1 << 40), ("l", 5)), (1 << 40) + 5, "l"),
    Case("add.rn.f32 %0, %1, %2;", f(1.5, 2.25), f32(3.75), "f"),
    Case("add.f16x2 %0, %1, %2;", r(halves(1.5, -2), halves(0.25, 7)), halves(1.75, 5)),
    Case("add.ftz.f32 %0, %1, %2;", f(1e-39, 0.0), f32(0.0), "f"),
    Case("sub.s32 %0, %1, %2;", r(3, 5), -2 & MASK),
    Case("mul.lo.u32 %0, %1, %2;", r(A, B), A * B & MASK),
    Case("mul.hi.u32 %0, %1, %2;", r(A, B), A * B >> 32),
    Case("mul.hi.s32 %0, %1, %2;", r(A, 4), ((A - (1 << 32)) * 4 >> 32) & MASK),
    Case("mul.wide.u32 %0, %1, %2;", r(A, B), A * B, "l"),
    Case("mul.wide.s32 %0, %1, %2;", r(-3, 7), -21 & (1 << 64) - 1, "l"),
    Case("mul.f32 %0, %1, 0f40000000;", f(1.5), f32(3.0), "f"),
    Case("mul.rn.sat.f32 %0, %1, %2;", f(3.0, 2.0), f32(1.0), "f"),
    Case("mad.lo.s32 %0, %1, %2, %3;", r(-3, 7, 5), -16 & MASK),
    Case("mad.wide.u32 %0, %1, %2, %3;", (*r(A, B), ("l", 9)), A * B + 9, "l"),
    Case("fma.rn.f32 %0, %1, %2, %3;", f(1 + 2**-23, 1 + 2**-23, -1.0), f32(2**-22 + 2**-46), "f"),
    Case("fma.rn.f16x2 %0, %1, %2, %3;", r(halves(2, 3), halves(4, 5), halves(1, 1)), halves(9, 16)),
    Case("fma.rn.bf16x2 %0, %1, %2, %3;", r(*(halves(*p, bf16) for p in ((2, 3), (4, 5), (1, 1)))),
         halves(9, 16, bf16)),
    Case("fma.rn.f16x2 %0, %1, %2, %3;", r(*(halves(v, v) for v in (1 + 2**-10, 1023 * 2**-21, 1 + 2**-10))),
         halves(1 + 2**-10, 1 + 2**-10)),  # 1 + 2^-9 where it is rounded to a float first
    Case("fma.rn.f16x2 %0, %1, %2, %3;", r(halves(-1024, 3), halves(1024, 2**-24), halves(2**-24, 65504)),
         halves(float("-inf"), 65504)),
    Case("div.s32 %0, %1, %2;", r(-7, 2), -3 & MASK),
    Case("div.full.f32 %0, %1, %2;", f(7.0, 2.0), f32(3.5), "f"),
    Case("rem.s32 %0, %1, %2;", r(-7, 2), -1 & MASK),
    Case("abs.s32 %0, %1;", r(-7), 7),
    Case("abs.f32 %0, %1;", f(-7.5), f32(7.5), "f"),
    Case("neg.s32 %0, %1;", r(7), -7 & MASK),
    Case("sad.u32 %0, %1, %2, %3;", r(3, 10, 100), 107),
    Case("min.s32 %0, %1, %2;", r(-1, 1), MASK),
    Case("min.u32 %0, %1, %2;", r(-1, 1), 1),
    Case("max.f32 %0, %1, %2;", f(float("nan"), 2.0), f32(2.0), "f"),
    Case("max.f16x2 %0, %1, %2;", r(halves(1, 5), halves(2, 3)), halves(2, 5)),
    Case("copysign.f32 %0, %1, %2;", f(-1.0, 5.0), f32(-5.0), "f"),
    Case("rcp.approx.f32 %0, %1;", f(4.0), f32(0.25), "f"),
    Case("sqrt.rn.f32 %0, %1;", f(9.0), f32(3.0), "f"),
    Case("rsqrt.approx.ftz.f32 %0, %1;", f(16.0), f32(0.25), "f"),
    Case("ex2.approx.ftz.f32 %0, %1;", f(3.0), f32(8.0), "f"),
    Case("ex2.approx.f16x2 %0, %1;", r(halves(3, -1)), halves(8, 0.5)),
    Case("ex2.approx.ftz.bf16x2 %0, %1;", r(halves(3, -1, bf16)), halves(8, 0.5, bf16)),
    Case("lg2.approx.f32 %0, %1;", f(8.0), f32(3.0), "f"),
    Case("sin.approx.f32 %0, %1;", f(0.0), f32(0.0), "f"),
    Case("cos.approx.f32 %0, %1;", f(0.0), f32(1.0), "f"),
    Case("tanh.approx.f32 %0, %1;", f(0.0), f32(0.0), "f"),
    Case("and.b32 %0, %1, %2;", r(A, B), A & B),
    Case("or.b32 %0, %1, %2;", r(A, B), A | B),
    Case("xor.b32 %0, %1, %2;", r(A, B), A ^ B),
    Case("not.b32 %0, %1;", r(A), ~A & MASK),
    Case("shl.b32 %0, %1, %2;", r(A, 7), A << 7 & MASK),
    Case("shl.b32 %0, %1, %2;", r(A, 32), 0),
    Case("shr.u32 %0, %1, %2;", r(A, 7), A >> 7),
    Case("shr.s32 %0, %1, %2;", r(A, 40), MASK),
    Case("shf.l.wrap.b32 %0, %1, %2, %3;", r(A, B, 36), (B << 4 | A >> 28) & MASK),
    Case("shf.r.clamp.b32 %0, %1, %2, %3;", r(A, B, 40), B),
    Case("popc.b32 %0, %1;", r(A), A.bit_count()),
    Case("clz.b32 %0, %1;", r(B), 3),
    Case("clz.b64 %0, %1;", (("l", 1),), 63),
    Case("brev.b32 %0, %1;", r(B), int(f"{B:032b}"[::-1], 2)),
    Case("bfind.u32 %0, %1;", r(B), 28),
    Case("bfind.s32 %0, %1;", r(-1), MASK),
    Case("bfind.shiftamt.u32 %0, %1;", r(B), 3),
    Case("bfe.u32 %0, %1, %2, %3;", r(B, 8, 12), B >> 8 & 0xFFF),
    Case("bfe.s32 %0, %1, %2, %3;", r(A, 28, 8), 0xFFFFFFF8),
    Case("bfi.b32 %0, %1, %2, %3, %4;", r(A, B, 4, 8), B & ~0xFF0 | (A & 0xFF) << 4),
    Case("lop3.b32 %0, %1, %2, %3, 0xea;", r(A, B, C), (A & B) | C),
    Case("lop3.b32 %0, %1, %2, %3, 0x96;", r(A, B, C), A ^ B ^ C),
    Case("prmt.b32 %0, %1, %2, 0x7531;", r(0x03020100, 0x07060504), 0x07050301),
    Case("prmt.b32 %0, %1, %2, %3;", r(A, B, 0x000B), 0xEEEEEEFF),
    Case("prmt.b32.f4e %0, %1, %2, %3;", r(0x03020100, 0x07060504, 1), 0x04030201),
    Case("prmt.b32.b4e %0, %1, %2, %3;", r(0x03020100, 0x07060504, 1), 0x06070001),
    Case("prmt.b32.rc8 %0, %1, %2, %3;", r(0x03020100, 0, 2), 0x02020202),
    Case("prmt.b32.ecl %0, %1, %2, %3;", r(0x03020100, 0, 2), 0x03020202),
    Case("prmt.b32.ecr %0, %1, %2, %3;", r(0x03020100, 0, 2), 0x02020100),
    Case("prmt.b32.rc16 %0, %1, %2, %3;", r(0x03020100, 0, 1), 0x03020302),
    Case("dp4a.s32.s32 %0, %1, %2, %3;", r(0xFF02FE04, 0x01020304, 10), -1 + 4 - 6 + 16 + 10),
    Case("dp4a.u32.u32 %0, %1, %2, %3;", r(0xFF000001, 0x02000003, 1), 514),
    Case("vabsdiff4.u32.u32.u32.add %0, %1, %2, %3;", r(0x01FF0305, 0x02000303, 7), 1 + 255 + 0 + 2 + 7),
    Case("{ .reg .pred p; setp.lt.s32 p, %1, %2; selp.u32 %0, 10, 20, p; }", r(-1, 1), 10),
    Case("{ .reg .pred p; setp.lo.u32 p, %1, %2; selp.u32 %0, 10, 20, p; }", r(-1, 1), 20),
    Case("{ .reg .pred p; setp.neu.f32 p, %1, %2; selp.u32 %0, 10, 20, p; }", f(float("nan"), 1.0), 10),
    Case("{ .reg .pred p, q; setp.eq.and.s32 p|q, %1, %2, 1; selp.u32 %0, 10, 20, q; }", r(4, 5), 10),
    Case("{ .reg .pred %%p<3>; setp.ne.b32 %%p2, %1, 0; mov.u32 %0, 1; @!%%p2 mov.u32 %0, 2; }", r(0), 2),
    Case("{ .reg .u32 i; mov.u32 i, 0; mov.u32 %0, 0; L%=: add.u32 %0, %0, i; add.u32 i, i, 1; .reg .pred p; "
         "setp.le.u32 p, i, %1; @p bra L%=; }", r(10), 55),
    Case("mov.b32 %0, {%1, %2};", (("h", 0x1234), ("h", 0xABCD)), 0xABCD1234),
    Case("mov.b64 %0, {%1, %2};", r(A, B), A | B << 32, "l"),
    Case("{ .reg .b16 low, high; mov.b32 {low, high}, %1; mov.b32 %0, {high, low}; }", r(A), A << 16 & MASK | A >> 16),
    Case("cvt.rn.f16x2.f32 %0, %1, %2;", f(1.5, -2.0), halves(-2.0, 1.5)),
    Case("cvt.rn.relu.bf16x2.f32 %0, %1, %2;", f(1.5, -2.0), halves(0.0, 1.5, bf16)),
    Case("cvt.rn.f16.f32 %0, %1;", f(1.5), f16(1.5), "h"),
    Case("cvt.rn.f16.s32 %0, %1;", r(-2049), f16(-2048), "h"),
    Case("cvt.f32.f16 %0, %1;", (("h", f16(-2.5)),), f32(-2.5), "f"),
    Case("cvt.rna.tf32.f32 %0, %1;", f(1.0 + 2**-11), f32(1.0 + 2**-10)),
    Case("{ .reg .b32 t; .reg .pred p; cvt.rna.tf32.f32 t, %1; setp.nan.f32 p, t, t; selp.u32 %0, 1, 0, p; }",
         f(float("nan")), 1),
    Case("cvt.rzi.s32.f32 %0, %1;", f(float("nan")), 0),
    Case("cvt.rzi.s64.f32 %0, %1;", f(float("nan")), 1 << 63, "l"),
    Case("cvt.rzi.s32.f32 %0, %1;", f(1e20), 0x7FFFFFFF),
    Case("cvt.rzi.s32.f32 %0, %1;", f(-2.7), -2 & MASK),
    Case("cvt.rni.s32.f32 %0, %1;", f(2.5), 2),
    Case("cvt.rzi.u32.f32 %0, %1;", f(-2.7), 0),
    Case("cvt.rmi.f32.f32 %0, %1;", f(-2.7), f32(-3.0), "f"),
    Case("cvt.rn.f32.s32 %0, %1;", r(-3), f32(-3.0), "f"),
    Case("cvt.u64.u32 %0, %1;", r(A), A, "l"),
    Case("cvt.s64.s32 %0, %1;", r(-1), (1 << 64) - 1, "l"),
    Case("cvt.u32.u64 %0, %1;", (("l", 1 << 40 | 7),), 7),
    Case("cvt.sat.u8.s32 %0, %1;", r(300), 255),
]  # fmt: skip
"""Instructions that one thread does for itself."""

_TYPES = {"h": "unsigned short", "r": "unsigned", "l": "unsigned long long", "f": "float"}


def _literal(constraint: str, value) -> str:
    if constraint == "f":
        return f"__uint_as_float({f32(value)}u)"
    return f"({_TYPES[constraint]}){value}ull"


def kernel() -> str:
    """A kernel that does all of `CASES` and writes the bits of their results, each 64 wide."""
    lines = ["__global__ void k(unsigned long long* out) {"]
    for i, c in enumerate(CASES):
        inputs = ", ".join(f'"{kind}"({_literal(kind, value)})' for kind, value in c.inputs)
        bits = "__float_as_uint(d)" if c.output == "f" else "d"
        lines.append(
            f'{{ {_TYPES[c.output]} d; asm volatile("{c.text}" : "={c.output}"(d) : {inputs}); out[{i}] = {bits}; }}'
        )
    return "\n".join([*lines, "}"])
