"""Arithmetic of inline PTX as C++: each function gives the statement for one instruction."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .opcode import BITS, FLOATS, HALVES, INTEGERS, Opcode
from .registers import SCOPE, Registers, items
from .text import Negated, Operand, Pair, Vector

Rule = Callable[[Opcode, Sequence[Operand], Registers], str]
RULES: dict[str, Rule] = {}

_WIDE = {"u16": "u32", "s16": "s32", "u32": "u64", "s32": "s64"}

_FLOATING = FLOATS | HALVES


def rule(*names: str) -> Callable[[Rule], Rule]:
    def register(function: Rule) -> Rule:
        RULES.update(dict.fromkeys(names, function))
        return function

    return register


def expect(op: Opcode, o: Sequence[Operand], *counts: int) -> None:
    """The instruction has as many operands as it must, and no modifier is left over."""
    op.done()
    if len(o) not in counts:
        raise op.unsupported()


_PLAIN: dict[str, tuple[int, frozenset[str]]] = {
    "add": (2, INTEGERS | _FLOATING),
    "sub": (2, INTEGERS | _FLOATING),
    "min": (2, INTEGERS | _FLOATING),
    "max": (2, INTEGERS | _FLOATING),
    "abs": (1, INTEGERS | _FLOATING),
    "neg": (1, INTEGERS | _FLOATING),
    "fma": (3, _FLOATING),
    "rem": (2, INTEGERS),
    "sad": (3, INTEGERS),
    "and": (2, BITS | {"pred"}),
    "or": (2, BITS | {"pred"}),
    "xor": (2, BITS | {"pred"}),
    "not": (1, BITS | {"pred"}),
    "div": (2, INTEGERS | FLOATS),
    "rcp": (1, FLOATS),
    "sqrt": (1, FLOATS),
    "rsqrt": (1, FLOATS),
    "sin": (1, frozenset(["f32"])),
    "cos": (1, frozenset(["f32"])),
    "lg2": (1, frozenset(["f32"])),
    "ex2": (1, frozenset(["f32", "f16", "f16x2", "bf16", "bf16x2"])),
    "tanh": (1, frozenset(["f32", "f16", "f16x2", "bf16", "bf16x2"])),
    "copysign": (2, FLOATS),
}
"""Instructions of which every operand has the instruction's type: how many they read, and the types."""

_CPP_WORDS = ("and", "or", "xor", "not")
"""Names that are words of C++, too: the functions have an underscore behind them."""

_APPROXIMATE = ("div", "rcp", "sqrt", "rsqrt", "sin", "cos", "lg2", "ex2", "tanh")


@rule(*_PLAIN)
def _plain(op: Opcode, o: Sequence[Operand], r: Registers) -> str:
    count, types = _PLAIN[op.name]
    kind = op.type(*types)
    if kind in _FLOATING:
        op.take("rn")
    if op.name in _APPROXIMATE:
        op.take("approx", "full")
    return _call(op, f"{op.name}_" if op.name in _CPP_WORDS else op.name, kind, o, r, count)


def _call(op: Opcode, function: str, kind: str, o: Sequence[Operand], r: Registers, count: int) -> str:
    """`function` on operands of one type, with the modifiers that every float may have."""
    floating = kind in _FLOATING
    flushed, saturated = floating and op.take("ftz"), floating and op.take("sat")
    expect(op, o, count + 1)
    if saturated and kind.startswith("bf16"):  # PTX has no such form
        raise op.unsupported()
    values = [r.value(x, kind) for x in o[1:]]
    if flushed:
        values = [f"{SCOPE}flush({v})" for v in values]
    result = f"{SCOPE}{function}<{SCOPE}{kind}>({', '.join(values)})"
    result = f"{SCOPE}flush({result})" if flushed else result
    return r.put(o[0], f"{SCOPE}saturate({result})" if saturated else result)


@rule("mul", "mad")
def _product(op: Opcode, o: Sequence[Operand], r: Registers) -> str:
    kind, count = op.type(*INTEGERS, *_FLOATING), 2 if op.name == "mul" else 3
    if kind in _FLOATING:
        op.take("rn")
        return _call(op, "mul" if count == 2 else "fma", kind, o, r, count)
    part = op.need("lo", "hi", "wide")
    expect(op, o, count + 1)
    if part == "wide" and kind not in _WIDE:
        raise op.unsupported()
    result = _WIDE[kind] if part == "wide" else kind
    product = f"{SCOPE}mul_{part}<{SCOPE}{kind}>({r.value(o[1], kind)}, {r.value(o[2], kind)})"
    if count == 3:
        product = f"{SCOPE}add<{SCOPE}{result}>({product}, {r.value(o[3], result)})"
    return r.put(o[0], product)


