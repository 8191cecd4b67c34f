"""What people read uses the field's words and American spelling: notebooks, messages, documents, docstrings.

`python tests/test_language.py [PLACE …]` lists every hit, for all places or for those named, such as `units`.
"""

import ast
import html
import io
import re
import sys
import tokenize
import tomllib
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import jupytext
import pytest

ROOT = Path(__file__).resolve().parents[1]

WORDS = {
    # the field's word: expressions for the words that we used in its place
    "in flight": [r"on (?:their|its) way\b(?! to (?:the|a) (?:top|goal))"],
    "accumulators": [r"(?:fp32|fp16) sums", r"sums (?:live|lie|stay)", r"sums are (?:in|kept)", r"with sums in"],
    "iteration": [
        r"(?:each|every|one|no|per) turns?",
        r"turns? of (?:a|the|its) loop",
        r"go(?:es)? round",
        r"(?<!not\s)(?:a|first|next|last) turn of",
    ],
    "reverse, transpose": [r"turn(?:s|ed|ing)? (?:\w+ ){0,3}round\b"],
    "cycle, per cycle": [
        r"in (?:a|one|each|every) clock\b(?! (?:rate|domain))",
        r"per clock\b",
        r"(?:FLOPs?|bytes|operations|multiply-adds|instructions?|words?|one) (?:a|each) clock\b(?! rate)",
        r"\d clocks\b",
        r"a clock(?: for each|, each|;|\))",
    ],
    "persistent kernel": [r"(?:kernels?|programs?|blocks?|clusters?) (?:that )?stays?\b(?! (?:in|on|within|below))"],
    "wavefronts, bank conflicts": [r"pass(?:es)? (?:of|over|through) shared memory", r"ideal pass", r"passed over"],
    "cache line, sector": [r"keeps? (?:their |its )?books", r"books of\b"],
    "diverge": [r"(?:lanes|threads) (?:that )?part\b", r"lanes parted"],
    "measured peak bandwidth": [
        r"(?<!memory\s)(?<!compute\s)(?<!bandwidth\s)roofs?\b(?![.(]| =)",
        r"copy'?s? ceiling",
        r"ceiling of (?:a|the) copy",
    ],
    "this GPU, this machine": [r"(?:GPUs?|machine|compiler|none|one) at hand"],
    "program ID, thread index": [
        r"numbers? of (?:a|the|this) (?:program|thread|block|lane)\b",
        r"(?:program|block)'s number",
    ],
    "reported, printed, returned": [
        r"told\b(?! apart)",
        r"(?<!is\s)(?<!are\s)(?<!was\s)said\b",
        r"(?:is|are) said\b(?! to)",
    ],
    "fix": [r"mend(?:s|ed|ing)?\b"],
    "submit, submission": [r"hand(?:s|ed|ing)?[ -]in\b(?! hand)"],
    "common mistakes, mutants": [r"wrong answers?"],
    "has the layout of, is contiguous with": [
        r"lies? as\b",
        r"lies? beside",
        r"beside each other",
        r"side by side in memory",
    ],
    "never matches real output": [r"is nothing that a kernel has"],
    "gradebook": [r"grade books?"],
    "points": [
        r"(?:full|all|no|their|its|whose|written|student's|submission's|of the|costs?|hold|get|without|same) marks",
        r"(?<!filled\s)(?<!hollow\s)marks (?:for|from|back|are|is|may|depend|at|that|come|by|of|and|as|to)\b",
        r"marks\.",
    ],
    "about": [r"some (?:ten|tens|hundreds?|\d)"],
    "plain words": [
        r"from which on",
        r"whoever\b",
        r"stands for nothing",
        r"after each other",
        r"costs (?:only )?its own(?:er's)? (?:exercise|marks)",
    ],
}  # fmt: skip
"""The left column of the style sheet, each only in its wrong sense."""

_ISE = (
    "normal|optim|initial|uninitial|synchron|serial|quant|vector|parallel|minim|maxim|organ|recogn|summar|util|real|"
    "general|special|standard|random|token|factor|visual|categor|custom|final|local|memor|penal|priorit|sanit|linear|"
    "equal|stabil|material|canonical|character|capital|discret|item|modern|neutral|raster|central|ident|apolog|emphas"
)
BRITISH = [
    rf"\w*(?:{_ISE})is(?:e[drs]?|ing|ation|ations|able)\b(?<!emphasis)",
    r"analys(?:e|ed|es|ing)\b(?<!analyses)",
    r"(?:colour|neighbour|behaviour|favour|honour|labour|flavour|rumour|humour|harbour|vapour)\w*",
    r"(?:centre|fibre|metre|litre|theatre|calibre)[ds]?\b",
    r"gr[e]y(?:ed|s|scale)?\b",
    r"(?:cancel|label|model|signal|travel|level|total|channel|panel|equal|fuel|dial)l(?:ed|ing|er)\b",
    r"(?:licence|defence|offence|pretence|judgement|artefact|programme|whilst|amongst|learnt|spelt|misspelt|ageing)s?\b",
    r"per cent\b",
    r"practis(?:e|ed|es|ing)\b",
    r"fulfil\b|skilful|sceptic\w*",
]


