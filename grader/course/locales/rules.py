"""What a translation must keep of its English text, whatever the language."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from grader.course.locales.markdown import ADDRESS, CODE, FENCE, FIELD, LATEX, TAG, TARGET

_MARKER = re.compile(r"^ *(?:// )?### (?:BEGIN|END) .*$", re.MULTILINE)
_HEADING = re.compile(r"^(#{1,6}) ", re.MULTILINE)
_ITEM = re.compile(r"^ *(?:[-*+]|\d+[.)]) ", re.MULTILINE)
_ROW = re.compile(r"^ *\|.*\| *$", re.MULTILINE)
_CELL = re.compile(r"(?<!\\)\|")
_HAN = r"[\u3000-\u303f\u3400-\u4dbf\u4e00-\u9fff\uff00-\uffef]"
_BROKEN = re.compile(rf"({_HAN})\n *({_HAN})")
_LANGUAGE = re.compile(r" *[`~]{3,} *\w")
_QUIZ = re.compile("___")
_PLURAL = re.compile(r"\{plural\d*\}")
"""The hole for the “s” of an English plural, which a language may not have."""


def violations(text: str, translation: str) -> list[str]:
    """What is wrong with a translation, a sentence each."""
    found = []
    outside, translated_outside = FENCE.sub("", text), FENCE.sub("", translation)
    prose, translated_prose = (_PLURAL.sub("", CODE.sub("", part)) for part in (outside, translated_outside))
    found += _counts("code block", _code_blocks(text), _code_blocks(translation))
    found += _sets("code", _whole(CODE, outside), _whole(CODE, translated_outside))
    for what, pattern in (("field", FIELD), ("link", TARGET), ("tag", TAG), ("marker", _MARKER), ("blank", _QUIZ)):
        found += _counts(what, _whole(pattern, prose), _whole(pattern, translated_prose))
    found += _sets("address", _whole(ADDRESS, prose), _whole(ADDRESS, translated_prose))
    found += _sets("formula", _whole(LATEX, prose), _whole(LATEX, translated_prose))
    if _HEADING.findall(outside) != _HEADING.findall(translated_outside):
        found.append(f"has headings {_HEADING.findall(translated_outside)}, not {_HEADING.findall(outside)}")
    for what, pattern in (("list items", _ITEM), ("table rows", _ROW)):
        wanted, has = len(pattern.findall(outside)), len(pattern.findall(translated_outside))
        if wanted != has:
            found.append(f"has {has} {what}, not {wanted}")
    columns = [[len(_CELL.findall(row)) for row in _ROW.findall(part)] for part in (prose, translated_prose)]
    if columns[0] != columns[1] and len(columns[0]) == len(columns[1]):
        found.append(f"has rows of {columns[1]} bars, not {columns[0]}")
    if broken := _BROKEN.search(translated_outside):
        found.append(f"breaks a line at “{broken[0]}”: a browser shows a blank there, so write a paragraph in one line")
    return found


def _code_blocks(text: str) -> list[str]:
    """The blocks between fences. One that names no language is a drawing, of which only the lines are counted."""
    blocks = [block[0] for block in FENCE.finditer(text)]
    return [b if _LANGUAGE.match(b) else f"{b.count(chr(10)) - 1} lines without a language" for b in blocks]


def _whole(pattern: re.Pattern, text: str) -> list[str]:
    """What a pattern finds; where a line ends in it does not matter."""
    return [" ".join(match[0].split()) for match in pattern.finditer(text)]


def _counts(what: str, wanted: Iterable[str], has: Iterable[str]) -> list[str]:
    """Each as often as in the English text."""
    wanted, has = Counter(wanted), Counter(has)
    return _sentences(what, (wanted - has).elements(), (has - wanted).elements())


def _sets(what: str, wanted: Iterable[str], has: Iterable[str]) -> list[str]:
    """Each at least once, and no other."""
    wanted, has = dict.fromkeys(wanted), dict.fromkeys(has)
    return _sentences(what, (w for w in wanted if w not in has), (h for h in has if h not in wanted))


def _sentences(what: str, missing: Iterable[str], added: Iterable[str]) -> list[str]:
    return [f"lacks the {what} {m!r}" for m in missing] + [f"adds the {what} {a!r}" for a in added]
