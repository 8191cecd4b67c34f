"""The messages in our own code are found, and what is shown at run time is made of them."""

import ast
import re

import pytest

from grader.course.locales import extract, extract_cpp
from grader.course.locales.messages import messages
from grader.course.mutants import mutants
from grader.course.solutions import load_text
from grader.course.sources import ROOT
from labutils import exercises
from labutils.check.diagnose import KINDS
from labutils.check.evaluate import PUBLIC_SEED, evaluate
from labutils.gpu import device
from labutils.language.translator import Translator
from labutils.study import claims
from labutils.study.progress import Entry, Progress

WORD = re.compile(r"(?<![\w.])[A-Za-z][a-z]+(?![\w(\[=]|\.\w)")
NAMES = {"Python", "str", "list", "float", "kB"}
"""Words of the messages below that are names or code."""


def of(source: str) -> list[str]:
    return list(extract.of_tree(ast.parse(source), {"NOT_YET": "is not written yet"}))


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ('"""A docstring."""\nx = "two words"', ["two words"]),
        ('f"{a} of {b[0].name} elements, at {len(c):>5} {d!r}{e}"', ["{a} of {name} elements, at {c} {d}"]),
        ("f\"{n} element{'s' * (n > 1)} and {m} row{'s' if m else ''}\"", ["{n} element{plural} and {m} row{plural2}"]),
        ('f"it is {\'left\' if a else \'right\'}"', ["it is {a}", "left", "right"]),
        ('N = {"F": "forward"}\nf"the {N[k]} pass"', ["forward", "the {n} pass"]),
        ('f"{name} {NOT_YET}"', ["{name} is not written yet"]),
        ('x = "one line\\nof two"', ["one line", "of two"]),
        ('f"<p title=\'x y\'>No picture: {e}</p>"', ["No picture: {e}"]),
        ('axes.set_title("sectors"); getattr(x, "some words"); f(key="sectors")', ["sectors"]),
        ('x == "two words"; d["two words"]; {"word": 1}; "float16"; "tl.load"; "a_b c_d"', []),
        ('k = """\n__global__ void f() {\n  x = 1;\n  y = 2;\n}\n"""; re.sub(r"two words", "", s)', []),
        ('x = "{} ended"; N["two words"] = {f"it has {n} rows": 1}', ["{value} ended", "two words", "it has {n} rows"]),
        ('t[t.rindex(" (line ") : u.find("it has ")]', []),
        ('t + " (line 3)" + ". Look there."', [" (line 3)", "Look there."]),
    ],
)  # fmt: skip
def test_the_texts_of_a_module_are_its_messages(source, found):
    assert of(source) == found


def test_the_texts_of_a_page_are_its_messages():
    page = (
        '<style>a { b }</style><p title="x">{{ n }} of {{ r.points | points }} points'
        "{% if w %}, {{ w }} open{% endif %}</p>"
        '{% for x in y %}<b>{{ "one case" if z else "cases" }}</b>{% endfor %}'
    )
    assert list(extract.of_page(page)) == ["{n} of {points} points", ", {w} open", "one case", "cases"]


def test_the_texts_of_a_cpp_file_are_its_messages():
    source = """
    // "a comment in words"
    found.detail = "lane " + std::to_string(f.lane) + " calls " + what + ", which has \\"ended\\"";
    report(n == 1 ? " thread waits at " : " threads wait at ", "key", __asm__("mov x\\n"));
    """
    assert list(extract_cpp.of_source(source)) == [
        'lane {lane} calls {what}, which has "ended"',
        " thread waits at ",
        " threads wait at ",
    ]


@pytest.fixture(scope="module")
def pseudo() -> Translator:
    """A language whose only word is 〇."""
    keep = re.compile(r"(\{\w+\}|`[^`]*`)")

    def without_words(text: str) -> str:
        return "".join(p if k % 2 else re.sub("[A-Za-z]+", "〇", p) for k, p in enumerate(keep.split(text)))

    return Translator({m.text: without_words(m.text) for name in ("lab", "03_occupancy") for m in messages(ROOT, name)})


def left(text: str, *names: str) -> set[str]:
    """The English words of a text, without code, names, and what Python says of an exception."""
    text = re.sub(r"\w+Error: [^(\n]*|`[^`]*`|\b[a-z]+(-[a-z]+)+\b|\w+/\w+", "", text)
    return set(WORD.findall(text)) - NAMES - KINDS.keys() - set(names)


@pytest.mark.parametrize("name", ["registers", "shared_memory", "calculator", "budget"])
def test_no_english_is_left_of_a_check(name, pseudo, tmp_path):
    exercise = exercises.get(f"03_occupancy/{name}")
    for mutant in mutants(exercise.id):
        fn = getattr(load_text(mutant.text, tmp_path), exercise.entry, None)
        text = evaluate(exercise, fn, seed=PUBLIC_SEED, explain=True).text()
        assert len(left(text)) > 5
        assert left(pseudo.text(text), exercise.entry, *exercise.cases[0].sizes) == set(), text


def test_no_english_is_left_of_what_a_learner_asks_for(pseudo, tmp_path):
    known = Progress({"03_occupancy/registers": Entry(2.0, 2.0, 3, 1, "2026-11-26")}, tmp_path / "progress.json")
    shown = [repr(known), repr(claims.quiz("03_occupancy")), repr(claims.quiz("03_occupancy", few=3.0)), device.card()]
    for text in shown:
        assert left(pseudo.text(text), "progress.json", "tmp", "pytest", "root", "of") == set(), text