class Allowed(NamedTuple):
    """A right use that an expression takes for a wrong one."""

    file: str
    phrase: str
    reason: str


ALLOWED: tuple[Allowed, ...] = ()


class Text(NamedTuple):
    """A piece of text, with the file and the line where it begins."""

    path: Path
    line: int
    text: str


class Hit(NamedTuple):
    path: str
    line: int
    found: str
    instead: str
    around: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.found!r} → {self.instead}   …{self.around}…"


PLACES = {
    "judge": ["docs/judging.md", "grader/judge/**/*.py", "grader/redteam/*.py"],
    "check": ["docs/emulator.md", *(f"labutils/{room}/**/*.py" for room in ("check", "backends", "spec"))],
    "docs": ["*.md", "docs/*.md", ".github/**/*.md"],
    "grader": ["grader/**/*.py", "grader/reports/templates/*"],
    "lessons": ["labutils/exercises/*.py", "labutils/lessons/*.py"],
    "labutils": ["labutils/**/*.py", "labutils/**/*.cuh"],
    "units": ["solutions/*/*.py", "solutions/*/mutants/*.toml", "solutions/*/*.toml"],
}
"""Files of each place; a file belongs to the first place that names it."""

NOT_OURS = ("grader/redteam/attacks/", "grader/redteam/controls/", "grader/demo/answers/")
"""What stands for a learner's code."""

ROOFLINE = ("roof", "05_")
"""In these files a roof is one of the roofline model, which is the field's word."""


@cache
def files(place: str) -> list[Path]:
    """The files of a place."""
    earlier = list(PLACES)[: list(PLACES).index(place)]
    taken = {path for name in earlier for path in files(name)}
    found = {path for pattern in PLACES[place] for path in ROOT.glob(pattern) if path.is_file()} - taken
    return sorted(p for p in found if not p.relative_to(ROOT).as_posix().startswith(NOT_OURS))


def texts(path: Path) -> Iterator[Text]:
    """What people read in a file."""
    source = path.read_text(encoding="utf-8")
    if path.suffix == ".toml":
        for table in tomllib.loads(source).values():
            for key in ("why", "value", "source", "production", "tried", "claim"):
                if isinstance(words := isinstance(table, dict) and table.get(key), str):
                    yield Text(path, source[: source.find(words[:40])].count("\n") + 1, words)
    elif path.suffix == ".cuh":
        yield from _comments(path, source, 1, "//")
    elif path.suffix == ".py" and "solutions" in path.parts:
        yield from _cells(path, source)
    elif path.suffix == ".py":
        yield from _strings(path, source, 1)
    else:
        yield Text(path, 1, source)


def _cells(path: Path, source: str) -> Iterator[Text]:
    """Text cells, and the strings and comments of code cells."""
    line = 1
    lines = source.split("\n")
    for cell in jupytext.reads(source, fmt="py:percent").cells:
        head = cell.source.split("\n")[0]
        begin = next((n for n in range(line, len(lines) + 1) if head and head in lines[n - 1]), line)
        line = begin
        if cell.cell_type == "markdown":
            yield Text(path, begin, cell.source)
        elif cell.source.startswith("%%cuda"):
            yield from _comments(path, cell.source, begin, "//")
        elif not cell.source.startswith("%%"):
            code = re.sub(r"^(\s*)[%!].*", r"\1pass", cell.source, flags=re.MULTILINE)
            yield from _strings(path, code, begin)
            tokens = tokenize.generate_tokens(io.StringIO(code).readline)
            yield from (Text(path, begin + t.start[0] - 1, t.string) for t in tokens if t.type == tokenize.COMMENT)


def _comments(path: Path, source: str, first: int, sign: str) -> Iterator[Text]:
    for number, line in enumerate(source.split("\n"), first):
        if sign in line:
            yield Text(path, number, line.partition(sign)[2])


