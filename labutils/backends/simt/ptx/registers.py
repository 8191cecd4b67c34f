"""The variables that stand for the operands and registers of an asm statement, and how C++ reads and writes them."""

from __future__ import annotations

import re

from .opcode import HALVES
from .statements import Statement
from .text import Address, Declaration, Name, Negated, Number, Operand, Place, Unsupported, Vector

SCOPE = "simt::ptx::"

CONSTRAINTS = {"h": "b16", "r": "b32", "l": "b64", "f": "f32", "d": "f64", "n": "s64"}
"""The type of an operand by its letter; `n` is a constant."""

_SIZES = {"8": "b8", "16": "b16", "32": "b32", "64": "b64"}

_AXES = {"x", "y", "z", "w"}

_INDICES = {"tid": "simt_thread_index()", "ntid": "simt_block_size()", "ctaid": "simt_block_index()",
            "nctaid": "simt_grid_size()"}  # fmt: skip

SPECIAL = {
    "laneid": "simt_lane()",
    "warpid": "simt_rank() / 32",
    "nwarpid": "simt::ptx::warps()",
    "smid": "simt::ptx::smid()",
    "nsmid": "simt::ptx::sms",
    "clock": "simt_clock()",
    "clock64": "simt_clock()",
    "globaltimer": "simt_clock()",
    "lanemask_eq": "simt::ptx::lanes(0)",
    "lanemask_lt": "simt::ptx::lanes(-1)",
    "lanemask_le": "simt::ptx::lanes(-2)",
    "lanemask_gt": "simt::ptx::lanes(1)",
    "lanemask_ge": "simt::ptx::lanes(2)",
    **{f"{name}.{axis}": f"{call}.{axis}" for name, call in _INDICES.items() for axis in "xyz"},
}
"""Special registers as C++."""


class Registers:
    """The variables of one asm statement. Those of the text's own are named in the order of their declaration."""

    def __init__(self, statement: Statement):
        self.operands = statement.operands
        self.declared: list[str] = []
        self._scopes: list[dict[str, str]] = [{}]
        for operand in self.operands:
            if operand.constraint not in CONSTRAINTS:
                raise Unsupported(f'"{operand.constraint}"')

    # --- scopes

    def brace(self, opens: bool) -> None:
        if not opens and len(self._scopes) == 1:
            raise Unsupported("}")
        self._scopes = [*self._scopes, {}] if opens else self._scopes[:-1]

    def declare(self, d: Declaration) -> None:
        kind = d.type if d.type in ("pred", "f32", "f64") else _SIZES.get(re.sub(r"^[busf]", "", d.type))
        kind = "b32" if d.type == "f16x2" else kind
        if kind is None:
            raise Unsupported(f".reg .{d.type}")
        for name, length in d.names:
            for one in [name] if length is None else [f"{name}{i}" for i in range(length)]:
                variable = f"simt_r{len(self.declared)}"
                self._scopes[-1][one] = variable
                self.declared.append(f"{SCOPE}{kind} {variable}{{}};")

    # --- C++

    def begin(self) -> str:
        """The declarations of the operands."""
        return " ".join(self._begin(i, o) for i, o in enumerate(self.operands))

    def _begin(self, i: int, o) -> str:
        kind = SCOPE + CONSTRAINTS[o.constraint]
        if o.constraint == "n":
            return f"const {kind} simt_{i} = ({kind})({o.expression});"
        if not o.written:
            return f"const {kind} simt_{i} = {SCOPE}input<{kind}>({o.expression});"
        value = f"{SCOPE}input<{kind}>(simt_out_{i})" if o.read else f"{kind}{{}}"
        return f"auto& simt_out_{i} = ({o.expression}); {kind} simt_{i} = {value};"

    def end(self) -> str:
        """The outputs get their values."""
        return " ".join(f"{SCOPE}output(simt_out_{i}, simt_{i});" for i, o in enumerate(self.operands) if o.written)

    def variable(self, o: Operand) -> str:
        """The variable of a register."""
        if isinstance(o, Place):
            if o.number >= len(self.operands):
                raise Unsupported(f"%{o.number}")
            return f"simt_{o.number}"
        if isinstance(o, Name):
            for scope in reversed(self._scopes):
                if o.text in scope:
                    return scope[o.text]
            raise Unsupported(o.text)
        raise Unsupported("an operand that is no register")

    def value(self, o: Operand, kind: str) -> str:
        """An operand as a value of a type."""
        if isinstance(o, Negated):
            return f"!{self.value(o.predicate, kind)}"
        if isinstance(o, Number):
            return _literal(o.text, kind)
        if isinstance(o, Name) and (special := self._special(o.text)) is not None:
            return f"({SCOPE}{kind})({special})"
        return f"{SCOPE}as<{SCOPE}{kind}>({self.variable(o)})"

    def _special(self, name: str) -> str | None:
        if name == "WARP_SZ":
            return "32"
        declared = any(name in scope for scope in self._scopes)
        return SPECIAL.get(name[1:]) if name.startswith("%") and not declared else None

    def put(self, o: Operand, expression: str) -> str:
        """A statement that gives a register a value."""
        if o == Name("_"):
            return f"(void)({expression});"
        if isinstance(o, Place) and not (o.number < len(self.operands) and self.operands[o.number].written):
            raise Unsupported(f"%{o.number} as a result, which is no output")
        return f"{SCOPE}put({self.variable(o)}, {expression});"

    def address(self, o: Operand, space: str) -> str:
        """A pointer to what `[base + offset]` names in a state space: "generic" or "shared"."""
        if not isinstance(o, Address):
            raise Unsupported("an operand that is no address")
        base = f"{SCOPE}address({self.variable(o.base)})"
        return f"{SCOPE}{space}({' + '.join([base, *(self.value(x, 's64') for x in o.offsets)])})"


def items(o: Operand) -> tuple[Operand, ...]:
    """The registers of a vector; of a single one, itself."""
    return o.items if isinstance(o, Vector) else (o,)


def _literal(text: str, kind: str) -> str:
    sign, digits = ("-", text[1:]) if text.startswith("-") else ("", text)
    if digits[:2] in ("0f", "0F"):
        return f"{sign}{SCOPE}as<{SCOPE}{kind}>(0x{digits[2:]}u)"
    if digits[:2] in ("0d", "0D"):
        return f"{sign}{SCOPE}as<{SCOPE}{kind}>(0x{digits[2:]}ull)"
    if kind in ("f32", "f64") and re.fullmatch(r"[0-9]+\.[0-9]*([eE][+-]?[0-9]+)?", digits) and len(digits) <= 40:
        return f"({SCOPE}{kind}){sign}{digits}"
    integer = digits.removesuffix("U")
    if kind not in HALVES and re.fullmatch(r"0[xX][0-9a-fA-F]{1,16}|[1-9][0-9]{0,18}|0", integer):
        value = int(integer, 0)
        return f"({SCOPE}{kind})({sign}{value}{'.0' if kind in ('f32', 'f64') else 'ull'})"
    raise Unsupported(text)
