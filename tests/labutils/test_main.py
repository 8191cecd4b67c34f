"""The doctor, `python -m labutils`: a line for each thing, and what helps where something is wrong."""

import pytest

from labutils import __main__ as doctor
from labutils import environment, support


@pytest.fixture
def sound(monkeypatch, tmp_path):
    """A machine on which every look succeeds at once."""
    monkeypatch.setenv("GPULAB_CACHE", str(tmp_path / "cache"))
    for name in ("_gpu", "_interpreter", "_nvrtc", "_compiler"):
        monkeypatch.setattr(doctor, name, lambda: "works")


def lines(capsys) -> dict[str, str]:
    """What is printed of each thing, with the sentence below it."""
    found, name = {}, ""
    for line in capsys.readouterr().out.splitlines():
        if line[0] in "✓✗":
            name = line[2:23].strip()
            found[name] = line[0] + line[23:]
        else:
            found[name] += line
    return found


def test_a_sound_machine_has_a_line_for_everything_and_status_0(sound, capsys, tmp_path):
    assert doctor.main() == 0
    said = lines(capsys)
    wanted = {r.name for r in support.REQUIREMENTS if r.here}
    assert wanted | {"labutils", "Python", "cache", "GPU", "NVRTC", "C++ compiler"} <= said.keys()
    assert all(text.startswith("✓") for text in said.values())
    assert str(tmp_path / "cache") in said["cache"] and "MB free" in said["cache"]


def test_what_is_too_old_or_newer_than_any_version_tried_is_said(sound, capsys, monkeypatch):
    versions = {r.name: r.tried for r in support.REQUIREMENTS} | {"triton": "3.5.1", "matplotlib": "99.0"}
    monkeypatch.setattr(support, "installed", versions.get)
    assert doctor.main() == 1
    said = lines(capsys)
    assert said["triton"].startswith("✗") and 'pip install "triton>=3.6"' in said["triton"]
    assert said["matplotlib"].startswith("✓") and "newer than any version tried" in said["matplotlib"]


def test_a_look_that_fails_in_any_way_costs_its_own_line_only(sound, capsys, monkeypatch):
    def broken():
        raise KeyError("driver")

    monkeypatch.setattr(doctor, "_nvrtc", broken)
    assert doctor.main() == 1
    said = lines(capsys)
    assert said["NVRTC"].startswith("✗") and "driver" in said["NVRTC"] and said["C++ compiler"].startswith("✓")


def test_a_full_disk_is_a_line(sound, capsys, monkeypatch):
    def full():
        raise environment.NoRoom("Compiled kernels cannot be stored anywhere.")

    monkeypatch.setattr(environment, "ensure_cache", full)
    assert doctor.main() == 1
    assert "cannot be stored anywhere" in lines(capsys)["cache"]
