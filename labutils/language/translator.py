"""Finished English text to another language, by the templates that it was made from."""

from __future__ import annotations

import html
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping

from .template import HOLE, Template, joined, words

SEPARATORS = (". ", "? ", "; ", ": ", ", ", " (", "**", " · ")
"""Where a text may be joined of several, the strongest first."""

PUNCTUATION = (".", ":", ",", ";", "?", "!")
"""Signs that a language may write in its own way; a catalog has them as messages."""

MARKS = ".:;,?!)"
"""What may stand behind a message."""

AS_THEY_ARE = frozenset(("name", "names", "array", "source", "code", "entry", "exercise", "exercise_id", "own", "path"))
"""Holes whose one word is a name or code."""

NUMBERS = frozenset(("block", "lane"))
"""Holes that hold no words."""

MOST_TRIES, LONGEST, DEEPEST = 12000, 2000, 20
"""Templates that are tried for one text, characters of a line, messages in a message: what is untrusted cannot take
long."""

LIST = "listed"
"""A hole that may hold several messages with marks between them."""

OFTEN = 20
"""A word that so many messages have is English, and no name, where it fills a hole alone."""

WORD, DOUBT = 10, 1
"""What is left of English costs so much: a word, and a word alone in a hole that may be a name or English."""

WEAK, PHRASE = 3, 4
"""A template of fewer words fits many texts by chance: it counts only where all of the text is translated, and where no
hole among its words holds so many."""

MOST_PARTS = 60

MOST_BEFORE = 8
"""Words of the first of two messages behind one another."""

_BULLET = re.compile(r"(?:[^\w`\"'(“\[%…]*\s)?")
_NAMED = re.compile(r"(?![A-Z]?[a-z]+ing |and |or |the )[A-Za-z_]\w*(?:\[[^\]]*\])? ")
"""A name before a message about it."""

_HEADLINE = re.compile(r"[A-Z][\w ]*: +(?=\S)")
_COLUMNS = re.compile(r"(\s{2,})")
_BEHIND = frozenset(":;")

_GOES_ON = re.compile(r"[.:;] (?=\S)")
"""Between the parts of a sentence."""

_CODE = re.compile(r"`([^`]+)`")
_LISTING = re.compile(r"\s*\d+ [\d.%\s]*\| ")
"""Before a line of a program."""

_HIDDEN = range(0xE000, 0xF800)
"""Private characters of Unicode: while a line is translated, they stand for code that is no message's."""

_EXCEPTION = re.compile(r"[A-Z]\w*(?:Error|Exception): [^(`]+")
"""What Python says of an exception."""

_TAG = re.compile(r"(<[^>]*>)")
_LABEL = re.compile(r'\b(alt|title|aria-label|placeholder)="([^"]*)"')
_PROSE = re.compile(r"(?<![\w`./\"'\[])(?<!\w\()[a-z]{2,}(?![\w/`\"'(\[]|\.\w)")


