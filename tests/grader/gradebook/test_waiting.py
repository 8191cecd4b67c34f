"""Sanitized notebooks wait on disk, and none is needed."""

import tempfile

from grader.gradebook.waiting import Waiting


def test_what_waits_comes_back_until_it_is_dropped(tmp_path):
    waiting = Waiting(tmp_path)
    for n in range(3):
        waiting.put(f"student {n}", f"é{n}" * 1000)
    assert [waiting.get(f"student {n}") for n in range(4)] == ["é0" * 1000, "é1" * 1000, "é2" * 1000, None]
    waiting.put("student 1", "again")
    assert waiting.get("student 1") == "again" and list(tmp_path.iterdir()) == []
    for n in range(3):
        waiting.drop(f"student {n}")
    assert waiting.get("student 1") is None
    waiting.put("late", "x")
    assert waiting.get("late") == "x"


def test_without_room_it_is_forgotten(tmp_path, monkeypatch):
    def full(**_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tempfile, "TemporaryFile", full)
    waiting = Waiting(tmp_path)
    waiting.put("ana", "x")
    assert waiting.get("ana") is None
    waiting.drop("ana")