@rule("shl", "shr")
def _shift(op: Opcode, o: Sequence[Operand], r: Registers) -> str:
    kind = op.type(*BITS, *(INTEGERS if op.name == "shr" else ()))
    expect(op, o, 3)
    return r.put(o[0], f"{SCOPE}{op.name}<{SCOPE}{kind}>({r.value(o[1], kind)}, {r.value(o[2], 'u32')})")


@rule("shf")
def _funnel(op: Opcode, o: Sequence[Operand], r: Registers) -> str:
    side, mode = op.need("l", "r"), op.need("wrap", "clamp")
    op.type("b32")
    expect(op, o, 4)
    values = ", ".join(r.value(x, "u32") for x in o[1:])
    return r.put(o[0], f"{SCOPE}shf_{side}({values}, {str(mode == 'clamp').lower()})")


@rule("popc", "clz", "brev")
def _bits(op: Opcode, o: Sequence[Operand], r: Registers) -> str:
    kind = op.type("b32", "b64")
    expect(op, o, 2)
    return r.put(o[0], f"{SCOPE}{op.name}({r.value(o[1], kind)})")


@rule("bfind")
def _bfind(op: Opcode, o: Sequence[Operand], r: Registers) -> str:
    shift, kind = op.take("shiftamt"), op.type("u32", "s32", "u64", "s64")
    expect(op, o, 2)
    return r.put(o[0], f"{SCOPE}bfind({r.value(o[1], kind)}, {str(bool(shift)).lower()})")


@rule("bfe")
def _bfe(op: Opcode, o: Sequence[Operand], r: Registers) -> str:
    kind = op.type("u32", "s32", "u64", "s64")
    expect(op, o, 4)
    return r.put(o[0], f"{SCOPE}bfe({r.value(o[1], kind)}, {r.value(o[2], 'u32')}, {r.value(o[3], 'u32')})")


@rule("bfi")
def _bfi(op: Opcode, o: Sequence[Operand], r: Registers) -> str:
    kind = op.type("b32", "b64")
    expect(op, o, 5)
    values = [r.value(o[1], kind), r.value(o[2], kind), r.value(o[3], "u32"), r.value(o[4], "u32")]
    return r.put(o[0], f"{SCOPE}bfi({', '.join(values)})")


@rule("lop3")
def _lop3(op: Opcode, o: Sequence[Operand], r: Registers) -> str:
    op.type("b32")
    expect(op, o, 5)
    return r.put(o[0], f"{SCOPE}lop3({', '.join(r.value(x, 'u32') for x in o[1:])})")


@rule("prmt")
def _prmt(op: Opcode, o: Sequence[Operand], r: Registers) -> str:
    op.type("b32")
    mode = op.take("f4e", "b4e", "rc8", "ecl", "ecr", "rc16") or "generic"
    expect(op, o, 4)
    return r.put(o[0], f"{SCOPE}prmt_{mode}({', '.join(r.value(x, 'u32') for x in o[1:])})")


@rule("dp4a")
def _dp4a(op: Opcode, o: Sequence[Operand], r: Registers) -> str:
    a, b = op.type("u32", "s32"), op.type("u32", "s32")
    expect(op, o, 4)
    return r.put(o[0], f"{SCOPE}dp4a({r.value(o[1], a)}, {r.value(o[2], b)}, {r.value(o[3], 'u32')})")


@rule("vabsdiff4")
def _vabsdiff4(op: Opcode, o: Sequence[Operand], r: Registers) -> str:
    for _ in range(3):
        op.type("u32")
    op.need("add")
    expect(op, o, 4)
    return r.put(o[0], f"{SCOPE}vabsdiff4_add({', '.join(r.value(x, 'u32') for x in o[1:])})")


# --- predicates

_SIGNED = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}
_ORDERED = ("eq", "ne", "lt", "le", "gt", "ge")
_UNORDERED = ("equ", "neu", "ltu", "leu", "gtu", "geu")


@rule("setp")
def _setp(op: Opcode, o: Sequence[Operand], r: Registers) -> str:
    comparison = op.need(*_ORDERED, *_SIGNED, *_UNORDERED, "num", "nan")
    joined, kind, flushed = op.take("and", "or", "xor"), op.type(*INTEGERS, *BITS, *FLOATS), op.take("ftz")
    expect(op, o, 4 if joined else 3)
    if comparison in (*_UNORDERED, "num", "nan") and kind not in FLOATS:
        raise op.unsupported()
    a, b = (f"{SCOPE}flush({v})" if flushed else v for v in (r.value(o[1], kind), r.value(o[2], kind)))
    result = f"{SCOPE}cmp_{_SIGNED.get(comparison, comparison)}<{SCOPE}{kind}>({a}, {b})"
    third = f", {r.value(o[3], 'pred')}" if joined else ""
    first, second = (o[0].first, o[0].second) if isinstance(o[0], Pair) else (o[0], None)

    def combined(p: str) -> str:
        return f"{SCOPE}{joined}_<{SCOPE}pred>({p}{third})" if joined else p

    if second is None:
        return r.put(first, combined(result))
    return (
        f"const bool simt_c = {result}; const bool simt_p = {combined('simt_c')}, simt_q = {combined('!simt_c')}; "
        f"{r.put(first, 'simt_p')} {r.put(second, 'simt_q')}"
    )


