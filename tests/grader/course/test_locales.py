"""Editions in other languages: what is a message, what a translation must keep, and what is built from it."""

import copy
import json
import re

import nbformat
import pytest
from markdown_it import MarkdownIt

from grader.commands import locale
from grader.course.build import _through_nbgrader, build_unit
from grader.course.locales import catalogs, markdown, rules
from grader.course.locales.edition import Translated
from grader.course.locales.messages import DOCS, has_words, shares
from grader.course.sources import ROOT, unit_names
from grader.intake.repair import repair
from tests.grader.sample import POINTS, SAMPLE, UNIT, run, write_unit

EDITIONS = catalogs.editions(ROOT)
HTML = MarkdownIt().enable("table")
CHINESE = {
    "# Scale and add two vectors\n\nOne program computes `BLOCK` elements.": "# 向量\n\n一个程序计算 `BLOCK` 个元素。",
    "Why is it slow?\n### BEGIN SOLUTION\nBecause memory is the bottleneck.\n### END SOLUTION": (
        "为什么慢？\n### BEGIN SOLUTION\n因为内存是瓶颈。\n### END SOLUTION"
    ),
    "Draw the roofline.\n### BEGIN MARK SCHEME\nOne point for each of the roofs.\n### END MARK SCHEME": (
        "画出屋顶线。\n### BEGIN MARK SCHEME\n每条一分。\n### END MARK SCHEME"
    ),
}


def course(tmp_path, text=SAMPLE, translations=CHINESE):
    """A course of the sample unit with a Chinese edition; returns its folder and the edition."""
    root = write_unit(tmp_path, text)
    edition = catalogs.Edition(root / "locale" / "zh_CN")
    locale.updated(root, edition)
    catalogs.fill(edition.path(UNIT), translations, edition.language)
    return root, edition


def cells(root, folder="notebooks/zh"):
    return {c.id: c for c in nbformat.read(root / folder / UNIT / f"{UNIT}.ipynb", as_version=4).cells}


# --- documents in pieces -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", DOCS)
def test_a_document_of_untranslated_pieces_is_the_document(name):
    text = (ROOT / name).read_text(encoding="utf-8")
    again = markdown.translated(text, str)
    assert " ".join(HTML.render(again).split()) == " ".join(HTML.render(text).split())
    assert markdown.messages(again) == markdown.messages(text)
    assert not [message for message in markdown.messages(text) if "\n" in message]


def test_the_pieces_of_a_document():
    text = "# Title\nOne\ntwo `x`.\n\n- a\n  b\n- `c`\n\n| h | i |\n|---|---|\n| 1 | two |\n\n    code\n\n"
    text += "```\nmore\n\ncode\n```\nend\n"
    assert markdown.messages(text) == ["# Title", "One two `x`.", "- a b", "| h | i |", "| 1 | two |", "end"]
    assert markdown.translated(text, str.upper).endswith("| 1 | TWO |\n\n    code\n\n```\nmore\n\ncode\n```\nEND\n")


@pytest.mark.parametrize(
    ("link", "found"),
    [
        ("start.md#colab", "start.md#colab"),
        ("judging.md", "../judging.md"),
        ("../README.md#paths", "README.md#paths"),
        ("../notebooks/00_start/00_start.ipynb", "../../notebooks/zh/00_start/00_start.ipynb"),
        ("pictures/unit.png", "../pictures/unit.png"),
        ("#paths", "#paths"),
        ("https://x.org/a.md", "https://x.org/a.md"),
    ],
)
def test_links_lead_to_the_edition_where_it_has_the_file(link, found):
    places = Translated(ROOT, catalogs.Edition(ROOT / "locale" / "zh_CN"))._places
    assert markdown.moved(f"[a]({link})", "docs/learners.md", "docs/zh/learners.md", places) == f"[a]({found})"


def test_values_of_claims_with_words_are_messages():
    assert [v for v in ("64", "228 KB", "18.75 %", "4192 GB/s", "12 to 25 %", "128 bytes", "7 µs") if has_words(v)] == [
        "12 to 25 %",
        "128 bytes",
    ]


# --- rules ---------------------------------------------------------------------------------------------------------

ENGLISH = (
    "## Four\n\nAn [SM](../glossary.md#sm) has {claim: few} `a[i]`, $x^2$ and ___ `x\nof y` few{plural}.\n\n"
    "- one\n- two\n\n| a | b |\n"
)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("Four", "四", ""),
        ("has", "有 `a[i]`", ""),
        ("An ", "某", ""),
        ("## Four", "# 四", "has headings ['#'], not ['##']"),
        ("#sm", "#s", "lacks the link '../glossary.md#sm'"),
        ("{claim: few}", "{claim: 几}", "adds the field '{claim: 几}'"),
        ("`a[i]`", "a", "lacks the code '`a[i]`'"),
        ("`a[i]`", "`a[j]`", "adds the code '`a[j]`'"),
        ("$x^2$", "", "lacks the formula '$x^2$'"),
        ("___", "", "lacks the blank '___'"),
        ("- two\n", "", "has 1 list items, not 2"),
        ("| a | b |", "甲", "has 0 table rows, not 1"),
        ("| a | b |", "| 甲 |", "has rows of [2] bars, not [3]"),
        ("An ", "一个\n中文", "breaks a line"),
        ("An ", "<b>某</b>", "adds the tag '<b>'"),
        ("| b |\n", "| b |", ""),
        ("few{plural}", "few", ""),
        ("`x\nof y`", "`x of y`", ""),
        ("`x\nof y`", "`x of z`", "lacks the code '`x of y`'"),
    ],
)
def test_a_broken_rule_is_named(old, new, said):
    found = rules.violations(ENGLISH, ENGLISH.replace(old, new))
    assert (said in " ".join(found)) if said else found == []


