"""What learning platforms export and what learners do to notebooks: each is graded with a report or set aside."""

import copy
import io
import json
import os
import random
import stat
import struct
import time
import zipfile
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace

import nbformat
import pytest

from grader.course.build import release_notebook
from grader.course.sources import ROOT, notebook_bytes, source_notebook
from grader.demo.sample import solved
from grader.intake import files as intake_files
from grader.intake.collect import SHARED, collect, lay_out
from grader.intake.files import Unreadable, files_in
from grader.intake.owners import owners
from grader.intake.repair import repair
from grader.judge.submission import Submission as Judged
from tests.grader.intake.mangled import MANGLED

UNIT = "00_start"


@pytest.fixture(scope="module")
def release():
    return release_notebook(ROOT / "solutions" / UNIT)


@pytest.fixture(scope="module")
def solution(release):
    return solved(release, source_notebook(ROOT / "solutions" / UNIT))


@pytest.fixture(scope="module")
def good(solution):
    return notebook_bytes(solution)


@pytest.fixture(scope="module")
def answers(solution):
    """The code that the judge would take from an unharmed notebook, by the names that it defines."""
    return _answers(solution)


def _answers(notebook):
    marks = ("def number_of_programs", "def scale_kernel", "scale_cuda_kernel =")
    texts = [text for _, text in Judged.of(notebook).cells]
    return {m: "".join("\n".join(t for t in texts if m in t).split()) for m in marks}


def hand_in(folder, solution, names=MANGLED):
    for name in names:
        function, _, _, file = MANGLED[name]
        made = function(copy.deepcopy(solution))
        path = folder / name / file.format(unit=UNIT)
        path.parent.mkdir(parents=True)
        path.write_bytes(made if isinstance(made, bytes) else notebook_bytes(made))


