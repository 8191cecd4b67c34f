"""How a kernel's text is refused."""

from __future__ import annotations


class NotAKernel(ValueError):
    """This text holds something that is no kernel; the message says what, `line` and `source` where, `kind` whether
    it is refused ("does-not-compile") or only a GPU could run it ("needs-gpu")."""

    def __init__(self, message: str, line: int | None = None, kind: str = "does-not-compile"):
        super().__init__(message)
        self.line, self.source, self.kind = line, "", kind

    def quote(self, text: str, first: int) -> None:
        """Keep the line itself, from a text that begins with line `first`."""
        lines = text.split("\n")
        if self.line is not None and 0 <= self.line - first < len(lines):
            self.source = lines[self.line - first].strip()[:200]
