"""Answers that are more similar than chance explains: for a person to look at, never for points.

Answers are compared as token strings: without comments and layout, with all author-chosen names replaced, and without
the given lines. rapidfuzz compares all pairs of a thousand in seconds. Similarity alone says little if the task leaves
little choice, so a group is reported only with evidence: identical text, words that few others use, or a code structure
that few others have.
"""

from __future__ import annotations

import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from pygments.lexers import CudaLexer, PythonLexer
from pygments.token import Comment, Name, String, Token, Whitespace
from rapidfuzz import process
from rapidfuzz.distance import Indel

from grader.course.cells import is_cuda

ALIKE = 0.9
"""Likeness from which two answers are compared further: twice the common tokens in order, by all tokens of both."""

LEAST_TOKENS = 30
"""Shorter answers are alike by nature."""

FEW = 0.1
"""Share of the class that is few."""

MOST_TEXT = 8000
"""Characters of an answer that are split into tokens: lexers take quadratic time for some text."""

MOST_GROUPS = 40
_WORD = re.compile(r"[A-Za-z_]\w{2,}|\S{6,}")
_LEXERS = {"python": PythonLexer(), "cuda": CudaLexer()}


@dataclass(frozen=True)
class Group:
    """Answers to one exercise that resemble each other: who, how much (1 is the same), and what speaks for it."""

    cell: str
    students: list[str]
    likeness: float
    evidence: list[str]


@dataclass(frozen=True)
class _Answer:
    student: str
    text: str
    tokens: tuple[str, ...]
    words: frozenset[str]


def groups(answers: Mapping[str, Mapping[str, str]], given: Mapping[str, str], published: Mapping[str, str] = {}):  # noqa: B006 (read only)
    """Groups of answers that are alike, the most telling first.

    `answers` holds each student's text by answer cell and student, `given` the released text of each cell, `published`
    the course's own solution of it.
    """
    found = [g for cell, texts in answers.items() for g in _of_cell(cell, texts, given.get(cell, ""), published)]
    return sorted(found, key=lambda g: (-len(g.evidence), -g.likeness, g.cell, g.students))[:MOST_GROUPS]


def _of_cell(cell: str, texts: Mapping[str, str], given: str, published: Mapping[str, str]) -> Iterable[Group]:
    everyone = [_answer(s, t, given) for s, t in texts.items()]
    solution = _answer("", published[cell], given) if cell in published else None
    long = [a for a in everyone if len(a.tokens) >= LEAST_TOKENS]
    few = max(2, FEW * len(everyone))
    use = Counter(word for a in everyone for word in a.words)
    for members, likeness in _clusters(long):
        cluster = [long[i] for i in members]
        # Where most chose the same shape, a few of them may still share more than that.
        closer = () if len(cluster) <= few else (g for g in _closer(cluster, use) if len(g) < len(cluster))
        for group in [cluster, *closer]:
            students = len(everyone) if group is cluster else 0
            if evidence := _evidence(group, use, few, solution, students):
                yield Group(cell, sorted(a.student for a in group), round(likeness, 2), evidence)


def _closer(cluster: list[_Answer], use: Counter) -> Iterable[list[_Answer]]:
    """Answers of a cluster with the very same text, and pairs that share two words which at most three use."""
    by_text, by_word = defaultdict(list), defaultdict(list)
    for answer in cluster:
        by_text[answer.text].append(answer)
        for word in answer.words:
            if use[word] in (2, 3):
                by_word[word].append(answer.student)
    yield from (group for group in by_text.values() if len(group) > 1)
    shared = Counter(pair for students in by_word.values() for pair in combinations(sorted(students), 2))
    known = {a.student: a for a in cluster}
    for (one, other), words in shared.items():
        if words > 1 and known[one].text != known[other].text:
            yield [known[one], known[other]]


def _evidence(group: list[_Answer], use: Counter, few: float, solution: _Answer | None, students: int) -> list[str]:
    """Evidence that a group's similarity is not chance, or an empty list. `students` 0: not by code structure."""
    if solution and solution.tokens in {a.tokens for a in group} and len({a.tokens for a in group}) == 1:
        same = all(a.text == solution.text for a in group)
        return ["the course's published solution" + (", word for word" if same else ", with other names")]
    found = []
    if len({a.text for a in group}) == 1 and len(group) <= max(3.0, few):
        found.append("the same text, names and comments included")
    shared = frozenset.intersection(*(a.words for a in group)) - (solution.words if solution else frozenset())
    rare = sorted(w for w in shared if use[w] == len(group) and len(group) <= max(3.0, few))
    if len(rare) > 1:
        found.append("words that no one else uses: " + ", ".join(rare[:8]))
    if (
        students
        and len(group) <= few
        and (not solution or Indel.normalized_similarity(group[0].tokens, solution.tokens) < ALIKE)
    ):
        found.append(f"a code structure that only {len(group)} of {students} have")
    return found


def _clusters(answers: list[_Answer]) -> Iterable[tuple[list[int], float]]:
    """Indices of answers that are alike, each like some other of its cluster, and the least likeness of such a pair."""
    if len(answers) < 2:
        return
    letters: dict[str, str] = defaultdict(lambda: chr(0x4E00 + len(letters)))
    strings = ["".join(letters[t] for t in a.tokens) for a in answers]
    distinct = list(dict.fromkeys(strings))
    holders = defaultdict(list)
    for index, string in enumerate(strings):
        holders[string].append(index)
    alike = _alike(distinct)
    left = set(range(len(distinct)))
    for first in range(len(distinct)):
        if first not in left:
            continue
        todo, cluster, least = [first], [], 1.0
        left.discard(first)
        while todo:
            one = todo.pop()
            cluster.append(one)
            for other, likeness in alike[one]:
                least = min(least, likeness)
                if other in left:
                    left.discard(other)
                    todo.append(other)
        members = sorted(i for d in cluster for i in holders[distinct[d]])
        if len(members) > 1:
            yield members, least


def _alike(strings: list[str]) -> list[list[tuple[int, float]]]:
    """Of each string the others that are alike, and how much. A table of all pairs of a large class would fill the
    memory, so it is made in parts."""
    found = []
    for at in range(0, len(strings), _ROWS):
        rows = strings[at : at + _ROWS]
        table = process.cdist(
            rows, strings, scorer=Indel.normalized_similarity, score_cutoff=ALIKE, dtype=np.float32, workers=1
        )
        for one, row in enumerate(table, at):
            found.append([(int(other), float(row[other])) for other in np.flatnonzero(row) if other != one])
    return found


_ROWS = 500


def _answer(student: str, text: str, given: str) -> _Answer:
    """An answer without the lines that were given."""
    known = {line.strip() for line in given.split("\n")}
    own = "\n".join(line for line in text.split("\n") if line.strip() not in known)
    lexer = _LEXERS["cuda" if is_cuda(text) else "python"]
    public = set(_WORD.findall(given)) | {"tl", "triton"}
    tokens, before = [], ""
    for kind, value in lexer.get_tokens(own.removeprefix("%%cuda")[:MOST_TEXT]):
        if kind in Comment or kind in Whitespace or kind in String.Doc or not value.strip():
            continue
        if kind in Token.Literal.String:
            value = "s"
        elif kind in Name and kind not in Name.Builtin and before != "." and value not in public:
            value = "n"
        tokens.append(sys.intern(value))
        before = value
    words = frozenset(map(sys.intern, _WORD.findall(own))) - public  # most write the same words
    return _Answer(student, "\n".join(line.rstrip() for line in own.split("\n")).strip(), tuple(tokens), words)