class Translator:
    """`text` and `page` give the translation, and English where there is none."""

    def __init__(self, catalog: Mapping[str, str], language: str = ""):
        self.language = language
        known = [form for text, new in catalog.items() for form in Template(text, new).forms()]
        templates = [template for template in known if template.names]
        self._exact = {_plain(form.text): form.translation for form in known if not HOLE.search(form.text)}
        self._code = frozenset(span for form in known for span in _CODE.findall(form.text))
        self._marks = {mark: catalog[mark] for mark in PUNCTUATION if catalog.get(mark)}
        self._known: dict[str, tuple[str, int]] = {}
        self._messages: dict[str, tuple[str, int] | None] = {}
        self._tries = self._depth = 0
        common = Counter(word for template in known for word in set(template.words))
        self._costs = {w: WORD if n >= OFTEN else DOUBT for w, n in common.items() if len(w) > 1}
        self._by_word: dict[str, list[Template]] = defaultdict(list)
        for template in sorted(templates, key=lambda t: t.order):
            if template.words:
                self._by_word[min(template.words, key=lambda word: (common[word], word))].append(template)

    def text(self, text: str) -> str:
        """A text of one or more lines; code between fences stays."""
        if (new := self._exact.get(_plain(text))) is not None:
            return new
        lines, fenced = [], False
        for line in text.split("\n"):
            fence = line.lstrip().startswith("```")
            lines.append(line if fence or fenced else self._line(line))
            fenced ^= fence
        return "\n".join(lines)

    def page(self, page: str) -> str:
        """HTML: its texts, and its attributes for readers. What is marked translate="no" stays."""
        parts, silent = _TAG.split(page.replace('<html lang="en">', f'<html lang="{self.language}">', 1)), ""
        for k, part in enumerate(parts):
            if k % 2:
                name = re.match(r"</?([a-z]*)", part)[1]
                if part.startswith("</"):
                    silent = "" if name == silent else silent
                elif not silent and (name in ("script", "style") or 'translate="no"' in part):
                    silent = name
                parts[k] = _LABEL.sub(lambda m: f'{m[1]}="{html.escape(self.text(html.unescape(m[2])))}"', part)
            elif part and not silent:
                plain = html.unescape(part)
                if (new := self.text(plain)) != plain:
                    parts[k] = html.escape(new, quote=False)
        return "".join(parts)

    def _line(self, line: str) -> str:
        if (new := self._exact.get(_plain(line))) is not None:
            return line.replace(line.strip(), new.strip(), 1)
        if len(line) > LONGEST or _LISTING.match(line):
            return line
        hidden: list[str] = []

        def hide(span: re.Match) -> str:
            if span[1] in self._code or len(hidden) == len(_HIDDEN):
                return span[0]
            hidden.append(span[1])
            return f"`{chr(_HIDDEN[len(hidden) - 1])}`"

        if any(ord(character) in _HIDDEN for character in line):  # none of ours
            return self._without_code(line)
        new = self._without_code(_CODE.sub(hide, line))
        return "".join(hidden[ord(c) - _HIDDEN[0]] if ord(c) in _HIDDEN else c for c in new)

    def _without_code(self, line: str) -> str:
        self._tries = 0
        if len(self._messages) > 10_000:
            self._known.clear()
            self._messages.clear()
        begin = _BULLET.match(line).end()
        core = line[begin:].rstrip()
        headline = _HEADLINE.match(core)
        known = headline and self._exact.get(_plain(headline[0]))
        if known:  # it heads all that follows
            new, left = self._phrase(core[headline.end() :])
            new = joined(known, new)
        else:
            new, left = self._phrase(core)
        if not known and _COLUMNS.search(core):
            columns, more = self._columns(_COLUMNS.split(line))
            if more <= left:
                return columns
        return line[:begin] + new + line[begin + len(core) :]

    def _columns(self, parts: list[str]) -> tuple[str, int]:
        """Cells of a table, and between them the blanks, which make up for wider and narrower translations."""
        out, owed, left = "", 0, 0
        for k, part in enumerate(parts):
            if k % 2:
                width = max(1, len(part) - owed)
                owed -= len(part) - width
                out += " " * width
            else:
                begin = _BULLET.match(part).end()
                found, more = self._hole("column", part[begin:], "")
                new, left = part[:begin] + found, left + more
                owed += _width(new) - _width(part)
                out += new
        return out, left

    def _phrase(self, text: str) -> tuple[str, int]:
        """A translation, and what is left of English in it (`WORD`)."""
        if not words(text):
            return text, 0
        if text in self._known:
            return self._known[text]
        if self._depth >= DEEPEST:
            return text, _prose(text)
        self._known[text] = text, _prose(text)  # while it is looked for
        self._depth += 1
        best = min(self._readings(text), key=lambda found: found[1], default=None)
        self._depth -= 1
        if best is not None and (best[1] < _prose(text) or best[1] < WORD):
            self._known[text] = best
        return self._known[text]

    def _readings(self, text: str) -> Iterator[tuple[str, int]]:
        """Translations, up to the first that leaves nothing."""
        if (new := self._exact.get(_plain(text))) is not None:
            yield new, 0
            return
        sentences = _split(text, SEPARATORS[0])
        if 1 < len(sentences) <= MOST_PARTS and (found := self._sequence(sentences, SEPARATORS[0]))[1] == 0:
            yield found
            return
        whole = self._whole(text)
        if _EXCEPTION.fullmatch(text):
            yield whole if whole is not None and whole[1] == 0 else (text, 0)
            return
        if whole is not None:
            yield whole
        named = _NAMED.match(text)
        if named and (whole is None or whole[1]) and self._is_message(text[named.end() :]):
            new, left = self._whole(text[named.end() :])
            yield f"{named[0]}{new}", left + self._costs.get(named[0].strip(), 0)
        if (whole is None or whole[1]) and any(c.isspace() for c in text):
            for reading in self._joined(text):
                yield reading
                if reading[1] == 0:
                    return
            yield from self._behind_one_another(text)

    def _behind_one_another(self, text: str) -> Iterator[tuple[str, int]]:
        """The text as two messages with a blank between them, as in "the load of x" "takes 2 sectors"."""
        pieces = text.split(" ", MOST_BEFORE)
        for k in range(len(pieces) - 1, 1, -1):
            before, after = " ".join(pieces[:k]), " ".join(pieces[k:])
            if self._is_message(before) and self._is_message(after):
                first, second = self._whole(before), self._whole(after)
                yield joined(first[0], " " + second[0]), first[1] + second[1]
                return

    def _whole(self, text: str) -> tuple[str, int] | None:
        """The text as one message, perhaps with a mark behind it."""
        if text not in self._messages:
            self._messages[text] = None  # while it is looked for
            self._messages[text] = self._message(text)
        return self._messages[text]

    def _message(self, text: str) -> tuple[str, int] | None:
        bare = [(text, "")] + [(text[:-1], mark) for mark in MARKS if text.endswith(mark)]
        for core, mark in bare:
            if (new := self._exact.get(_plain(core))) is not None:
                return new + self._marks.get(mark, mark), 0
        best = None
        for core, mark in bare:
            for found, left in self._fitting(core):
                if best is None or left < best[1]:
                    best = found + self._marks.get(mark, mark), left
                if left == 0:
                    return best
        return best

    def _fitting(self, text: str) -> Iterator[tuple[str, int]]:
        """Translations by the templates that the text may be made of, those that say most first."""
        has = set(words(text))
        marked = text[-1:] in _BEHIND  # the mark is of the text, not of what fills its last hole
        candidates = [
            t
            for word in has
            for t in self._by_word.get(word, ())
            if has.issuperset(t.words) and not (marked and t.names[-1] and not t.literals[-1])
        ]
        for template in sorted(candidates, key=lambda t: t.order):
            if self._tries >= MOST_TRIES:
                return
            self._tries += 1
            weak = template.size < WEAK
            for values in template.match(text):
                if self._is_overfull(template, values, weak):
                    continue
                found = [
                    (value, 0) if in_code else self._hole(name, value, text)
                    for name, value, in_code in zip(template.names, values, template.in_code, strict=True)
                ]
                left = sum(more for _, more in found)
                if left < WORD or not weak or 15 * left <= WORD * len(text):
                    yield template.filled([new for new, _ in found]), left

    def _is_overfull(self, template: Template, values: list[str], weak: bool) -> bool:
        """Does a hole hold what none of its kind does?

        In code that is the end of the code, and among words a sentence, unless that is a message. A sentence begins
        with a word: what begins with a number goes on with it. A template of many words has no more of a sentence than
        its holes' parts.
        """
        if any(in_code and "`" in value for in_code, value in zip(template.in_code, values, strict=True)):
            return True
        if any(name in NUMBERS and words(value) for name, value in zip(template.names, values, strict=True)):
            return True
        long = [k for k, of_words in enumerate(template.of_words) if of_words and values[k].count(" ") >= PHRASE]
        if weak:
            return any(_prose(values[k]) and not self._is_message(values[k].strip()) for k in long)
        return any(_GOES_ON.search(_CODE.sub("", values[k])) for k in long if template.names[k] != LIST)

    def _is_message(self, text: str) -> bool:
        """Is it one message, all of which is translated, and which begins with a word?"""
        return not text[:1].isdigit() and (self._whole(text) or ("", WORD))[1] < WORD

    def _hole(self, name: str, value: str, around: str) -> tuple[str, int]:
        core = value.strip()
        one = bool(name) and not any(character.isspace() for character in core)
        if not core or core == around or one and name in AS_THEY_ARE:
            return value, 0 if one or not core else _prose(core)
        new, left = self._phrase(core)
        left += DOUBT * (name in AS_THEY_ARE)
        return value.replace(core, new.strip(), 1), min(left, self._costs.get(core, 0)) if one else left

    def _joined(self, text: str) -> Iterator[tuple[str, int]]:
        """The text as several messages one after another, for each separator that it has."""
        if text[0] + text[-1] in ("()", "“”", '""'):
            new, left = self._phrase(text[1:-1])
            yield text[0] + new + text[-1], left
        for separator in SEPARATORS:
            parts = _split(text, separator)
            if 1 < len(parts) <= MOST_PARTS:
                yield self._sequence(parts, separator)

    def _sequence(self, parts: list[str], separator: str) -> tuple[str, int]:
        mark = separator.strip() if separator[0] in PUNCTUATION else ""
        if mark:  # it belongs to the part before it
            parts, separator = [part + mark for part in parts[:-1]] + parts[-1:], " "
        out, left, at = [], 0, 0
        while at < len(parts):
            for end in range(min(len(parts), at + 6), at, -1):
                piece = separator.join(parts[at:end])
                if end - at == len(parts):
                    continue
                found = self._phrase(piece) if end == at + 1 else self._whole(piece)
                if found is not None and (end == at + 1 or found[1] < WORD):
                    out.append(found[0])
                    left += found[1]
                    at = end
                    break
        text, changed = out[0], separator.join(parts) != separator.join(out)
        for part in out[1:]:
            if changed and mark in _BEHIND and text.endswith(mark):  # behind a name, or code
                text = text[:-1] + self._marks.get(mark, mark)
            text = joined(joined(text, separator), part)
        return text, left


def _split(text: str, separator: str) -> list[str]:
    """The parts of a text; within code and brackets it is not split."""
    parts: list[str] = []
    for part in text.split(separator):
        if parts and (parts[-1].count("`") % 2 or separator != " (" and parts[-1].count("(") > parts[-1].count(")")):
            parts[-1] += separator + part
        else:
            parts.append(part)
    return parts


def _plain(text: str) -> str:
    """A message as a key: its first letter may be a capital, and where it was joined does not matter."""
    text = text.strip()
    return text[:1].lower() + text[1:]


def _width(text: str) -> int:
    """Columns that a text takes in a terminal: Chinese characters take two."""
    return sum(1 + (unicodedata.east_asian_width(character) in "WF") for character in text)


def _prose(text: str) -> int:
    """What the words of a text cost that are English prose, as far as one can tell: neither names nor code."""
    return WORD * len(_PROSE.findall(text))
