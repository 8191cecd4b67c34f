"""Every regular expression that meets a submission's text takes time in proportion to it, whatever the text."""

import ast
import re
import signal
import time
from pathlib import Path
from re import _parser

import pytest

from tests.clock import cpu_seconds

ROOT = Path(__file__).parents[3]

READ_SUBMISSIONS = (
    "grader/course/cells.py", "grader/course/solutions.py", "grader/course/submitted.py",
    "grader/gradebook/nbgrader_pages.py", "grader/intake/collect.py", "grader/intake/matching.py",
    "grader/intake/repair.py", "grader/intake/split_cells.py", "grader/judge/copies.py", "grader/judge/plan.py",
    "grader/judge/reader.py", "grader/judge/reading.py", "grader/judge/seeds.py", "grader/judge/submission.py",
    "grader/judge/wire.py", "grader/judge/language/triton.py", "grader/marks/marks.py", "grader/marks/results.py",
    "grader/reports/flags.py", "grader/reports/pages.py", "grader/reports/similarity.py", "labutils/backends/errors.py",
    "labutils/backends/extract.py", "labutils/cuda/kernel.py", "labutils/cuda/nvrtc.py", "labutils/cuda/signature.py",
)  # fmt: skip
"""Modules that read what a submission holds. Names of files have at most 255 letters (`intake/owners.py`)."""

NOT_TEXT = {
    r"^(\d+ errors? detected|Remark: |ptxas info|\s*$)",  # a compiler's messages
    r"[\w:]+(?:<[^>]*>)?",  # one parameter, of at most 1000 letters
}

ATOMS = (
    " ", "a", "1", "_", "A", "(", "<", "[", "{", '"', "'", "/*", "\\", "#", "=", "\n", "\n ", "*", ";", ",", ".", "a.",
    "a<", "a ", "1 ", "[ ", "\\\\ ", "%", "!", "\x1b[", "\x1b[0;", "-", "a'", "__global__ ", "def a", "async ", "=\t",
    "\t", "/*a", "//", "e1", "1.", "é",
)  # fmt: skip
"""What a text that takes long repeats."""

LETTERS = 1 << 20
BUDGET = 1.5
"""Seconds of CPU time for 1 MB; a pattern of quadratic time takes hours."""


def patterns() -> list[tuple[str, str, int, str]]:
    """(file, pattern, flags, function) of every regular expression that is written out in these modules."""
    found = []
    for name in READ_SUBMISSIONS:
        tree = ast.parse((ROOT / name).read_text(encoding="utf-8"))
        texts = [
            (node.args[0].value, _flags(node), node.func.attr)
            for node in ast.walk(tree)
            if isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and isinstance(node.func.value, ast.Name)
            and node.func.value.id == "re"
            and node.args
            and isinstance(node.args[0], ast.Constant)
        ]
        if name.endswith("flags.py"):
            table = next(n for n in tree.body if isinstance(n, ast.Assign) and n.targets[0].id == "_PATTERNS")
            texts += [(pattern, 0, "search") for pattern, _ in ast.literal_eval(table.value)]
        found += [(name, *t) for t in texts if t[0] not in NOT_TEXT]
    return found


def _flags(call: ast.Call) -> int:
    named = {getattr(re, n.attr) for n in ast.walk(call) if isinstance(n, ast.Attribute) and n.attr.isupper()}
    return sum(int(flag) for flag in named)


def _literal(pattern: str) -> str:
    """The letters with which every match begins, as far as they are certain."""
    letters = ""
    for kind, value in _parser.parse(pattern):
        if str(kind) != "LITERAL":
            break
        letters += chr(value)
    return letters


def seconds(compiled: re.Pattern, text: str, function: str, most: float) -> float:
    """CPU time that a pattern takes for a text; `most` if it takes longer."""

    def ring(*_):
        if running:  # a signal that comes when all is done says nothing any more
            raise TimeoutError

    running = True
    before = signal.signal(signal.SIGVTALRM, ring)
    begin = time.process_time()
    try:
        signal.setitimer(signal.ITIMER_VIRTUAL, most)
        if function in ("match", "fullmatch"):
            getattr(compiled, function)(text)
        else:
            for _ in compiled.finditer(text):
                pass
        running = False
    except TimeoutError:
        return most
    finally:
        running = False
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
    return time.process_time() - begin


def slowest(
    pattern: str, flags: int, function: str, letters: int = LETTERS, most: float = 2 * BUDGET
) -> tuple[float, str]:
    """The worst of many texts of this length, and its CPU time, at most `most`: found among short ones, then at full
    length."""
    compiled, head = re.compile(pattern, flags), _literal(pattern)
    made = {(one, rest) for atom in ATOMS for one, rest in (("", atom), (head, atom), ("", head + atom))}

    def text(kind: tuple[str, str], length: int) -> str:
        return kind[0] + kind[1] * (length // len(kind[1])) + "\0"

    trials = sorted(made, key=lambda kind: -seconds(compiled, text(kind, 3000), function, 0.2))[:2]
    worst = 0.0, ""
    for kind in trials:
        worst = max(worst, (seconds(compiled, text(kind, letters), function, most), repr(kind)))
        if worst[0] >= BUDGET:  # one is enough
            break
    return worst


@pytest.mark.parametrize(("name", "pattern", "flags", "function"), patterns())
def test_a_pattern_takes_linear_time(name, pattern, flags, function):
    took, text = slowest(pattern, flags, function)
    assert took < BUDGET, text


def test_a_quadratic_pattern_would_be_found():
    for pattern in (r"(\w+) is not", r"/\*.*?\*/", r"[\s_.-]*unit", r"\[\s*\d*\s*\]$"):
        # A regular expression looks for signals every 4096 steps, of which each may read the whole rest of the text: at
        # 1 MB that takes a minute.
        assert slowest(pattern, re.DOTALL, "search", LETTERS // 16, BUDGET)[0] >= BUDGET, pattern


BAD = (
    "__global__ ", "__global__ void f(", "__global__ void f(int a, ", "template<a> __global__ void f() ", "template<",
    "__global__ void __launch_bounds__(", "__global__ void f(a<", "(", "<", "/*", '"', "\\\n", "R\"(", "1'",
)  # fmt: skip


@pytest.mark.parametrize("atom", BAD)
def test_the_signatures_of_any_text_take_linear_time(atom):
    from labutils.cuda.signature import signatures

    took = []
    for letters in (1 << 17, 1 << 19):
        text = atom * (letters // len(atom)) + ")" * (letters // 8)
        took.append(cpu_seconds(lambda text=text: signatures(text)))
    assert took[1] < 10 * took[0] + 0.2 and took[1] < 4
