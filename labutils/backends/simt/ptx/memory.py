"""Loads, stores, atomics, asynchronous copies and mbarriers of inline PTX as C++."""

from __future__ import annotations

from collections.abc import Sequence

from .arithmetic import expect, rule, single
from .opcode import BITS, FLOATS, INTEGERS, Opcode
from .registers import SCOPE, Registers, items
from .text import Operand

_SHARED = ("shared", "shared::cta")

_HINTS = frozenset(
    ["nc", "weak", "ca", "cg", "cs", "lu", "cv", "wb", "wt", "L2::64B", "L2::128B", "L2::256B", "L1::no_allocate"]
    + [f"{cache}::evict_{when}" for cache in ("L1", "L2") for when in ("normal", "unchanged", "first", "last")]
)
"""Modifiers of loads and stores that say where a value is kept, not what it is."""

_SCOPES = ("cta", "cluster", "gpu", "sys")

_SEMANTICS = ("relaxed", "acquire", "release", "acq_rel")


def _space(op: Opcode) -> str:
    """The function of include/simt/ptx.h that makes a pointer of an address in this instruction's state space."""
    found = op.take("global", *_SHARED)
    return "shared" if found in _SHARED else "generic"


def _vector(op: Opcode) -> int:
    found = op.take("v2", "v4")
    return int(found[1]) if found else 1


def _access(op: Opcode) -> tuple[str, bool, str | None, int, str, bool]:
    """Of a load or store: the space, whether it is volatile, its order, its length and type, whether it is a read-only
    one (`.nc`)."""
    order = op.take("relaxed", "acquire", "release")
    if order:
        op.need(*_SCOPES)
    volatile = bool(op.take("volatile")) or order is not None
    space, length = _space(op), _vector(op)
    read_only = "nc" in op.modifiers
    op.take_all(*_HINTS)
    kind = op.type(*INTEGERS, *BITS, *FLOATS)
    if length * int(kind[1:]) > 128 or (volatile and (length > 1 or read_only)):
        raise op.unsupported()
    return space, volatile, order, length, kind, read_only


@rule("ld")
def _load(op: Opcode, o: Sequence[Operand], r: Registers) -> str:
    space, volatile, order, length, kind, read_only = _access(op)
    expect(op, o, 2)
    if order == "release" or len(items(o[0])) != length:
        raise op.unsupported()
    pointer = r.address(o[1], space)
    if read_only:
        pointer += ", true"
    if length > 1:
        puts = (r.put(x, f"simt_v.all[{i}]") for i, x in enumerate(items(o[0])))
        return f"const auto simt_v = {SCOPE}load_vector<{SCOPE}{kind}, {length}>({pointer}); {' '.join(puts)}"
    loaded = f"{SCOPE}{'load_volatile' if volatile else 'load'}<{SCOPE}{kind}>({pointer})"
    return r.put(single(op, o[0]), loaded) + (" simt_fence();" if order == "acquire" else "")


@rule("st")
def _store(op: Opcode, o: Sequence[Operand], r: Registers) -> str:
    space, volatile, order, length, kind, read_only = _access(op)
    expect(op, o, 2)
    if read_only or order == "acquire" or len(items(o[1])) != length:
        raise op.unsupported()
    pointer, values = r.address(o[0], space), ", ".join(r.value(x, kind) for x in items(o[1]))
    if length > 1:
        return f"{SCOPE}store_vector<{SCOPE}{kind}, {length}>({pointer}, {{{{{values}}}}});"
    fence = "simt_fence(); " if order == "release" else ""
    return f"{fence}{SCOPE}{'store_volatile' if volatile else 'store'}<{SCOPE}{kind}>({pointer}, {values});"


@rule("prefetch")
def _prefetch(op: Opcode, o: Sequence[Operand], r: Registers) -> str:
    op.take("global")
    op.need("L1", "L2")
    expect(op, o, 1)
    return f"(void){r.address(o[0], 'generic')};"


# --- atomics

_ATOMICS = {
    "add": ("Add", {"u32", "s32", "u64", "f32", "f64"}),
    "min": ("Min", {"u32", "s32", "u64", "s64"}),
    "max": ("Max", {"u32", "s32", "u64", "s64"}),
    "inc": ("Inc", {"u32"}),
    "dec": ("Dec", {"u32"}),
    "and": ("And", {"b32", "b64"}),
    "or": ("Or", {"b32", "b64"}),
    "xor": ("Xor", {"b32", "b64"}),
    "exch": ("Exch", {"b32", "b64"}),
    "cas": ("CAS", {"b16", "b32", "b64"}),
}
"""Operations: the name of the CUDA function behind `atomic`, and the types."""


