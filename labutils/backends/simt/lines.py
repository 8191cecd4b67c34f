"""From an instruction's address to the learner's line."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterable


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
        self._module, self._mark = module, re.compile(rf"(?:^|[\s/]){re.escape(filename)}:(\d+)")
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

    def _look_up(self, offsets: list[int]) -> None:
        program = tool()
        if program is None:
            return
        # the call lies before its return address
        command = [program, "-e", self._module, "-i", "-a", *(hex(p - 1) for p in offsets)]
        out = subprocess.run(command, capture_output=True, text=True, timeout=60).stdout
        at = None
        for line in out.splitlines():
            if re.fullmatch(r"0x[0-9a-f]+", line):
                at = int(line, 16) + 1
                self._known.setdefault(at, 0)
            elif at is not None and not self._known[at] and (m := self._mark.search(line)):
                self._known[at] = int(m.group(1))
        temporary = f"{self._store}.{os.getpid()}"
        try:
            with open(temporary, "w") as f:
                json.dump(self._known, f)
            os.replace(temporary, self._store)
        except OSError:
            pass  # a cache that cannot be written is only slower