def test_code_blocks_stay_and_words_in_drawings_do_not():
    text = "```python\na = b  # copy\n```\n\n```\nhost |a|\nGPU  |b|\n```\n"
    assert rules.violations(text, text.replace("host", "主机端")) == []
    assert rules.violations(text, text.replace("host |a|\n", ""))
    assert rules.violations(text, text.replace("# copy", "# 复制"))


def test_the_hints_stay_hints_and_the_answers_marked():
    hint = "<details><summary>Hint 1</summary><code>a</code> is b.</details>"
    assert rules.violations(hint, hint.replace("Hint 1", "提示 1").replace("is b", "是乙")) == []
    assert rules.violations(hint, hint.replace("<code>a", "<code>甲"))
    question = next(text for text in CHINESE if "SOLUTION" in text)
    assert rules.violations(question, CHINESE[question]) == []
    assert rules.violations(question, CHINESE[question].replace("### END SOLUTION", ""))


@pytest.mark.parametrize("edition", EDITIONS, ids=lambda e: e.language)
def test_every_translation_keeps_the_rules(edition):
    assert locale.wrong(ROOT, edition) == []


def quoted_of_the_check(text: str) -> list[list[str]]:
    """What the first columns of a cell's tables quote, each quotation in the parts around its “…”."""
    rows = [markdown.CODE.sub("", row).split(" | ")[0] for row in text.split("\n") if row.startswith("| ")]
    found = [a or b for row in rows for a, b in re.findall(r'“([^”]+)”|"([^"]+)"', row)]
    return [[part.strip() for part in re.split("…+", quotation) if part.strip()] for quotation in found]


@pytest.mark.parametrize("edition", EDITIONS, ids=lambda e: e.language)
def test_a_table_quotes_what_the_check_prints(edition):
    shown = edition.translations("lab")
    prints = [[re.sub(r"\{plural\d*\}", "", text) for text in texts] for texts in (shown.keys(), shown.values())]
    quotations = [
        (unit, language, parts)
        for unit in unit_names(ROOT)
        for pair in edition.translations(unit).items()
        for language, text in enumerate(pair)
        for parts in quoted_of_the_check(text)
    ]
    assert len(quotations) > 40
    assert not [
        (unit, parts)
        for unit, language, parts in quotations
        if not any(all(part in text for part in parts) for text in prints[language])
    ]


@pytest.mark.parametrize("edition", EDITIONS, ids=lambda e: e.language)
def test_the_share_translated(edition, capsys):
    found = shares(ROOT, edition)
    with capsys.disabled():
        for name, (done, count) in found.items():
            print(f"\n{edition.language} {name}: {done} of {count}", end="")
    assert {*unit_names(ROOT), "docs", "grader"} <= found.keys()
    assert all(0 <= done <= count for done, count in found.values()) and sum(n for _, n in found.values()) > 1000


# --- catalogs ------------------------------------------------------------------------------------------------------


def test_a_catalog_is_written_the_same_every_time(tmp_path):
    root, edition = course(tmp_path)
    first = edition.path(UNIT).read_bytes()
    assert locale.updated(root, edition)[UNIT] == (3, 4)
    assert edition.path(UNIT).read_bytes() == first


def test_a_changed_text_is_untranslated_and_its_old_translation_kept(tmp_path):
    root, edition = course(tmp_path)
    write_unit(tmp_path, SAMPLE.replace("computes `BLOCK` elements", "computes all `BLOCK` elements"))
    assert shares(root, edition)[UNIT] == (2, 4)
    assert locale.updated(root, edition)[UNIT] == (2, 4)
    (row, _) = json.loads(locale.exported(root, edition, UNIT))
    assert row["zh"] == "" and row["was"].startswith("# 向量")
    assert run(root) == []
    assert "computes all `BLOCK` elements" in next(iter(cells(root).values())).source


