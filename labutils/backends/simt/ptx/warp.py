"""What the lanes of a warp do together in inline PTX, and barriers, as C++."""

from __future__ import annotations

from collections.abc import Sequence

from .arithmetic import expect, rule, single
from .opcode import Opcode
from .registers import SCOPE, Registers, items
from .text import Name, Operand, Pair

_DEPTH = {"f16": 2, "bf16": 2, "tf32": 1, "s8": 4, "u8": 4}
"""Elements of an operand of `mma` in one register of 32 bits, by type."""

_SHAPES = {"m16n8k4": ["tf32"], "m16n8k8": ["f16", "bf16", "tf32"], "m16n8k16": ["f16", "bf16", "s8", "u8"],
           "m16n8k32": ["s8", "u8"]}  # fmt: skip


@rule("mma")
def _mma(op: Opcode, o: Sequence[Operand], r: Registers) -> str:
    op.need("sync")
    op.need("aligned")
    shape = op.need(*_SHAPES)
    op.need("row")
    op.need("col")
    types, op.modifiers = op.modifiers, []
    expect(op, o, 4)
    if len(types) != 4 or types[0] != types[3] or not {*types[1:3]} <= {*_SHAPES[shape]}:
        raise op.unsupported()
    result, a, b, _ = types
    results = ("s32",) if a in ("s8", "u8") else ("f32", "f16") if a == "f16" else ("f32",)
    if (a != b and "s32" not in results) or result not in results:
        raise op.unsupported()
    registers = int(shape[6:]) // (4 * _DEPTH[a])  # of b; a has twice as many
    lengths = [2 if result == "f16" else 4, 2 * registers, registers, 2 if result == "f16" else 4]
    if [len(items(x)) for x in o] != lengths:
        raise op.unsupported()
    kind = "b32" if result == "f16" else result
    d, (a_values, b_values, c_values) = items(o[0]), [
        ", ".join(r.value(x, t) for x in items(v)) for v, t in zip(o[1:], ("b32", "b32", kind), strict=True)
    ]  # fmt: skip
    sums = f"{SCOPE}{kind} simt_d[] = {{{c_values}}};"
    factors = f"const {SCOPE}b32 simt_a[] = {{{a_values}}}, simt_b[] = {{{b_values}}};"
    call = f"{SCOPE}mma<{SCOPE}of_{a}, {SCOPE}of_{b}, {registers}>(simt_d, simt_a, simt_b);"
    return f"{sums} {factors} {call} {' '.join(r.put(x, f'simt_d[{i}]') for i, x in enumerate(d))}"


def _matrices(op: Opcode) -> tuple[int, str]:
    """How many matrices of 8 x 8, and whether they are transposed, as C++."""
    op.need("sync")
    op.need("aligned")
    op.need("m8n8")
    count, transposed = op.need("x1", "x2", "x4"), op.take("trans")
    op.take("shared", "shared::cta")
    op.type("b16")
    return int(count[1]), str(bool(transposed)).lower()


@rule("ldmatrix")
def _ldmatrix(op: Opcode, o: Sequence[Operand], r: Registers) -> str:
    space = "shared" if {"shared", "shared::cta"} & {*op.modifiers} else "generic"
    count, transposed = _matrices(op)
    expect(op, o, 2)
    if len(items(o[0])) != count:
        raise op.unsupported()
    puts = " ".join(r.put(x, f"simt_m[{i}]") for i, x in enumerate(items(o[0])))
    call = f"{SCOPE}ldmatrix<{count}, {transposed}>(simt_m, {r.address(o[1], space)});"
    return f"{SCOPE}b32 simt_m[{count}]; {call} {puts}"


@rule("stmatrix")
def _stmatrix(op: Opcode, o: Sequence[Operand], r: Registers) -> str:
    space = "shared" if {"shared", "shared::cta"} & {*op.modifiers} else "generic"
    count, transposed = _matrices(op)
    expect(op, o, 2)
    if len(items(o[1])) != count:
        raise op.unsupported()
    values = ", ".join(r.value(x, "b32") for x in items(o[1]))
    pointer = r.address(o[0], space)
    return f"const {SCOPE}b32 simt_m[] = {{{values}}}; {SCOPE}stmatrix<{count}, {transposed}>({pointer}, simt_m);"


