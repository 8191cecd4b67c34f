"""CUDA C++ as it was written: nothing that would tell the compilers apart that read it, or reach past the language.

This is the first of three readings. The second is of the text after the preprocessor and the third of the compiled
object; both belong to the emulator (`labutils.backends.simt.rules`, `inspection`), which builds nothing that has not
passed them, and work in a sandbox. What a macro hides from this reading, the second one finds.
"""

from __future__ import annotations

import re

from labutils.backends.simt import errors, expansion, rules
from labutils.cuda.text import blank
from labutils.cuda.tokens import split

from .refusal import NotAKernel

NAME = re.compile(r"[A-Za-z_]\w*(\s*<[\w\s,:<>*&+-]*>)?")
"""A kernel as it is named for a launch: with its template's arguments, where it has any."""

ATOMIC = re.compile(r"\b(?:__nv_atomic_|atomic[A-Z])\w*|\batomic_ref\b|\batomic\s*<")
ATOMIC_PTX = re.compile(r"\b(?:atom|red)\.")
ASSEMBLY = re.compile(r"\b(?:asm|__asm__)\b")


def calls_atomics(spec: dict) -> bool:
    """Does the code call an atomic operation, in CUDA C++ or in inline PTX?"""
    code = blank(spec["source"])
    if ATOMIC.search(code):
        return True
    texts = (t.text for t in split(spec["source"]) if t.kind in ("string", "raw"))
    return bool(ASSEMBLY.search(code)) and any(ATOMIC_PTX.search(t) for t in texts)


def check(spec: dict) -> None:
    """Raise NotAKernel where the text of a kernel, or its name, holds what no kernel needs."""
    name = spec["name"]
    if not NAME.fullmatch(name) or not all(map(rules.is_cudas, re.findall(r"\w+", name))):
        raise NotAKernel("this kernel's name cannot be read")
    try:
        inline_ptx = rules.check_words(expansion.without_directives(spec["source"])).inline_ptx
    except errors.CompileError as e:
        kind = "needs-gpu" if isinstance(e, errors.NeedsGpu) else "does-not-compile"
        raise NotAKernel(re.sub(r"^line \d+: ", "", str(e)), e.line, kind) from None
    if inline_ptx:  # the second reading knows which
        raise NotAKernel("the emulator does not run every instruction of PTX", inline_ptx, "needs-gpu")