def zipped(files, **info):
    """A zip as bytes; `files` by name."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            entry = zipfile.ZipInfo(name, date_time=(2026, 11, 20, 22, 30, 0))
            entry.compress_type = zipfile.ZIP_DEFLATED
            for key, value in info.items():
                setattr(entry, key, value)
            archive.writestr(entry, content)
    return out.getvalue()


def collected(tmp_path, files, release):
    """What is collected from a zip of these files, by student."""
    path = tmp_path / "export.zip"
    path.write_bytes(files if isinstance(files, bytes) else zipped(files))
    return {s.student: s for s in collect(path, UNIT, release)}


# --- mangled notebooks -----------------------------------------------------------------------------------------------


def test_there_are_enough_kinds():
    assert len(MANGLED) >= 25


@pytest.mark.parametrize("name", MANGLED)
def test_a_mangled_notebook_is_repaired_or_set_aside(name, tmp_path, solution, release, answers):
    hand_in(tmp_path, solution, [name])
    _, right, message, _ = MANGLED[name]
    (found,) = collect(tmp_path, UNIT, release)
    assert found.student == name
    if right is None:
        assert found.notebook is None and found.problem.startswith("Not graded, 0 points: ") and found.aside
        return
    text = " ".join(found.repairs)
    assert all(words in text for words in message), found.repairs
    graded = [c.id for c in release.cells if c.metadata.get("nbgrader")]
    mine = [c.id for c in found.notebook.cells if c.metadata.get("nbgrader")]
    assert [c for c in graded if c in mine] == mine, "all graded cells once, in the release's order"
    assert len({c.id for c in found.notebook.cells}) == len(found.notebook.cells)
    theirs = _answers(found.notebook)
    for function, exercise in zip(answers, ("number_of_programs", "scale", "scale_cuda"), strict=True):
        if exercise in right and name != "copied_to_try":
            assert answers[function] in theirs[function]


@pytest.mark.parametrize("keep", ["first", "last", "both", "none"])
def test_wherever_an_answer_is_split_it_is_joined(keep, solution, release):
    for index, whole in enumerate(solution.cells):
        if whole.cell_type != "code" or not whole.metadata.get("nbgrader", {}).get("solution"):
            continue
        lines = whole.source.split("\n")
        for cut in range(1, len(lines)):
            notebook = copy.deepcopy(solution)
            first, rest = notebook.cells[index], copy.deepcopy(whole)
            first.source, rest.source, rest.id = "\n".join(lines[:cut]), "\n".join(lines[cut:]), "rest"
            if keep in ("first", "none"):
                rest.metadata = {}
            if keep in ("last", "none"):
                first.metadata, first.id = {}, "first"
            notebook.cells.insert(index + 1, rest)
            repair(notebook, release)
            assert _bare(notebook) == _bare(solution), (whole.id, cut)


def _bare(notebook):
    """What the judge reads, without white space: an empty line may get lost at a joint."""
    return "".join("".join(text for _, text in Judged.of(notebook).cells).replace("\\n", "").split())


@pytest.mark.parametrize("name", ["colab_new_ids", "all_ids_the_same", "in_the_format_of_2013"])
def test_the_same_file_is_always_mended_to_the_same(name, tmp_path, solution, release):
    hand_in(tmp_path, solution, [name])
    (one,), (two,) = collect(tmp_path, UNIT, release), collect(tmp_path, UNIT, release)
    assert one.notebook == two.notebook and one.repairs == two.repairs


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_mangled_notebooks_get_the_marks_that_their_answers_deserve(tmp_path, solution):
    from grader.grading.grade import grade
    from grader.grading.options import GradeOptions

    hand_in(tmp_path / "in", solution)
    results = grade(ROOT / "solutions" / UNIT, tmp_path / "in", tmp_path / "out", GradeOptions(seed=3))
    assert len(results.students) == len(MANGLED)
    wrong = {}
    for student in results.students:
        right = MANGLED[student.student][1]
        passed = tuple(o.name for o in student.outcomes if o.passed)
        if passed != (right or ()):
            wrong[student.student] = (passed, student.what_happened())
        assert right is None or student.repairs or MANGLED[student.student][2] == ()
    assert wrong == {}


@pytest.mark.parametrize(
    "text",
    ["__global__ " * 9000, "__global__ void __launch_bounds__(" * 4000, "@\n" * 40000, "(" * 90000, "%time x\n" * 700,
     "x = 1\n" * 15000, "\0", "    " * 20000 + "x", "def f(:\n" * 9000, "a" * 4_000_000, "%%cuda\n" + "{" * 99000],
    ids=lambda text: repr(text[:12]),
)  # fmt: skip
def test_a_cell_that_is_hard_to_read_delays_nobody(text, tmp_path, solution, release):
    notebook = copy.deepcopy(solution)
    at = next(i for i, c in enumerate(notebook.cells) if c.id == "scale_kernel")
    cells = [nbformat.v4.new_code_cell(text, id=f"mine-{n}") for n in range(3)]
    notebook.cells[at:at] = cells[:2]
    notebook.cells.insert(at + 3, cells[2])
    (tmp_path / "ana.ipynb").write_bytes(notebook_bytes(notebook))
    begin = time.process_time()
    (found,) = collect(tmp_path, UNIT, release)
    assert time.process_time() - begin < 5
    answer = next(c for c in found.notebook.cells if c.id == "scale_kernel")
    assert "tl.store" in answer.source and len(answer.source) < 2000
    assert sum("at most 64 kB of a cell are read" in r for r in found.repairs) == 3 * (len(text) > 1 << 16)


def test_no_damage_stops_anybody(tmp_path, solution, release):
    """Bits turned over, pieces lost and doubled: every file is graded or set aside."""
    good, draw = json.dumps(json.loads(notebook_bytes(solution))), random.Random(7)
    for number in range(30):
        text = good
        for _ in range(draw.randrange(1, 6)):
            first = draw.randrange(len(text))
            last = min(len(text), first + draw.randrange(1, 200))
            piece = draw.choice(
                ["", text[first:last] * 2, '"', "null", "[]", "{}", "\\ud800", "1e999", '{"nbgrader": []}']
            )
            text = text[:first] + piece + text[last:]
        (tmp_path / f"s{number}.ipynb").write_text(text)
    found = collect(tmp_path, UNIT, release)
    assert len(found) == 30
    assert all(s.problem.startswith("Not graded") if s.notebook is None else not s.problem for s in found)
    lay_out(found, tmp_path / "out" / "course", UNIT)


# --- platforms -------------------------------------------------------------------------------------------------------


def test_moodle_with_folders_and_without(tmp_path, release, good):
    files = {
        f"Duarte Ana_10001_assignsubmission_file_/{UNIT}.ipynb": good,
        "Kaya Elif_10002_assignsubmission_file_my work.ipynb": good,
        "Duarte Ana_10003_assignsubmission_file_/x.ipynb": good,
        "Sato Hana_10004_assignsubmission_onlinetext_/onlinetext.html": b"<p>I could not upload it.",
    }
    found = collected(tmp_path, files, release)
    assert list(found) == ["Duarte Ana", "Duarte Ana 10003", "Kaya Elif", "Sato Hana"]
    assert {s.origin.system for s in found.values()} == {"moodle"}
    assert found["Kaya Elif"].origin.id == "10002" and found["Kaya Elif"].origin.name == "Kaya Elif"
    assert found["Kaya Elif"].origin.handed_in == "2026-11-20T22:30:00"
    assert "only 'onlinetext.html'" in found["Sato Hana"].problem and found["Sato Hana"].aside


def test_canvas_knows_who_was_late_and_what_was_handed_in_again(tmp_path, release, good):
    files = {
        f"duarteana_LATE_501_9001_{UNIT}-1.ipynb": good,
        f"duarteana_LATE_501_9000_{UNIT}.ipynb": b"{}",
        "kayaelif_502_9002_Copy of it.ipynb": good,
    }
    found = collected(tmp_path, files, release)
    ana, elif_ = found["duarteana"], found["kayaelif"]
    assert ana.notebook and ana.origin.id == "501" and ana.origin.marked_late is True
    assert any("Of 2 notebooks" in s for s in ana.repairs) and len(ana.aside) == 1
    assert elif_.origin.marked_late is False and elif_.origin.file == "Copy of it.ipynb"


def test_gradescope_says_who_and_when(tmp_path, release, good):
    metadata = (
        "submission_77:\n  :submitters:\n  - :name: Ana Duarte\n    :sid: '1'\n    :email: ana@example.org\n"
        "  - :name: Elif Kaya\n    :email: elif@example.org\n"
        "  :created_at: !ruby/object:ActiveSupport::TimeWithZone\n    utc: 2026-11-20 21:15:00.5 Z\n    zone: x\n"
    )
    files = {
        "assignment_5_export/submission_metadata.yml": metadata.encode(),
        f"assignment_5_export/submission_77/{UNIT}.ipynb": good,
    }
    ((name, found),) = collected(tmp_path, files, release).items()
    assert name == "Ana Duarte and Elif Kaya" and found.notebook
    assert found.origin.email == "ana@example.org, elif@example.org"
    assert found.origin.handed_in == "2026-11-20T21:15:00+00:00" and found.origin.id == "77"


def test_nbgraders_layouts(tmp_path, release, good):
    files = {
        f"submitted/ana/{UNIT}/{UNIT}.ipynb": good,
        f"submitted/ana/{UNIT}/timestamp.txt": b"2026-11-20 22:58:23.948203 UTC",
        "submitted/ana/06_elementwise_triton/06_elementwise_triton.ipynb": b"{}",
        f"inbound/ben+{UNIT}+2026-11-20 20:00:00.000000 UTC+abc/{UNIT}.ipynb": good,
        f"inbound/ben+{UNIT}+2026-11-20 21:00:00.000000 UTC+def/{UNIT}.ipynb": good,
        "inbound/ben+11_softmax+2026-11-20 21:00:00.000000 UTC+def/11_softmax.ipynb": b"{}",
    }
    found = collected(tmp_path, files, release)
    assert list(found) == ["ana", "ben"] and not found["ana"].aside
    assert found["ana"].origin.handed_in == "2026-11-20T22:58:23+00:00"
    assert found["ben"].origin.handed_in == "2026-11-20T21:00:00+00:00", "the newest counts"
    assert "another file of the same student" in found["ben"].aside[0].reason


EXCHANGE = {
    f"gpu/outbound/{UNIT}/{UNIT}.ipynb": "release",
    f"gpu/inbound/ana+{UNIT}+2026-11-20 20:00:00.000000 UTC+abc/{UNIT}.ipynb": "good",
    f"gpu/feedback/0a1b2c/{UNIT}.html": "page",
}
COURSE = {
    f"source/{UNIT}/{UNIT}.ipynb": "release",
    f"release/{UNIT}/{UNIT}.ipynb": "release",
    f"submitted/ana/{UNIT}/{UNIT}.ipynb": "good",
    f"autograded/ana/{UNIT}/{UNIT}.ipynb": "good",
}


@pytest.mark.parametrize("files", [EXCHANGE, COURSE], ids=["exchange", "course"])
def test_what_nbgrader_keeps_beside_submissions_is_no_students(files, tmp_path, release, good):
    contents = {"release": notebook_bytes(release), "good": good, "page": b"<html>"}
    found = collected(tmp_path, {name: contents[what] for name, what in files.items()}, release)
    assert list(found) == ["ana"] and found["ana"].notebook and not found["ana"].aside


def test_colabs_names_and_folders_around_everything(tmp_path, release, good):
    files = {
        f"class/ana/{UNIT}.ipynb": good,
        "class/ana/notes.pdf": b"%PDF",
        "class/ben/Untitled0.ipynb": good,
        "class/cem/deep/er/x.ipynb.txt": good,
        "class/dora/work.zip": zipped({"__MACOSX/._x.ipynb": b"", "in/x.ipynb": good}),
    }
    found = collected(tmp_path, files, release)
    assert list(found) == ["ana", "ben", "cem", "dora"] and all(s.notebook for s in found.values())
    flat = collected(tmp_path, {f"Copy of ana_{UNIT} (2).ipynb": good, f"ana_{UNIT}.ipynb": b"{}"}, release)
    assert list(flat) == ["ana"] and "Copy of" in flat["ana"].repairs[0]


def test_the_newest_with_the_units_name_is_graded_and_the_others_are_kept(tmp_path, release, good):
    for name in (f"{UNIT}.ipynb", f"{UNIT} (1).ipynb", "scratch.ipynb", f"{UNIT} (2).ipynb"):
        path = tmp_path / "in" / "ana" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(good[:999] if "(2)" in name else good)
    times = {f"{UNIT}.ipynb": 100, f"{UNIT} (1).ipynb": 200, "scratch.ipynb": 400, f"{UNIT} (2).ipynb": 300}
    for name, seconds in times.items():
        os.utime(tmp_path / "in" / "ana" / name, (seconds, seconds))
    (found,) = submissions = collect(tmp_path / "in", UNIT, release)
    assert found.origin.file == f"{UNIT} (1).ipynb"
    assert f"'{UNIT} (2).ipynb' cannot be graded: the file is not JSON" in " ".join(found.repairs)
    lay_out(submissions, tmp_path / "out" / "course", UNIT)
    reasons = json.loads((tmp_path / "out" / "set_aside" / "reasons.json").read_text())
    assert {r["file"] for r in reasons} == {f"ana/{n}" for n in times if n != f"{UNIT} (1).ipynb"}
    assert all((tmp_path / "out" / "set_aside" / r["kept"]).stat().st_size for r in reasons)


@pytest.mark.parametrize(
    ("files", "graded", "note"),
    [
        # equal times: the exact name decides, whatever else a name contains
        ({f"{UNIT}.ipynb": "solved", f"{UNIT}_old.ipynb": "unfilled"}, f"{UNIT}.ipynb", ""),
        ({f"{UNIT}.ipynb": "unfilled", "my answers.ipynb": "solved"}, f"{UNIT}.ipynb", "Nothing is written"),
        # no exact name: ids of the unit's cells, then which is written, then the time
        ({"z.ipynb": "other", "a.ipynb": "solved"}, "a.ipynb", ""),
        ({"a.ipynb": "solved", "z.ipynb": "unfilled"}, "a.ipynb", ""),
        ({"a.ipynb": "solved", "z.ipynb": "without ids"}, "a.ipynb", ""),
        ({"a.ipynb": "solved", "z.ipynb": "one cell less"}, "z.ipynb", ""),
    ],
)
def test_of_several_notebooks(files, graded, note, tmp_path, solution, release, good):
    less = copy.deepcopy(solution)
    del less.cells[next(i for i, c in enumerate(less.cells) if c.id.startswith("given"))]
    contents = {
        "solved": good,
        "unfilled": notebook_bytes(release),
        "other": (ROOT / "notebooks" / "01_hardware" / "01_hardware.ipynb").read_bytes(),
        "without ids": MANGLED["colab_new_ids"][0](copy.deepcopy(solution)),
        "one cell less": notebook_bytes(less),
    }
    for number, (name, what) in enumerate(sorted(files.items())):
        path = tmp_path / "ana" / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(contents[what])
        os.utime(path, (100, 100) if UNIT in files else (number, number))
    (found,) = collect(tmp_path, UNIT, release)
    assert found.origin.file == graded and any(note in r for r in found.repairs)
    has_name = f"{UNIT}.ipynb" in files
    assert any("none has the unit's name" in r for r in found.repairs) is not has_name, found.repairs


def test_a_torn_notebook_with_the_units_name_is_not_denied(tmp_path, release, good):
    files = {f"ana/{UNIT}.ipynb": good[:300], "ana/scratch.ipynb": good}
    found = collected(tmp_path, files, release)["ana"]
    assert found.origin.file == "scratch.ipynb" and "Of 2 notebooks, 'scratch.ipynb' was graded." in found.repairs


@pytest.mark.parametrize("other", ["01_hardware", "06_elementwise_triton", "09_shared_memory"])
def test_another_units_notebook_is_set_aside_and_named(other, tmp_path, release):
    (tmp_path / f"{UNIT}.ipynb").write_bytes((ROOT / "notebooks" / other / f"{other}.ipynb").read_bytes())
    (found,) = collect(tmp_path, UNIT, release)
    assert found.problem == f"Not graded, 0 points: {UNIT}.ipynb: this is unit {other}, not {UNIT}."
    assert [one.file.name for one in found.aside] == [f"{UNIT}.ipynb"]


def test_a_notebook_in_the_encoding_of_windows_is_read(tmp_path, solution, release):
    notebook = copy.deepcopy(solution)
    notebook.cells.append(nbformat.v4.new_markdown_cell("Größe: 3 × n", id="mine"))
    text = "".join(c if ord(c) < 128 or c in "Größe×" else "?" for c in json.dumps(notebook, ensure_ascii=False))
    (tmp_path / "ana.ipynb").write_bytes(text.encode("cp1252"))
    (found,) = collect(tmp_path, UNIT, release)
    assert found.notebook.cells[-1].source == "Größe: 3 × n"
    assert any("encoding of Windows (cp1252)" in r for r in found.repairs)


def test_one_sentence_for_all_repairs_of_a_kind(solution, release):
    notebook = nbformat.reads(MANGLED["colab_new_ids"][0](copy.deepcopy(solution)).decode(), as_version=4)
    lost = [r for r in repair(notebook, release) if "was lost and is restored" in r]
    assert len(lost) == 1 and " cells was lost" in lost[0] and "and " in lost[0]


# --- archives that mean harm ------------------------------------------------------------------------------------------


def test_names_that_lead_out_of_the_zip_lead_nowhere(tmp_path, release, good):
    files = {
        "../../evil.ipynb": good,
        "/etc/cron.d/x.ipynb": good,
        "C:\\Windows\\x.ipynb": good,
        "ana\\..\\..\\x.ipynb": good,
        f"ben/{UNIT}.ipynb": good,
    }
    found = collected(tmp_path, files, release)
    assert found["ben"].notebook
    others = [s for name, s in found.items() if name != "ben"]
    assert len(others) == 4 and all("leads out" in s.problem for s in others)
    lay_out(list(found.values()), tmp_path / "out" / "course", UNIT)
    written = {p.relative_to(tmp_path).parts[0] for p in tmp_path.rglob("*.ipynb")}
    assert written == {"out"}


def test_a_bomb_costs_its_own_marks(tmp_path, release, good, monkeypatch):
    monkeypatch.setattr(intake_files, "MOST_BYTES", 1_000_000)
    bomb = zipped({"x.ipynb": b" " * 30_000_000})
    nested = bomb
    for _ in range(4):
        nested = zipped({"more.zip": nested})
    found = collected(tmp_path, {"ana/x.zip": bomb, "ben/x.zip": nested, "cem/x.ipynb": good}, release)
    assert "larger than 1 MB" in found["ana"].problem and "nested too deeply" in found["ben"].problem
    assert found["cem"].notebook


def test_links_encryption_and_damage_are_said(tmp_path, release, good):
    link = zipped({"x.ipynb": b"/etc/passwd"}, external_attr=0o120777 << 16)
    secret = bytearray(zipped({"x.ipynb": good}))
    secret[6] |= 1  # the flag, at the entry and in the directory
    secret[secret.index(b"PK\x01\x02") + 8] |= 1
    torn = bytearray(zipped({"x.ipynb": good}))
    torn[200:260] = b"\0" * 60
    strange = bytearray(zipped({"x.ipynb": good}))
    struct.pack_into("<H", strange, strange.index(b"PK\x01\x02") + 10, 99)
    files = {"a/l.zip": link, "b/e.zip": bytes(secret), "c/t.zip": bytes(torn), "d/n.zip": good[:99]}
    files |= {"e/s.zip": bytes(strange)}
    found = collected(tmp_path, files, release)
    message = [found[s].problem for s in "abcde"]
    for words, problem in zip(("link", "encrypted", "damaged", "damaged", "unpacked"), message, strict=True):
        assert words in problem


def test_links_of_any_kind_are_set_aside(tmp_path, release, good):
    """Whatever a learner's file is another name for may be a classmate's."""
    (tmp_path / "secret.ipynb").write_bytes(good)
    folder = tmp_path / "in"
    for name in ("ana", "ben", "cem", "dora", "eva", "finn"):
        (folder / name).mkdir(parents=True)
    (folder / "ana" / "x.ipynb").write_bytes(good)
    (folder / "ben" / "x.ipynb").symlink_to(tmp_path / "secret.ipynb")
    (folder / "cem" / "x.ipynb").symlink_to(folder / "ana" / "x.ipynb")
    os.link(tmp_path / "secret.ipynb", folder / "dora" / "x.ipynb")
    os.mkfifo(folder / "eva" / "x.ipynb")
    (folder / "finn" / "deep").symlink_to(folder / "ana", target_is_directory=True)
    (folder / "gina").symlink_to(folder / "ana", target_is_directory=True)
    found = {s.student: s for s in collect(folder, UNIT, release)}
    assert found["ana"].notebook is not None
    for name, why in {
        "ben": "it is a link", "cem": "it is a link", "dora": "the same file has 2 names", "eva": "not a regular file",
        "finn": "the folder contains no notebook",
    }.items():  # fmt: skip
        assert found[name].notebook is None and why in found[name].problem, name
    assert "gina" not in found or found["gina"].notebook is None


def test_a_hard_link_to_a_classmates_file_costs_nobody_points(tmp_path, release, good):
    """Nothing shows which name was the first, so each is graded as a copy would be, and a person is told."""
    folder = tmp_path / "in"
    for name in ("ana", "ben", "cem"):
        (folder / name).mkdir(parents=True)
    (folder / "ana" / "x.ipynb").write_bytes(good)
    os.link(folder / "ana" / "x.ipynb", folder / "ben" / "y.ipynb")
    (folder / "cem" / "x.ipynb").write_bytes(good)
    os.link(folder / "cem" / "x.ipynb", folder / "cem" / "again.ipynb")
    found = {s.student: s for s in collect(folder, UNIT, release)}
    assert all(s.notebook is not None for s in found.values())
    shared = {name for name, s in found.items() if any(r.startswith(SHARED) for r in s.repairs)}
    assert shared == {"ana", "ben"}, "cem's second name lies in cem's own folder"


@pytest.mark.parametrize(
    "name",
    ["{}/00_start/x.ipynb", "{}+00_start+2020-01-01 00:00:00 UTC/x.ipynb", "{}_12_assignsubmission_file_/x.ipynb",
     "submitted/{}/00_start/x.ipynb", "ana_12_34_{}.ipynb", "deep/{}/00_start/x.ipynb"],
)  # fmt: skip
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("honest", ["ana.ipynb", "ana/00_start/x.ipynb", "submitted/ana/x.ipynb"])
def test_nobody_submits_in_another_learners_name(honest, packed, name, tmp_path):
    """What is inside a learner's folder or zip is called as the learner likes."""
    path = name.format("ana")
    within, first = tmp_path / "in" / honest, tmp_path / "in" / ("submitted" if "submitted" in honest else "")
    within.parent.mkdir(parents=True)
    within.write_bytes(b"{}")
    if packed:
        (first / "mallory.zip").write_bytes(zipped({path: b"{}", f"{Path(path).parent}/timestamp.txt": b"2099-01-01"}))
    else:
        (first / "mallory" / path).parent.mkdir(parents=True)
        (first / "mallory" / path).write_bytes(b"{}")
    found = list(files_in(tmp_path / "in"))
    names = {f.parts: o.name for f, o in zip(found, owners(found, UNIT), strict=True) if o}
    assert {n for p, n in names.items() if "mallory" not in "".join(p)} == {"ana"}
    assert {n for p, n in names.items() if "mallory" in "".join(p)} == {"mallory"}


