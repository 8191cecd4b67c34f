"""Similar answers are found whatever names they bear, and honest classes left alone; text that looks for answers."""

import json
import time

import pytest

from grader.intake.collect import SHARED
from grader.marks.results import ClassResults, Graded, Outcome
from grader.reports import findings, similarity
from grader.reports.flags import flagged
from grader.reports.similarity import groups
from labutils.spec.verdict import Verdict

GIVEN = '''@triton.jit
def kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """Add one."""
    pid = tl.program_id(0)
    # YOUR CODE HERE (about 6 lines)
'''
HEAD = GIVEN.rsplit("\n", 2)[0] + "\n"
ONE = """    offs = pid * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    x = tl.load(x_ptr + offs, mask=mask)
    y = x * 0.5 + tl.exp(x * x - 1.0)
    tl.store(out_ptr + offs, y, mask=mask)
"""
OTHER = """    first = BLOCK * pid
    for step in range(0, BLOCK, 64):
        where = first + step + tl.arange(0, 64)
        half = tl.load(x_ptr + where, where < n, other=0.0) / 2
        tl.store(out_ptr + where, half + tl.math.exp(4 * half * half - 1), where < n)
"""


def renamed(text):
    for old, new in (("offs", "idx"), ("mask", "ok"), ("y", "res"), (" x ", " v "), ("x =", "v ="), ("(x *", "(v *")):
        text = text.replace(old, new)
    return text.replace("ok=ok", "mask=ok") + "    # done\n"


def answers(**texts):
    return {"kernel": {name: HEAD + text for name, text in texts.items()}}


def test_a_copy_with_other_names_is_found():
    honest = {
        f"s{n}": OTHER.replace("64", str(8 << n % 4)) + f"    tl.device_print('{n}')\n" * (n % 5) for n in range(20)
    }
    found = groups(answers(ana=ONE, ben=renamed(ONE), **honest), {"kernel": GIVEN})
    assert [g.students for g in found] == [["ana", "ben"]]
    assert found[0].likeness >= 0.9 and "a code structure that only 2 of 22 have" in found[0].evidence


def test_what_nearly_all_write_is_no_finding():
    everyone = {f"s{n}": renamed(ONE).replace("idx", f"i{n}") for n in range(20)}
    assert groups(answers(**everyone), {"kernel": GIVEN}) == []


def test_words_that_only_two_use_tell():
    everyone = {f"s{n}": ONE.replace("offs", f"i{n}") for n in range(20)}
    odd = ONE.replace("offs", "noodles").replace("mask =", "schnitzel =").replace("mask=mask", "mask=schnitzel")
    everyone |= {"ana": odd, "ben": odd + "    # the end\n"}
    (found,) = groups(answers(**everyone), {"kernel": GIVEN})
    assert found.students == ["ana", "ben"] and "noodles, schnitzel" in found.evidence[0]


def test_the_published_solution_is_named():
    found = groups(answers(ana=ONE, ben=ONE), {"kernel": GIVEN}, {"kernel": HEAD + ONE})
    assert found[0].evidence == ["the course's published solution, word for word"]


def test_short_answers_and_given_text_say_nothing():
    assert groups({"bytes": {"a": "def f(n):\n    return 3 * n", "b": "def f(n):\n    return 3 * n"}}, {}) == []
    assert groups({"kernel": {"a": GIVEN, "b": GIVEN}}, {"kernel": GIVEN}) == []


def test_cuda_is_compared_too():
    body = "%%cuda\n__global__ void k(float* x, int n) {\n int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
    body += " for (int j = i; j < n; j += gridDim.x * blockDim.x) { x[j] = x[j] * 2.0f + 1.0f; } // mine\n}\n"
    found = groups({"k": {"a": body, "b": body.replace("j", "pos").replace("mine", "yours")}}, {"k": "%%cuda\n"})
    assert found[0].students == ["a", "b"] and found[0].likeness == 1.0


def test_a_table_in_parts_gives_the_same_groups(monkeypatch):
    everyone = {f"s{n}": OTHER + f"    tl.device_print('{n}')\n" * (n % 5) for n in range(20)}
    everyone |= {"ana": ONE, "ben": renamed(ONE)}
    whole = groups(answers(**everyone), {"kernel": GIVEN})
    monkeypatch.setattr(similarity, "_ROWS", 3)
    assert groups(answers(**everyone), {"kernel": GIVEN}) == whole != []


@pytest.mark.slow
def test_a_thousand_answers_are_compared_in_seconds():
    everyone = {f"s{n}": ONE + f"    v{n} = x * {n}.0 + {n % 17}\n" * (n % 8) for n in range(1000)}
    begin = time.perf_counter()
    groups(answers(**everyone), {"kernel": GIVEN})
    assert time.perf_counter() - begin < 30


def test_text_that_looks_for_answers_is_shown_with_its_line():
    texts = {
        "ana": {"kernel": "import ctypes\nx = 1", "extra": "# ctypes in a comment\nIn[-1]"},
        "ben": {"kernel": "y = x.float()", "given": "import subprocess"},
    }
    message = Verdict("u/e", "", notes=["Faster than the floor, which is worth a look: bytes."])
    students = [
        Graded("ana", repairs=["The check 'c' had been edited; it runs as released.", "Harmless."]),
        Graded("ben"),
        Graded("dan", repairs=[f"{SHARED}. Both are graded.", "Harmless."]),
        Graded("cem", [Outcome("e", "c", 1, 1, "", "1 of 1 points.", message)]),
    ]
    written = ((student, texts.get(student.student, {})) for student in students)
    ana, dan, cem = flagged(written, {"given": "import subprocess"})
    assert ana["student"] == "ana" and len(ana["evidence"]) == 3 and "had been edited" in ana["evidence"][2]
    assert "cell 'kernel' reaches below Python: import ctypes" in ana["evidence"]
    assert dan["evidence"] == [f"{SHARED}. Both are graded."]
    assert cem["evidence"] == ["e: Faster than the floor, which is worth a look: bytes."]


def test_findings_come_from_the_course_folder_and_need_none(tmp_path):
    results = ClassResults("u", "", [], [Graded("ana"), Graded("ben")], "", 0, "")
    assert findings.look(results, tmp_path) == {"similar": [], "flags": [], "set_aside": []}

    def notebook(text, path):
        cell = {"cell_type": "code", "id": "kernel", "source": text.splitlines(True)}
        cell["metadata"] = {"nbgrader": {"solution": True, "grade": False, "grade_id": "kernel"}}
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps({"cells": [cell]}))

    notebook(GIVEN, tmp_path / "course/release/u/u.ipynb")
    for name in ("ana", "ben"):
        notebook(HEAD + ONE, tmp_path / f"course/submitted/{name}/u/u.ipynb")
    (group,) = findings.look(results, tmp_path)["similar"]
    assert group["students"] == ["ana", "ben"]