@rule("shfl")
def _shfl(op: Opcode, o: Sequence[Operand], r: Registers) -> str:
    op.need("sync")
    mode = op.need("up", "down", "bfly", "idx")
    op.type("b32")
    expect(op, o, 5)
    first, second = (o[0].first, o[0].second) if isinstance(o[0], Pair) else (o[0], Name("_"))
    value, lane, clamp, mask = (r.value(x, "u32") for x in o[1:])
    call = f"{SCOPE}shfl_{mode}({value}, {lane}, {clamp}, {mask})"
    return f"const auto simt_s = {call}; {r.put(first, 'simt_s.value')} {r.put(second, 'simt_s.inside')}"


@rule("vote")
def _vote(op: Opcode, o: Sequence[Operand], r: Registers) -> str:
    op.need("sync")
    mode = op.need("all", "any", "uni", "ballot")
    op.type("b32" if mode == "ballot" else "pred")
    expect(op, o, 3)
    return r.put(o[0], f"{SCOPE}vote_{mode}({r.value(o[1], 'pred')}, {r.value(o[2], 'u32')})")


@rule("match")
def _match(op: Opcode, o: Sequence[Operand], r: Registers) -> str:
    mode = op.need("any", "all")
    op.need("sync")
    kind = op.type("b32", "b64")
    expect(op, o, 3)
    value, mask = r.value(o[1], kind), r.value(o[2], "u32")
    if mode == "any":
        return r.put(single(op, o[0]), f"__match_any_sync({mask}, {value})")
    first, second = (o[0].first, o[0].second) if isinstance(o[0], Pair) else (o[0], Name("_"))
    call = f"int simt_p; const {SCOPE}b32 simt_m = __match_all_sync({mask}, {value}, &simt_p);"
    return f"{call} {r.put(first, 'simt_m')} {r.put(second, 'simt_p != 0')}"


@rule("redux")
def _redux(op: Opcode, o: Sequence[Operand], r: Registers) -> str:
    op.need("sync")
    operation = op.need("add", "min", "max", "and", "or", "xor")
    kind = op.type("b32") if operation in ("and", "or", "xor") else op.type("u32", "s32")
    expect(op, o, 3)
    return r.put(o[0], f"__reduce_{operation}_sync({r.value(o[2], 'u32')}, {r.value(o[1], kind)})")


@rule("activemask")
def _activemask(op: Opcode, o: Sequence[Operand], r: Registers) -> str:
    op.type("b32")
    expect(op, o, 1)
    return r.put(o[0], "simt_active_mask()")


@rule("elect")
def _elect(op: Opcode, o: Sequence[Operand], r: Registers) -> str:
    op.need("sync")
    expect(op, o, 2)
    if not isinstance(o[0], Pair):
        raise op.unsupported()
    leader = f"const {SCOPE}b32 simt_l = {SCOPE}elect({r.value(o[1], 'u32')});"
    return f"{leader} {r.put(o[0].first, 'simt_l')} {r.put(o[0].second, 'simt_l == simt_lane()')}"


# --- barriers


@rule("bar", "barrier")
def _barrier(op: Opcode, o: Sequence[Operand], r: Registers) -> str:
    op.take("cta")
    warp = op.take("warp")
    step = op.need("sync", "arrive")
    op.take("aligned")
    if warp:
        expect(op, o, 1)
        return f"__syncwarp({r.value(o[0], 'u32')});"
    expect(op, o, *((2,) if step == "arrive" else (1, 2)))
    function = f"bar_{step}" if len(o) == 2 else "bar_sync_all"
    return f"{SCOPE}{function}({', '.join(r.value(x, 'u32') for x in o)});"


# --- what changes nothing in the emulator


@rule("griddepcontrol")
def _griddepcontrol(op: Opcode, o: Sequence[Operand], r: Registers) -> str:
    """Blocks of the next grid start when all of this one's have ended."""
    op.need("wait", "launch_dependents")
    expect(op, o, 0)
    return "(void)0;"


@rule("nanosleep")
def _nanosleep(op: Opcode, o: Sequence[Operand], r: Registers) -> str:
    op.type("u32")
    expect(op, o, 1)
    return f"__nanosleep({r.value(o[0], 'u32')});"


@rule("trap")
def _trap(op: Opcode, o: Sequence[Operand], r: Registers) -> str:
    expect(op, o, 0)
    return "__trap();"
