"""The line while a check looks for a reason: only in a notebook, only if it takes long, and gone afterwards."""

import types

import IPython
import pytest

from labutils.check import waiting

TEXT = "Looking for the reason …"


@pytest.fixture
def screen(monkeypatch):
    """What a notebook shows, as it changes."""
    shown = []

    def display(data, **options):
        shown.append(data["text/plain"])
        return types.SimpleNamespace(update=lambda data, **options: shown.append(data["text/plain"]))

    monkeypatch.setattr(IPython, "get_ipython", lambda: types.SimpleNamespace(kernel=None))
    monkeypatch.setattr(IPython.display, "display", display)
    return shown


def test_what_takes_long_is_announced_and_then_gone(screen):
    with pytest.raises(ZeroDivisionError), waiting.line(TEXT, 5):
        assert screen == [TEXT]
        1 / 0  # noqa: B018
    assert screen == [TEXT, ""]


def test_what_is_short_or_graded_shows_nothing(screen, monkeypatch):
    with waiting.line(TEXT, 1):
        pass
    monkeypatch.setenv("NBGRADER_EXECUTION", "autograde")
    with waiting.line(TEXT, 5):
        pass
    assert screen == []


def test_without_a_notebook_nothing_is_shown(monkeypatch, capsys):
    monkeypatch.setattr(IPython, "get_ipython", lambda: None)
    with waiting.line(TEXT, 5):
        pass
    assert capsys.readouterr().out == ""