def test_what_is_exported_is_imported_where_it_keeps_the_rules(tmp_path):
    root, edition = course(tmp_path, translations={})
    rows = json.loads(locale.exported(root, edition, UNIT))
    assert [row["n"] for row in rows] == [1, 2, 3, 4] and rows[1]["about"] == "given"
    for row in rows:
        row["zh"] = CHINESE.get(row["en"], "")
    assert locale.imported(edition, UNIT, json.dumps(rows)) == []
    assert edition.translations(UNIT) == CHINESE
    (left,) = json.loads(locale.exported(root, edition, UNIT))
    assert left["en"] == "The launcher is given."
    left["zh"] = "`launch` 已给出。"
    (problem,) = locale.imported(edition, UNIT, json.dumps([left]))
    assert problem == "06_unit, 2 (The launcher is given.): adds the code '`launch`'"
    left["en"] = "Another text."
    assert "no such message" in locale.imported(edition, UNIT, json.dumps([left]))[0]
    assert edition.translations(UNIT) == CHINESE


# --- what is built -------------------------------------------------------------------------------------------------


def test_an_edition_shares_code_ids_and_marks(tmp_path):
    root, edition = course(tmp_path)
    assert run(root) == [] and run(root, check=True) == []
    english, chinese = cells(root, "notebooks"), cells(root)
    assert list(chinese) == list(english)
    for name, cell in english.items():
        assert cell.cell_type != "code" or cell == chinese[name]
        assert {**cell.metadata.get("nbgrader", {}), "checksum": 0} == {
            **chinese[name].metadata.get("nbgrader", {}),
            "checksum": 0,
        }
    assert chinese["explain"].source == "为什么慢？\nYOUR ANSWER HERE" and chinese["plot"].source == "画出屋顶线。"
    first = next(iter(chinese.values())).source
    assert first.startswith("# 向量\n\n") and "/notebooks/zh/06_unit/06_unit.ipynb" in first
    assert "/docs/zh/glossary.md" in first


def test_the_release_of_an_edition_is_what_nbgrader_makes_of_its_source(tmp_path):
    root, edition = course(tmp_path)
    built = build_unit(root / "solutions" / UNIT, POINTS)
    translated = Translated(root, edition)
    source = translated.source(built.source, UNIT)
    assert translated.release(built.release, source) == _through_nbgrader(source, UNIT)


def test_an_answer_in_a_translation_is_found(tmp_path):
    leak = {"The launcher is given.": "启动器已给出：因为内存是瓶颈，所以它很慢很慢很慢。"}
    answer = next(text for text in CHINESE if "SOLUTION" in text)
    long = {answer: CHINESE[answer].replace("因为内存是瓶颈。", "因为内存是瓶颈，所以它很慢很慢很慢。")}
    root, _ = course(tmp_path, translations=CHINESE | long | leak)
    (problem,) = run(root)
    assert problem.startswith("zh/06_unit: cell given-") and "gives away the SOLUTION of explain" in problem
    assert not (root / "notebooks" / "zh").exists()


def test_a_stale_notebook_of_an_edition_is_removed(tmp_path):
    root, _ = course(tmp_path)
    old = root / "notebooks/zh/05_old/05_old.ipynb"
    old.parent.mkdir(parents=True)
    old.write_text("{}")
    assert "05_old: the released notebook has no source" in run(root, check=True)[-1]
    assert run(root) == [] and not old.exists()


@pytest.mark.parametrize("edition", EDITIONS, ids=lambda e: e.language)
def test_the_links_of_an_editions_notebooks_resolve(edition):
    folder = ROOT / "notebooks" / edition.name
    names = set(re.findall(r'<a id="([^"]+)"', (folder / "glossary.md").read_text(encoding="utf-8")))
    paths = [folder / "glossary.md", *folder.glob("**/*.ipynb")]
    assert len(paths) == len(unit_names(ROOT)) + 2
    for path in paths:
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".ipynb":
            notebook = nbformat.reads(text, as_version=4)
            text = "\n".join(c.source for c in notebook.cells if c.cell_type == "markdown")
        for link in markdown.TARGET.findall(markdown.CODE.sub("", text)):
            file, _, fragment = link.partition("#")
            if "://" in link or not re.fullmatch(r"[\w./-]+", file):
                continue
            assert (path.parent / file).resolve().exists(), f"{path.name}: {link}"
            assert not file.endswith("glossary.md") or fragment in names | {""}, f"{path.name}: {link}"


def test_a_language_is_a_folder(tmp_path):
    for name in ("zh_CN", "fr"):
        (tmp_path / "locale" / name).mkdir(parents=True)
    assert [(e.language, e.name) for e in catalogs.editions(tmp_path)] == [("fr", "fr"), ("zh_CN", "zh")]
    (tmp_path / "locale" / "zh_TW").mkdir()
    with pytest.raises(ValueError, match="two editions"):
        catalogs.editions(tmp_path)


def test_a_submission_of_an_edition_needs_no_repair(tmp_path):
    root, _ = course(tmp_path)
    run(root)
    english, chinese = (nbformat.read(root / f / UNIT / f"{UNIT}.ipynb", 4) for f in ("notebooks", "notebooks/zh"))
    assert chinese.cells != english.cells
    assert repair(copy.deepcopy(chinese), english) == []
    changed = next(cell for cell in chinese.cells if cell.id == "plot")
    changed.source += " 再画一张。"
    assert repair(chinese, english) == ["The given cell 'plot' had been edited; it runs as released."]