@rule("atom", "red")
def _atomic(op: Opcode, o: Sequence[Operand], r: Registers) -> str:
    returns = op.name == "atom"
    order = op.take(*_SEMANTICS)
    op.take(*_SCOPES)
    space = _space(op)
    operation = op.need(*(name for name in _ATOMICS if returns or name not in ("exch", "cas")))
    function, types = _ATOMICS[operation]
    kind = op.type(*types)
    operands = 3 if operation == "cas" else 2
    expect(op, o, operands + returns)
    address, *values = o[returns:]
    arguments = [r.address(address, space), *(r.value(v, kind) for v in values)]
    call = f"{SCOPE}atomic{function}_<{SCOPE}{kind}>({', '.join(arguments)})"
    done = r.put(o[0], call) if returns else f"{call};"
    before = "simt_fence(); " if order in ("release", "acq_rel") else ""
    return before + done + (" simt_fence();" if order in ("acquire", "acq_rel") else "")


# --- asynchronous copies


@rule("cp")
def _copy(op: Opcode, o: Sequence[Operand], r: Registers) -> str:
    op.need("async")
    step = op.need("ca", "cg", "commit_group", "wait_group", "wait_all")
    if step == "commit_group":
        expect(op, o, 0)
        return "simt::commit_copies();"
    if step == "wait_all":
        expect(op, o, 0)
        return "simt::commit_copies(); simt::wait_copies(0);"
    if step == "wait_group":
        expect(op, o, 1)
        return f"simt::wait_copies({r.value(o[0], 'u32')});"
    op.need(*_SHARED)
    op.need("global")
    op.take_all("L2::64B", "L2::128B", "L2::256B")
    expect(op, o, 3, 4)
    to, of = r.address(o[0], "shared"), r.address(o[1], "generic")
    size = r.value(o[2], "u32")
    given = r.value(o[3], "u32") if len(o) == 4 else size
    return f"{SCOPE}copy_async({to}, {of}, {size}, {given}, {str(step == 'cg').lower()});"


# --- mbarriers


@rule("mbarrier")
def _mbarrier(op: Opcode, o: Sequence[Operand], r: Registers) -> str:
    step = op.need("init", "inval", "arrive", "test_wait", "try_wait")
    tx, parity = op.take("expect_tx"), op.take("parity")
    op.take("release", "acquire")
    op.take("cta")
    op.take(*_SHARED)
    op.type("b64")
    if step == "init":
        expect(op, o, 2)
        return f"simt_mbarrier_init({r.address(o[0], 'shared')}, (int){r.value(o[1], 'u32')});"
    if step == "inval":
        expect(op, o, 1)
        return f"(void){r.address(o[0], 'shared')};"
    if step == "arrive":
        expect(op, o, *((3,) if tx else (2, 3)))
        count = r.value(o[2], "u32") if len(o) == 3 else "1"
        arguments = f"1, (int){count}" if tx else f"{count}, 0"
        return r.put(o[0], f"{SCOPE}mbarrier_arrive({r.address(o[1], 'shared')}, {arguments})")
    expect(op, o, *((3, 4) if step == "try_wait" else (3,)))
    phase = f"(int){r.value(o[2], 'u32')} & 1" if parity else f"(int){r.value(o[2], 'b64')} & 1"
    return f"simt_mbarrier_wait({r.address(o[1], 'shared')}, {phase}); {r.put(o[0], 'true')}"


@rule("fence", "membar")
def _fence(op: Opcode, o: Sequence[Operand], r: Registers) -> str:
    if op.take("proxy"):
        op.need("async")
        op.take("global", *_SHARED)
        expect(op, o, 0)
        return "simt_fence_async();"
    if op.take("mbarrier_init"):
        op.need("release")
        op.need("cluster")
        expect(op, o, 0)
        return "simt_mbarrier_fence();"
    op.take("sc", "acq_rel")
    scope = op.need("cta", "cluster", "gpu", "sys", "gl")
    expect(op, o, 0)
    return "simt_fence_block();" if scope == "cta" else "simt_fence();"
