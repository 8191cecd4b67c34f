"""Structs of the source with an alignment of their own.

NVIDIA's compiler reads and writes such a struct by one instruction of 8 or 16 bytes, and any other member by member.
g++ splits the copies of both into members before its sanitizer looks, unless a flag says not to (`build.WHOLE`).
"""

from __future__ import annotations

from bisect import bisect

from ...cuda.tokens import Token, code, partners

_KEYWORDS = ("struct", "class", "union")
_ALIGNMENTS = ("alignas", "__align__", "aligned", "__aligned__")


def aligned(text: str) -> bool:
    """Does a struct, class or union ask for an alignment: before its name, behind its body, or of a member?"""
    found = code(text)
    alignments = [i for i, token in enumerate(found) if token.text in _ALIGNMENTS]
    if not alignments:
        return False
    partner = partners(found)
    for start, token in enumerate(found):
        if token.text in _KEYWORDS:
            end = _end(found, partner, start + 1)
            if bisect(alignments, start) < bisect(alignments, end):
                return True
    return False


def _end(found: list[Token], partner: list[int], i: int) -> int:
    """Where the declaration ends of which token `i` is the second."""
    while i < len(found) and found[i].text not in (*_KEYWORDS, ";", ",", ">", ")", "="):
        i = partner[i] + 1
    return i
