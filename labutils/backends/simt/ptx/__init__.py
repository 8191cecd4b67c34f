"""Inline PTX: asm statements of a cell become calls of the emulator's functions.

The machine's own compiler must never see an asm statement: what it holds would run on this CPU. So none is passed on.
Its template is read as PTX; for each instruction that the emulator knows, C++ of our own takes its place
(include/simt/ptx.h), in which nothing of the template occurs but numbers. Any other instruction is refused by name.
"""

from __future__ import annotations

import re

from ....cuda.tokens import code
from ..errors import CompileError, NeedsGpu
from . import memory, warp  # noqa: F401  (they register their rules)
from .arithmetic import RULES
from .opcode import Opcode
from .registers import Registers
from .statements import VOLATILE, WORDS, Statement, statements
from .text import Brace, Declaration, Instruction, Label, Name, Unsupported, parse

__all__ = ["INSTRUCTIONS", "VOLATILE", "WORDS", "refuse", "translated"]

INSTRUCTIONS = frozenset(RULES) | {"bra"}
"""The instructions of which the emulator runs some form, by the first part of their names."""

_PREAMBLE = '#include "simt/ptx.h"\n#line 1\n'


def refuse(text: str) -> None:
    """Raise NeedsGpu for a text that holds inline PTX, whether the emulator runs it or not."""
    for token in code(text):
        if token.kind == "word" and token.text in WORDS:
            line = text.count("\n", 0, token.start) + 1
            raise NeedsGpu(f"line {line}: inline PTX (`asm`) runs on an NVIDIA GPU only; this machine has none", line)


def translated(text: str) -> str:
    """The text with its asm statements as C++, its lines keeping their numbers. Raises CompileError, NeedsGpu."""
    pieces, last = [], 0
    for number, found in enumerate(statements(text)):
        if isinstance(found, tuple):
            line = text.count("\n", 0, found[0]) + 1
            raise CompileError(f"line {line}: {found[1]}", line)
        line = text.count("\n", 0, found.start) + 1
        try:
            body = _Body(found, number).text()
        except Unsupported as e:
            raise NeedsGpu(
                f"line {line}: inline PTX: the emulator does not run `{str(e)[:80]}`; this needs an NVIDIA GPU", line
            ) from None
        pieces += [text[last : found.start], body, "\n" * text.count("\n", found.start, found.end)]
        last = found.end
    if not pieces:
        return text
    result = "".join([*pieces, text[last:]])
    for token in code(result):
        if token.kind == "word" and token.text in WORDS:  # within an operand of another one
            line = result.count("\n", 0, token.start) + 1
            raise CompileError(f"line {line}: inline PTX cannot stand within an operand of inline PTX", line)
    return _PREAMBLE + result


class _Body:
    """The C++ of one asm statement, the `number`-th of its text."""

    def __init__(self, statement: Statement, number: int):
        self.statement, self.number, self.labels = statement, number, {}
        self.registers = Registers(statement)

    def text(self) -> str:
        found = parse(self.statement.words.replace("%=", f"_{self.number}"))
        for item in found:
            if isinstance(item, Label):
                self.labels[item.name] = f"simt_label_{self.number}_{len(self.labels)}"
        body = [self._item(item) for item in found]
        parts = [self.registers.begin(), *self.registers.declared, *body, self.registers.end()]
        return f"do {{ {' '.join(filter(None, parts))} }} while (0)"

    def _item(self, item: Instruction | Declaration | Label | Brace) -> str:
        if isinstance(item, Brace):
            self.registers.brace(item.opens)
            return ""
        if isinstance(item, Declaration):
            self.registers.declare(item)
            return ""
        if isinstance(item, Label):
            return f"{self.labels[item.name]}:;"
        done = f"{{ {self._instruction(item)} }}"
        return done if item.guard is None else f"if ({self.registers.value(item.guard, 'pred')}) {done}"

    def _instruction(self, instruction: Instruction) -> str:
        if re.fullmatch(r"bra(\.uni)?", instruction.opcode):
            target = instruction.operands[0] if len(instruction.operands) == 1 else None
            if not isinstance(target, Name) or target.text not in self.labels:
                raise Unsupported(instruction.opcode)
            return f"goto {self.labels[target.text]};"
        op = Opcode(instruction.opcode)
        if op.name not in RULES:
            raise op.unsupported()
        return RULES[op.name](op, instruction.operands, self.registers)