def test_a_folder_named_after_the_unit_in_a_moodle_submission_is_its_learners(tmp_path):
    for name in ("ana_1_assignsubmission_file_/00_start/x.ipynb", "ben_2_assignsubmission_file_/x.ipynb"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_bytes(b"{}")
    found = list(files_in(tmp_path))
    assert [o.key for o in owners(found, UNIT)] == ["moodle 1", "moodle 2"]


@pytest.mark.parametrize("name", ["{}_{}_assignsubmission_file_/x.ipynb", "{}/00_start/x{}.ipynb"])
def test_each_group_of_a_class_may_have_a_folder(name, tmp_path):
    for number, (group, who) in enumerate((("one", "ana"), ("one", "ben"), ("two", "cem"), ("two", "dan"))):
        path = tmp_path / group / name.format(who, number)
        path.parent.mkdir(parents=True)
        path.write_bytes(b"{}")
    found = list(files_in(tmp_path))
    assert [o.name for o in owners(found, UNIT)] == ["ana", "ben", "cem", "dan"]


def _name(owner: int):
    return SimpleNamespace(parent=SimpleNamespace(lstat=lambda: SimpleNamespace(st_uid=owner)))


def test_where_folders_belong_to_students_the_owners_name_is_the_file(monkeypatch):
    """As in nbgrader's inbound folder: a file keeps its owner, whoever's folder holds a further name of it."""
    ana, ben, grader = 1001, 1002, 1000
    monkeypatch.setattr(os, "geteuid", lambda: grader)
    hers, his, about = _name(ana), _name(ben), SimpleNamespace(st_uid=ana, st_nlink=2)
    assert not intake_files._why_refused(hers, about, [hers, his])
    assert "another user" in intake_files._why_refused(his, about, [hers, his])
    assert not intake_files._why_refused(hers, about, [hers]), (
        "somebody has a second name elsewhere, and the file is hers"
    )
    assert "not all are submissions" in intake_files._why_refused(his, about, [his])
    about = SimpleNamespace(st_uid=grader, st_nlink=2)
    unpacked = _name(grader)
    assert "not all are submissions" in intake_files._why_refused(unpacked, about, [unpacked])


@pytest.mark.parametrize("how", ["a link", "a link above it", "another file", "a second name"])
def test_what_takes_the_place_of_a_file_is_not_read(how, tmp_path, release, good, monkeypatch):
    """Between the look at a folder and the reading of its files, a learner may change them."""
    folder = tmp_path / "in"
    for name in ("ana", "ben"):
        (folder / name / "work").mkdir(parents=True)
        (folder / name / "work" / "x.ipynb").write_bytes(good)
    mine, theirs = folder / "ben" / "work" / "x.ipynb", folder / "ana" / "work" / "x.ipynb"
    found = list(files_in(folder))
    mine.rename(tmp_path / "kept")
    if how == "a link":
        mine.symlink_to(theirs)
    elif how == "a link above it":
        mine.parent.rmdir()
        mine.parent.symlink_to(theirs.parent, target_is_directory=True)
    elif how == "another file":
        mine.write_bytes(good)
    else:
        os.link(theirs, mine)
    (file,) = [f for f in found if f.parts[0] == "ben"]
    with pytest.raises(Unreadable, match="replaced while submissions were collected|cannot be read"):
        file.read()


@pytest.mark.parametrize("kind", [stat.S_IFLNK, stat.S_IFIFO, stat.S_IFBLK, stat.S_IFCHR])
def test_a_zip_holds_files_only(kind, tmp_path, release, good):
    data = zipped({"ana/x.ipynb": good}, external_attr=(kind | 0o644) << 16, create_system=3)
    (found,) = collected(tmp_path, data, release).values()
    assert found.notebook is None and ("it is a link" in found.problem or "not a regular file" in found.problem)


def test_names_in_a_zip_have_a_length(tmp_path, release, good):
    """Patterns look for owners in them."""
    begin = time.process_time()
    (found,) = collected(tmp_path, {"_" * 60_000 + ".ipynb": good}, release).values()
    assert "its name is longer than 255 letters" in found.problem and time.process_time() - begin < 1


def test_a_learner_cannot_tell_whose_files_are_whose(tmp_path, release, good):
    listed = b"submission_9:\n  :submitters:\n  - :name: Ana\n    :email: ana@x\n"
    files = {"ana/x.ipynb": good, "ben/submission_metadata.yml": listed, "ben/submission_9/x.ipynb": good}
    assert set(collected(tmp_path, files, release)) == {"ana", "ben"}


def test_more_files_than_a_class_has_are_not_looked_at(tmp_path, release, good, monkeypatch):
    monkeypatch.setattr(intake_files, "MOST_FILES", 3)
    found = collected(tmp_path, {f"s{n}/x.ipynb": good for n in range(5)}, release)
    assert sum(s.notebook is not None for s in found.values()) == 3
    assert any("more than 3 files" in s.problem for s in found.values())


def test_names_in_other_encodings(tmp_path, release, good):
    data = zipped({"Inigo_Vega/x.ipynb": good})
    data = data.replace(b"Inigo_Vega", "Íñgo_Vga".encode())  # UTF-8 that does not say so
    assert list(collected(tmp_path, data, release)) == ["Íñgo_Vga"]
    apart = {"Jose\u0301/x.ipynb": good, "José/y.ipynb": good}  # macOS's accents and everybody's
    assert list(collected(tmp_path, apart, release)) == ["José"]


def test_an_exact_time_in_a_zip_is_preferred(tmp_path, release, good):
    seconds = int(datetime.fromisoformat("2026-11-20T20:00:00+00:00").timestamp())
    data = zipped({"ana/x.ipynb": good}, extra=struct.pack("<HHBi", 0x5455, 5, 1, seconds))
    assert collected(tmp_path, data, release)["ana"].origin.handed_in == "2026-11-20T20:00:00+00:00"


def test_what_is_neither_folder_nor_zip_is_said(tmp_path, release):
    (tmp_path / "x").write_text("")
    with pytest.raises(Unreadable, match="neither a folder nor a zip"):
        collect(tmp_path / "x", UNIT, release)


def test_the_checksum_of_a_cell_is_nbgraders(release):
    from nbgrader.utils import compute_checksum

    from grader.intake.repair import _checksum

    cells = [cell for cell in release.cells if "checksum" in cell.metadata.get("nbgrader", {})]
    assert len({cell.metadata.nbgrader.get("grade") for cell in cells}) == 2
    for cell in cells:
        assert _checksum(cell, cell.metadata.nbgrader) == compute_checksum(cell)