@rule("selp")
def _selp(op: Opcode, o: Sequence[Operand], r: Registers) -> str:
    kind = op.type(*INTEGERS, *BITS, *FLOATS)
    expect(op, o, 4)
    return r.put(o[0], f"({r.value(o[3], 'pred')} ? {r.value(o[1], kind)} : {r.value(o[2], kind)})")


# --- moves and conversions


@rule("mov")
def _mov(op: Opcode, o: Sequence[Operand], r: Registers) -> str:
    kind = op.type(*INTEGERS, *BITS, *FLOATS, "pred")
    expect(op, o, 2)
    bits = int(kind[1:]) if kind != "pred" else 0
    for vector in o:
        if isinstance(vector, Vector) and (bits % len(vector.items) or f"b{bits // len(vector.items)}" not in BITS):
            raise op.unsupported()
    if isinstance(o[1], Vector):
        part = f"b{bits // len(o[1].items)}"
        values = (
            f"({SCOPE}{kind}){r.value(x, part)} << {i * bits // len(o[1].items)}" for i, x in enumerate(o[1].items)
        )
        return r.put(o[0], f"({SCOPE}{kind})({' | '.join(values)})")
    if isinstance(o[0], Vector):
        part = bits // len(o[0].items)
        pieces = (r.put(x, f"({SCOPE}b{part})(simt_w >> {i * part})") for i, x in enumerate(o[0].items))
        return f"const {SCOPE}{kind} simt_w = {r.value(o[1], kind)}; {' '.join(pieces)}"
    if isinstance(o[1], Negated):
        raise op.unsupported()
    return r.put(o[0], r.value(o[1], kind))


@rule("cvt")
def _cvt(op: Opcode, o: Sequence[Operand], r: Registers) -> str:
    rounding = op.take("rn", "rna", "rni", "rzi", "rmi", "rpi")
    flushed, saturated = op.take("ftz"), op.take("sat")
    relu = op.take("relu")
    packed = op.take("f16x2", "bf16x2")
    if packed:
        op.type("f32")
        expect(op, o, 3)
        if rounding != "rn" or flushed or saturated:
            raise op.unsupported()
        high, low = (f"{SCOPE}relu({v})" if relu else v for v in (r.value(o[1], "f32"), r.value(o[2], "f32")))
        return r.put(o[0], f"{SCOPE}pack_{packed}({high}, {low})")
    if relu:
        raise op.unsupported()
    if op.take("tf32"):
        op.type("f32")
        expect(op, o, 2)
        if rounding not in ("rn", "rna"):
            raise op.unsupported()
        return r.put(o[0], f"{SCOPE}tf32_{rounding}({r.value(o[1], 'f32')})")
    to, of = (op.type(*INTEGERS, *FLOATS, "f16", "bf16") for _ in range(2))
    expect(op, o, 2)
    floats = FLOATS | {"f16", "bf16"}
    if rounding and of not in floats and (rounding != "rn" or to not in floats):
        raise op.unsupported()
    if of in floats and to not in floats and rounding not in ("rni", "rzi", "rmi", "rpi"):
        raise op.unsupported()
    rounds_twice = (to == "bf16" and of in INTEGERS) or (to in HALVES and of == "f64")  # through a float
    if rounds_twice or (flushed and "f32" not in (to, of)):
        raise op.unsupported()
    value = r.value(o[1], of)
    if of in floats:
        value = f"{SCOPE}flush({value})" if flushed and of == "f32" else value
        value = f"{SCOPE}{rounding}({SCOPE}widened({value}))" if rounding and rounding.endswith("i") else value
    converted = f"{SCOPE}converted<{SCOPE}{to}, {SCOPE}{of}>({value}, {str(bool(saturated)).lower()})"
    return r.put(o[0], f"{SCOPE}flush({converted})" if flushed and to == "f32" else converted)


@rule("cvta")
def _cvta(op: Opcode, o: Sequence[Operand], r: Registers) -> str:
    to, space, kind = op.take("to"), op.need("shared", "shared::cta", "global"), op.type("u32", "u64")
    expect(op, o, 2)
    value = r.value(o[1], kind)
    if space == "global":
        return r.put(o[0], value)
    return r.put(o[0], f"({SCOPE}{kind}){SCOPE}{'to_shared' if to else 'from_shared'}({value})")


def single(op: Opcode, o: Operand) -> Operand:
    """A register that is no vector."""
    if len(items(o)) != 1:
        raise op.unsupported()
    return items(o)[0]
