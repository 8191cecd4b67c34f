"""What is in the journal is whole; what is torn, of another run or of another version is not there."""

import errno
import os
import stat

import pytest

from grader.gradebook import provenance
from grader.gradebook.journal import DiskFull, Journal, JournalError, read, write


@pytest.fixture
def journal(tmp_path):
    made = Journal(tmp_path / "journal")
    made.begin("unit", "release", 7, "judge")
    yield made
    made.close()


def test_what_was_put_comes_back_to_the_next_who_asks(journal):
    journal.put("Íñigo", {"marks": {"a": 1.0}})
    journal.put("x" * 300, {"marks": {}})
    journal.close()
    again = Journal(journal.folder)
    assert again.get("Íñigo")["marks"] == {"a": 1.0} and again.get("nobody") is None
    assert again.students() == ["x" * 300, "Íñigo"] and again.header["seed"] == 7


def test_only_its_user_can_read_it(journal):
    journal.put("ana", {})
    for path in [journal.folder, *journal.folder.rglob("*")]:
        if path.name != "lock":
            assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path


@pytest.mark.parametrize("keep", [0, 10, 64, 65, 100, -1])
def test_a_torn_file_counts_as_not_there(journal, keep):
    journal.put("ana", {"marks": {"a": 1.0}})
    path = journal.folder / "entries" / "ana.json"
    path.write_bytes(path.read_bytes()[:keep])
    assert journal.get("ana") is None and journal.torn() == ["ana.json"] and journal.students() == []


def test_a_flipped_bit_is_seen(journal):
    journal.put("ana", {"marks": {"a": 1.0}})
    path = journal.folder / "entries" / "ana.json"
    path.write_bytes(path.read_bytes().replace(b"1.0", b"3.0"))
    assert journal.get("ana") is None


def test_entries_of_an_earlier_run_count_no_more(journal):
    journal.put("ana", {})
    kept = (journal.folder / "entries" / "ana.json").read_bytes()
    journal.begin("unit", "release", 7, "judge")
    (journal.folder / "entries" / "ana.json").write_bytes(kept)
    assert journal.get("ana") is None and journal.students() == []


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_on_a_full_disk_the_old_file_stays_and_no_part_is_left(tmp_path, monkeypatch, step):
    path = tmp_path / "file.json"
    write(path, {"n": 1})

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, step, full)
        with pytest.raises(DiskFull, match="no space left"):
            write(path, {"n": 2})
    assert read(path) == {"n": 1} and list(tmp_path.iterdir()) == [path]


def test_two_cannot_grade_into_one_folder(journal):
    with pytest.raises(JournalError, match="Another run is currently grading"):
        Journal(journal.folder)


def test_what_may_go_on(journal, monkeypatch):
    assert journal.may_go_on("release", None, "judge") == journal.may_go_on("release", 7, "judge") == []
    for other, why in {("release", 8, "judge"): "--seed", ("release", None, "shown"): "--trust-notebooks"}.items():
        with pytest.raises(JournalError, match=why) as message:
            journal.may_go_on(*other)
        assert "--fresh" in str(message.value)
    monkeypatch.setattr(provenance, "packages", lambda: journal.header["packages"] | {"torch": "1.0"})
    for _ in range(2):
        with pytest.raises(JournalError, match="torch and solutions/unit/unit.py changed. --accept-changes"):
            journal.may_go_on("changed", None, "judge")
    assert journal.may_go_on("changed", None, "judge", True) == ["torch", "solutions/unit/unit.py"]
    journal.go_on("changed")  # from now on this is what the run used
    assert journal.may_go_on("changed", None, "judge") == [] and not journal.header["finished"]


def test_a_folder_belongs_to_one_unit(journal):
    journal.belongs_to("unit")
    with pytest.raises(JournalError, match="holds unit: grade other into a folder of its own"):
        journal.belongs_to("other")


def test_a_journal_of_another_version_is_not_misread(journal):
    journal.header["format"] = 1
    for ask in (journal.the_run, lambda: journal.may_go_on("release", None, "judge", True)):
        with pytest.raises(JournalError, match="[Aa]nother version of the grader"):
            ask()


def test_what_was_expected_and_what_was_recorded(journal):
    journal.expect({"ana": {"n": 1}})
    journal.expect({"ben": {"n": 2}})
    assert journal.pending() == {"ana": {"n": 1}, "ben": {"n": 2}}
    journal.put("ana", {"marks": {"a": 1.0}})
    assert not journal.is_recorded("ana")
    journal.note_recorded("ana")
    assert journal.is_recorded("ana")
    journal.put("ana", {"marks": {"a": 2.0}})  # the gradebook holds the one before
    assert not journal.is_recorded("ana")
    journal.finish()
    assert journal.pending() == {}


def test_one_may_look_while_another_grades(journal):
    journal.put("ana", {})
    assert Journal(journal.folder, hold=False).students() == ["ana"]


def test_there_must_be_something_to_resume(tmp_path):
    with pytest.raises(JournalError, match="no run to resume"):
        Journal(tmp_path / "journal").may_go_on("release", None, "judge")
