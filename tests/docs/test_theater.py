"""docs/pictures/theater.html is made with the player of today."""

from pathlib import Path

from labutils.plots.theater import TEMPLATE

PAGE = Path(__file__).resolve().parents[2] / "docs/pictures/theater.html"


def test_the_page_has_the_player_of_today():
    before, after = TEMPLATE.read_text(encoding="utf-8").split("__FILM__")
    page = PAGE.read_text(encoding="utf-8")
    assert page.startswith(before) and page.endswith(after), "run python docs/pictures/theater.py"
