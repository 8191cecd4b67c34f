"""The picture of the rooms in docs/architecture.md is that of the tree."""

import importlib.util
from pathlib import Path

ROOT = Path(__file__).parents[2]
spec = importlib.util.spec_from_file_location("rooms", ROOT / "docs/pictures/rooms.py")
rooms = importlib.util.module_from_spec(spec)
spec.loader.exec_module(rooms)

AGAIN = "run `python docs/pictures/rooms.py` and commit docs/pictures/rooms.svg"


def test_the_picture_has_every_room_of_the_tree():
    tree = {f"{p}.{r}" for p, names in rooms.test_layout.ROOMS.items() for r in names} | {"bench"}
    assert set(rooms.ROOMS) == set(rooms.imports()) == tree, "name the rooms in docs/pictures/rooms.py, then draw it"
    assert rooms.shown(rooms.SVG.read_text(encoding="utf-8"))[0] == tree, AGAIN


def test_the_picture_has_the_arrows_of_the_tree():
    assert rooms.shown(rooms.SVG.read_text(encoding="utf-8"))[1] == set(rooms.drawn()), AGAIN


def test_arrows_lead_down_and_none_is_drawn_twice():
    arrows = rooms.drawn()
    assert all(rooms.floor(name) > rooms.floor(target) for name, target in arrows)
    assert all(target in rooms.below(name) for name, target in arrows)
    assert len(set(arrows)) == len(arrows)


def test_the_document_names_every_room():
    text = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    for name in rooms.ROOMS:
        assert f"`{name.rpartition('.')[2]}" in text, name


def test_drawing_again_gives_the_same_file(tmp_path):
    rooms.draw(tmp_path / "rooms.svg")
    rooms.draw(tmp_path / "again.svg")
    assert (tmp_path / "rooms.svg").read_bytes() == (tmp_path / "again.svg").read_bytes()
