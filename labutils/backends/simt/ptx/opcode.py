"""An opcode with its modifiers, each of which somebody must have understood."""

from __future__ import annotations

from .text import Unsupported

INTEGERS = frozenset(f"{sign}{bits}" for sign in "us" for bits in (8, 16, 32, 64))
BITS = frozenset(("b8", "b16", "b32", "b64"))
FLOATS = frozenset(("f32", "f64"))
HALVES = frozenset(("f16", "f16x2", "bf16", "bf16x2"))
TYPES = INTEGERS | BITS | FLOATS | HALVES | {"pred"}
"""Types that have a name of their own in include/simt/ptx.h."""


class Opcode:
    """`ld.global.v4.f32`: its `name`, and modifiers that are taken one by one."""

    def __init__(self, text: str):
        self.text = text
        self.name, *self.modifiers = text.split(".")

    def unsupported(self) -> Unsupported:
        return Unsupported(self.text)

    def take(self, *choices: str) -> str | None:
        """The first modifier that is one of these, which is then understood."""
        for modifier in self.modifiers:
            if modifier in choices:
                self.modifiers.remove(modifier)
                return modifier
        return None

    def take_all(self, *choices: str) -> None:
        """Pass over modifiers that change nothing here."""
        self.modifiers = [m for m in self.modifiers if m not in choices]

    def need(self, *choices: str) -> str:
        """The same as `take`, of a modifier that must be there."""
        found = self.take(*choices)
        if found is None:
            raise self.unsupported()
        return found

    def type(self, *choices: str) -> str:
        """The next type, which must be one of these; of all, without choices."""
        return self.need(*(choices or sorted(TYPES)))

    def done(self) -> None:
        """Every modifier has been understood."""
        if self.modifiers:
            raise self.unsupported()
