"""From an instruction's address to the learner's line."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterable

from . import elf

BEFORE = 64
"""Bytes of code before an instruction of no line in which one is looked for."""


def tool() -> str | None:
    """A program that reads line tables: binutils' comes with g++, LLVM's with clang."""
    for name in ("addr2line", "llvm-addr2line", "llvm-symbolizer"):
        if path := shutil.which(name):
            return path
    return None


class Lines:
    """The line of an offset into a module: the innermost place that is in the learner's file, for code of a header that
    was inlined there. What was looked up is kept beside the module."""

    def __init__(self, module: str, filename: str):
        self._module, self._mark = module, re.compile(rf"(?:^|[\s/]){re.escape(filename)}:(\d+|\?)")
        self._store = module.removesuffix(".so") + ".lines.json"
        self._known: dict[int, int] = {}
        try:
            with open(self._store) as f:
                self._known = {int(k): v for k, v in json.load(f).items()}
        except (OSError, ValueError):
            pass

    def of(self, offsets: Iterable[int]) -> dict[int, int]:
        """Line of each return address (0: unknown)."""
        wanted = set(offsets)
        missing = sorted(p for p in wanted - self._known.keys() if p)
        if missing:
            self._look_up(missing)
        return {p: self._known.get(p, 0) for p in wanted}

    def of_calls(self) -> dict[int, int]:
        """Line of every place to which a call returns, where all that is counted is seen. A process that may start no
        program later finds them beside the module."""
        return self.of(elf.call_returns(self._module))

    def _look_up(self, offsets: list[int]) -> None:
        try:
            found, lost = self._ask(offsets)
        except OSError:  # in a cage no program starts: the line of the nearest call before it, each block has one
            self._known |= {p: self._before(p) for p in offsets}
            return
        for p in lost:  # clang gives what it moved out of a loop no line: then that of what stands before it
            before, _ = self._ask(range(p - 1, max(p - BEFORE, 1), -1))
            found[p] = next(filter(None, before.values()), 0)
        self._known |= found
        temporary = f"{self._store}.{os.getpid()}"
        try:
            with open(temporary, "w") as f:
                json.dump(self._known, f)
            os.replace(temporary, self._store)
        except OSError:
            pass  # a cache that cannot be written is only slower

    def _before(self, offset: int) -> int:
        """The line of the nearest known place that is at most BEFORE bytes before an offset, or 0."""
        near = [p for p in self._known if 0 <= offset - p <= BEFORE and self._known[p]]
        return self._known[max(near)] if near else 0

    def _ask(self, offsets: Iterable[int]) -> tuple[dict[int, int], list[int]]:
        """Lines of return addresses by the tool, and which of them are the learner's code but of no line."""
        program, offsets = tool(), list(offsets)
        found, lost, at = dict.fromkeys(offsets, 0), [], 0
        if program is None:
            return found, lost
        # the call lies before its return address
        asked = "".join(f"{p - 1:#x}\n" for p in offsets)
        command = [program, "-e", self._module, "-i", "-a"]
        done = subprocess.run(command, input=asked, capture_output=True, text=True, timeout=60)
        for line in done.stdout.splitlines():
            if re.fullmatch(r"0x[0-9a-f]+", line):
                at = int(line, 16) + 1
            elif at in found and not found[at] and (m := self._mark.search(line)):
                if m.group(1).isdigit() and int(m.group(1)):
                    found[at] = int(m.group(1))
                else:
                    lost.append(at)
        return found, [p for p in lost if not found[p]]
