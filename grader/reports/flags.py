"""Submissions that a person should look at, with the lines that say why. No points depend on them.

The judge has already prevented any gain (docs/judging.md). Listed are results that it rejected as forged, kernels that
were impossibly fast, and code that is useful only to find an answer.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from grader.intake.collect import SHARED
from grader.marks.results import Graded

_PATTERNS = (
    (r"\bctypes\b|\bcffi\b|\blibc\b", "reaches below Python"),
    (
        r"\bgc\.get_(objects|referrers)|sys\._getframe|inspect\.(stack|currentframe)|\.f_(back|globals|locals)\b",
        "reads other code's variables",
    ),
    (
        r"\bIn\[-?\d|ast_transformers|input_transformers|get_ipython\(\)\.(events|run_line|history)|_ih\b",
        "reads or changes the notebook's cells",
    ),
    (r"/proc/|/dev/shm|/dev/fd|\bptrace\b", "inspects other processes"),
    (r"gradebook\.db|nbgrader|VERDICT_MIME|gpulab[.-]verdict|\bgrader\.", "names the gradebook or the grader"),
    (r"\bLD_PRELOAD\b|sitecustomize|\bsys\.modules\b|__import__\(|importlib", "changes what is imported"),
    (r"\bsubprocess\b|os\.(system|fork|exec|_exit|kill|popen)|\bsocket\b|\burllib\b|\brequests\.", "starts programs"),
    (
        r"torch\.(allclose|testing|equal)\s*=|time\.(perf_counter|time)\s*=|torch\.cuda\.Event\s*=",
        "replaces a comparison function",
    ),
    (r"def __eq__|__torch_function__|__array_function__|as_subclass", "defines its own comparison"),
    (r"lab\.exercises|labutils\.exercises|\.reference\(|solutions/", "looks for the reference"),
    (r"__TRITON|TRITON_INTERPRET|__CUDA_ARCH__|__NVCC__", "detects the checker"),
)
_COMPILED = [(re.compile(pattern), why) for pattern, why in _PATTERNS]
_FORGED = ("wrote into the place of its answer", "less than the work itself takes", "Faster than the floor")
_REPAIRS = ("claimed to be graded", "had been edited", "was changed and is restored")
MOST_LINES = 6


def flagged(students: Iterable[tuple[Graded, Mapping[str, str]]], given: Mapping[str, str]) -> list[dict]:
    """Each student with something to look at: `{"student", "evidence": [sentence, …]}`, the most of it first.

    `students`: each with the code cells of the submission by cell id; `given`: those of the release.
    """
    known = {line.strip() for text in given.values() for line in text.split("\n")}
    found = []
    for student, cells in students:
        evidence = [r for r in student.repairs if r.startswith(SHARED)]
        evidence += [*_refused(student), *_lines(cells, known)]
        if evidence:
            evidence += [r for r in student.repairs if any(words in r for words in _REPAIRS)]
            found.append({"student": student.student, "evidence": evidence})
    return sorted(found, key=lambda f: -len(f["evidence"]))


def _refused(student: Graded) -> Iterable[str]:
    """Messages of the judge that no honest mistake causes."""
    for outcome in student.outcomes:
        verdict = outcome.verdict
        sentences = [outcome.sentence, *(verdict.notes if verdict else [])]
        if verdict and verdict.headline:
            sentences.append(verdict.headline.symptom)
        for sentence in dict.fromkeys(s for s in sentences if any(words in s for words in _FORGED)):
            yield f"{outcome.name}: {sentence}"


def _lines(cells: Mapping[str, str], known: set[str]) -> Iterable[str]:
    lines = [(name, line.strip()) for name, text in cells.items() for line in text.split("\n")]
    count = 0
    for name, line in lines:
        if not line or line in known or line.startswith(("#", "//")):
            continue
        why = next((why for pattern, why in _COMPILED if pattern.search(line)), None)
        if why and count < MOST_LINES:
            count += 1
            yield f"cell {name!r} {why}: {line[:160]}"
