"""Where messages are shown: only ours are translated, in English nothing is in the way, and pictures have no boxes."""

import builtins
import json
import types

import pytest
from IPython.core.interactiveshell import InteractiveShell

from labutils import plots
from labutils.check.check import NotWrittenYet
from labutils.language import choice, fonts, show
from labutils.study.progress import Progress

PRINT = builtins.print


@pytest.fixture
def chinese(tmp_path, monkeypatch):
    """A language of a few messages, without a font."""
    done = "{done} of {course} exercises done, {points} points"
    catalog = {"rows": "行", done: "完成 {done}/{course} 题，{points} 分"}
    (tmp_path / "zh.json").write_text(json.dumps(catalog), encoding="utf-8")
    monkeypatch.setattr(choice, "FOLDER", tmp_path)
    monkeypatch.setattr(choice.languages, "__defaults__", (tmp_path,))
    monkeypatch.setattr(fonts, "family", lambda sample: "DejaVu Sans" if sample else "")
    yield show.use("zh")
    show.use("en")


def ours(text: str) -> None:
    """Print as a module of labutils."""
    exec("print(text)", {"__name__": "labutils.made_up", "text": text})


def test_prints_of_ours_are_translated_and_no_others(chinese, capsys):
    assert chinese == ""
    ours("rows")
    print("rows", NotWrittenYet("rows"))
    assert capsys.readouterr().out == "行\nrows 行\n"


def test_english_has_nothing_in_the_way(chinese, capsys):
    assert show.use("en") == ""
    assert builtins.print is PRINT
    ours("rows")
    assert capsys.readouterr().out == "rows\n" and show.shown("rows") == "rows"


def test_a_notebook_displays_our_objects_in_the_language(monkeypatch, chinese):
    shell = InteractiveShell()
    monkeypatch.setattr("IPython.get_ipython", lambda: shell)
    show.use("zh")
    data, _ = shell.display_formatter.format(Progress())
    assert "题，0 分" in data["text/plain"]
    assert shell.display_formatter.format("rows")[0]["text/plain"] == "'rows'"


def test_an_exception_that_is_a_sentence_is_translated(monkeypatch, chinese, capsys):
    shell = InteractiveShell()
    monkeypatch.setattr("IPython.get_ipython", lambda: shell)
    show.use("zh")
    for problem in (NotWrittenYet("rows"), ValueError("rows")):
        try:
            raise problem
        except Exception:
            shell.showtraceback()
    printed = capsys.readouterr().out
    assert printed.startswith("行\n") and "ValueError: rows" in printed.replace("\x1b[39m", "").replace("\x1b[0m", "")


def test_a_picture_is_translated_once_when_it_is_drawn(chinese):
    fig = plots.base.figure(2, 1)
    axes = fig.subplots()
    axes.set_title("rows")
    axes.set_xticks([0, 1], ["rows", "x"])
    with pytest.warns(UserWarning, match="missing from font"):  # the font of the test has no Chinese
        fig.to_html()
    assert axes.get_title() == "行" and [t.get_text() for t in axes.get_xticklabels()] == ["行", "x"]
    with pytest.warns(UserWarning):
        fig.to_html()
    assert axes.get_title() == "行"


def test_without_a_font_a_picture_stays_in_english(chinese, monkeypatch, capsys):
    from labutils.language import pictures

    pictures._say_once.cache_clear()
    monkeypatch.setattr(fonts, "family", lambda sample: None)
    fig = plots.base.figure(2, 1)
    fig.suptitle("rows")
    fig.to_html()
    fig.to_html()
    assert fig.get_suptitle() == "rows" and capsys.readouterr().out == fonts.MISSING + "\n"


def test_an_unknown_language_is_named(chinese):
    assert show.use("xx") == "Messages are in English: there is no language 'xx', only en, zh."


@pytest.mark.parametrize(
    ("asked", "environment", "found"),
    [
        ("zh", {}, "zh"),
        (None, {"GPULAB_LANG": "zh-CN", "LANG": "de_DE.UTF-8"}, "zh"),
        (None, {"LANG": "zh_CN.UTF-8"}, "zh"),
        (None, {"LANGUAGE": "zh:en", "LANG": "en_US.UTF-8"}, "zh"),
        ("en", {"GPULAB_LANG": "zh"}, "en"),
        (None, {"LANG": "C.UTF-8"}, "c"),
        (None, {}, ""),
    ],
)
def test_the_language_is_asked_for_or_the_systems(asked, environment, found, monkeypatch):
    for name in ("GPULAB_LANG", "LANGUAGE", "LC_ALL", "LC_MESSAGES", "LANG"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert choice.wanted(asked) == found


# --- the font ------------------------------------------------------------------------------------------------------


def test_matplotlibs_own_font_is_enough_for_latin():
    assert fonts.family("éµ") == ""


def test_where_nothing_can_be_downloaded_there_is_none(monkeypatch, tmp_path):
    monkeypatch.setenv("GPULAB_CACHE", str(tmp_path))
    monkeypatch.setattr(fonts, "NAMES", ())

    def refused(*_, **__):
        raise OSError("no network")

    monkeypatch.setattr(fonts.urllib.request, "urlopen", refused)
    assert fonts.family.__wrapped__("线程束") is None


def test_another_file_than_the_pinned_one_is_refused(monkeypatch, tmp_path):
    reply = types.SimpleNamespace(read=lambda most: b"!<arch>\nother")
    monkeypatch.setattr(fonts.urllib.request, "urlopen", lambda *_, **__: _opened(reply))
    with pytest.raises(ValueError, match="another one"):
        fonts._fetch(tmp_path / "font.ttc")
    assert list(tmp_path.iterdir()) == []


class _opened:
    def __init__(self, reply):
        self.reply = reply

    def __enter__(self):
        return self.reply

    def __exit__(self, *_):
        return False
