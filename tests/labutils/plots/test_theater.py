"""The page of a film: whole, small, and data that nobody can break out of."""

import json
import re

from labutils.backends.film import Film, FilmedArray, Frame, Mbarrier
from labutils.language import choice, show
from labutils.plots import theater_words
from labutils.plots.theater import TEMPLATE, Theater, runs

FRAMES = (
    Frame(0, 0, 2, "load", 0xFFFFFFFF, "x", 4, tuple(range(0, 128, 4)), tuple(range(32))),
    Frame(0, 0, 0, "land", array="x", size=16, offsets=(0, 64), shape=(2, 4), mbarrier=Mbarrier("full", 1, 1, 1, 0)),
)


def data(film: Film) -> dict:
    return json.loads(re.search(r'id="film">(.*?)</script>', Theater(film).page, re.DOTALL)[1])


def film(*frames: Frame, source: str = "a\nb") -> Film:
    return Film("k", source, (1, 1, 1), 32, {"x": FilmedArray(128, 4)}, frames)


def test_a_page_is_whole(tmp_path):
    shown = Theater(film(*FRAMES))
    page = shown.save(tmp_path / "film.html").read_text(encoding="utf-8")
    assert page == shown.page and not re.search(r"""(src|href)\s*=\s*["']?https?:|@import|url\(""", page)
    assert "<iframe" in shown._repr_html_() and "2 steps" in repr(shown)
    assert data(film(*FRAMES))["source"] == ["a", "b"]


def test_what_is_empty_is_left_out():
    load, land = data(film(*FRAMES))["frames"]
    assert set(load) == set("bwolmasrv") and load["r"] == [0, 4, 32]
    assert land["q"] == ["full", 1, 1, 1, 0] and "v" not in land


def test_offsets_as_runs():
    assert runs(()) == [] and runs((8,)) == [8, 0, 1] and runs((0, 0, 0)) == [0, 0, 3]
    assert runs((0, 4, 8, 100, 96)) == [0, 4, 3, 100, -4, 2]


def test_a_long_film_is_cut_to_the_size_of_a_page():
    scattered = tuple(4 * (k * k % 997) for k in range(32))
    made = film(*(Frame(0, 0, 2, "load", 0xFFFFFFFF, "x", 4, scattered, tuple(range(32))) for _ in range(9000)))
    page = Theater(made).page
    assert len(page) <= 1_500_000 and len(data(made)["frames"]) < 9000
    assert "only the beginning" in data(made)["about"] and "only the beginning" not in data(film(*FRAMES))["about"]


def test_source_cannot_end_the_pages_data():
    assert data(film(Frame(0, 0, 1, "step", 1), source="// </script><b>"))["source"] == ["// </script><b>"]


def test_the_page_is_in_the_readers_language(monkeypatch):
    monkeypatch.setattr(show, "_current", choice.translator("zh"))
    assert {text for text, _ in data(film(*FRAMES))["words"]} == set(theater_words.WORDS)


def test_the_page_says_nothing_without_a_message():
    """Each text in the static part of the page, and each word that the player shows by itself, is a message."""
    page = TEMPLATE.read_text(encoding="utf-8")
    texts = re.findall(r">([^<>]+)<", page[page.index("<body>") : page.index("<script")])
    texts += re.findall(r'(?:title|aria-label)="([^"]*)"', page)
    assert {" ".join(text.split()) for text in texts if text.strip()} <= set(theater_words.STATIC + theater_words.WORDS)