def _strings(path: Path, source: str, first: int) -> Iterator[Text]:
    """String literals of more than one word, docstrings among them."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value.strip():
            yield Text(path, first + node.lineno - 1, node.value)


def readable(text: str) -> str:
    """The text without code, addresses and formulas, as long as before."""

    def blank(match: re.Match) -> str:
        return re.sub(r"[^\n]", "~", match[0])

    for pattern in (
        r"`[^`\n]+`",
        r"<code>.*?</code>",
        r"\]\([^)\s]+\)",
        r"https?://\S+",
        r"\$[^$\n]+\$",
        r"\{[\w. ]+\}",
    ):
        text = re.sub(pattern, blank, text, flags=re.DOTALL)
    return text


@cache
def patterns() -> list[tuple[re.Pattern, str]]:
    """Every expression, and what to write instead. A blank stands for any white space."""
    pairs = [(p, instead) for instead, found in WORDS.items() for p in found]
    pairs += [(p, "American spelling") for p in BRITISH]
    return [(re.compile(rf"\b(?:{p.replace(' ', chr(92) + 's+')})", re.IGNORECASE), instead) for p, instead in pairs]


def hits(piece: Text) -> Iterator[Hit]:
    """The wrong words of a text, the allowed ones among them."""
    text = readable(html.unescape(piece.text))
    name = piece.path.relative_to(ROOT).as_posix()
    for pattern, instead in patterns():
        for match in pattern.finditer(text):
            if "roof" in match[0].lower() and any(part in name for part in ROOFLINE):
                continue
            around = " ".join(text[max(match.start() - 40, 0) : match.end() + 40].split())
            yield Hit(name, piece.line + text.count("\n", 0, match.start()), match[0], instead, around)


def allowance(hit: Hit) -> Allowed | None:
    """The entry of `ALLOWED` that allows a hit."""
    return next((a for a in ALLOWED if hit.path == a.file and a.phrase in hit.around and hit.found in a.phrase), None)


@cache
def all_hits(place: str) -> tuple[Hit, ...]:
    """The hits in a place, the allowed ones among them."""
    return tuple(sorted({hit for path in files(place) for piece in texts(path) for hit in hits(piece)}))


def wrong(place: str) -> list[Hit]:
    """The wrong words of a place."""
    return [hit for hit in all_hits(place) if not allowance(hit)]


@pytest.mark.parametrize("place", PLACES)
def test_the_fields_words(place):
    found = wrong(place)
    assert not found, "\n".join(map(str, found))


def test_every_allowed_phrase_is_there():
    used = {allowance(hit) for place in PLACES for hit in all_hits(place)} if ALLOWED else set()
    assert [entry for entry in ALLOWED if entry not in used] == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Eight loads are on their way.", ["on their way"]),
        ("It turns the tile\n    round.", ["turns the tile\n    round"]),
        ("in each turn of the loop", ["each turn", "turn of the loop"]),
        ("128 bytes in a clock", ["in a clock"]),
        ("Programs that stay take several tiles.", ["Programs that stay"]),
        ("compiled for the GPU at hand", ["GPU at hand"]),
        ("What was handed in is mended.", ["mended", "handed in"]),
        ("full marks, in nbgrader's grade book", ["grade book", "full marks"]),
        ("k lies as a does", ["lies as"]),
        ("the steps in which lanes part", ["lanes part"]),
        ("Normalised colours of the neighbours", ["Normalised", "colours", "neighbours"]),
        ("some 7 µs from which on", ["some 7", "from which on"]),
    ],
)
def test_wrong_words_are_found(text, found):
    hit = [h.found for h in hits(Text(ROOT / "text", 1, text))]
    assert sorted(hit) == sorted(found)


@pytest.mark.parametrize(
    "text",
    [
        "Each buffer in turn takes part of the tile, at the clock rate of 1980 MHz.",
        "This marks the row, and the mark scheme has the evidence at hand. Filled marks are elements.",
        "The warp stays on its SM; the sum of each row is kept in fp32.",
        "otherwise precise, advise, exercise, promise, raise, noise, likewise, analyses, emphasis, wise",
        "is said to be fast, told apart by their names; a stated precondition; recommended, amended",
        "a memory roof and a roofline; `neighbour`, `x.colour`; https://example.org/behaviour",
    ],
)
def test_right_words_are_not(text):
    assert list(hits(Text(ROOT / "text", 1, text))) == []


def test_all_that_people_read_is_read(tmp_path):
    unit = ROOT / "solutions" / "00_start" / "00_start.py"
    read = [piece.text for piece in texts(unit)]
    assert any(text.startswith("# Run, fill, check") for text in read)  # a text cell
    assert any("element" in text and text.startswith("#") for text in read)  # a comment of a code cell
    assert any("One program computes" in text for text in read)  # a docstring


if __name__ == "__main__":
    total = Counter()
    for chosen in sys.argv[1:] or PLACES:
        for one in wrong(chosen):
            print(one)
            total[chosen, one.path] += 1
    for (chosen, path), count in sorted(total.items()):
        print(f"{count:4} {chosen}: {path}", file=sys.stderr)
    print(f"{total.total():4} in all", file=sys.stderr)
