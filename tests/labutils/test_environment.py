"""The cache: where it is, and what happens where nothing can be written."""

import errno
from pathlib import Path

import pytest

from labutils import environment


@pytest.fixture(autouse=True)
def no_variables(monkeypatch):
    for name in ("GPULAB_CACHE", "XDG_CACHE_HOME", "TRITON_CACHE_DIR", "MPLCONFIGDIR"):
        monkeypatch.setenv(name, "")  # so that what a test sets is gone after it, too
        monkeypatch.delenv(name)
    monkeypatch.setattr(environment.atexit, "register", lambda *_: None)


def test_the_users_cache_unless_a_variable_names_another(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path / "größe 1"))
    assert environment.cache_folder() == tmp_path / "größe 1/.cache/gpu-kernel-lab"
    assert environment.ensure_cache() == "" and environment.cache_folder().is_dir()
    monkeypatch.setenv("GPULAB_CACHE", str(tmp_path / "other"))
    assert environment.cache_folder() == tmp_path / "other"


def test_a_home_that_takes_nothing_gives_way_to_a_folder_for_this_session(monkeypatch, tmp_path):
    (tmp_path / "home").write_text("a file: no folder can be made in it, not even by root")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    said = environment.ensure_cache()
    assert "for this session only" in said and "Not a directory" in said and "GPULAB_CACHE" in said
    folder = environment.cache_folder()
    assert folder.is_dir() and folder.stat().st_mode & 0o777 == 0o700
    assert environment.ensure_cache() == ""
    environment._remove(folder, owner=0)
    assert folder.is_dir(), "a child that ends leaves its parent's cache"
    environment._remove(folder, owner=environment.os.getpid())
    assert not folder.exists()


def test_no_home_at_all(monkeypatch):
    def homeless():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(environment.Path, "home", homeless)
    assert "home directory" in environment.ensure_cache()
    environment._remove(environment.cache_folder(), environment.os.getpid())


def test_a_full_disk_is_called_full(monkeypatch, tmp_path):
    monkeypatch.setenv("GPULAB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(environment.tempfile, "tempdir", str(tmp_path))

    def full(folder: Path):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(environment, "_try", full)
    with pytest.raises(OSError, match=r"stored anywhere \(No space left on device\). Free 100 MB"):
        environment.ensure_cache()
    assert list(tmp_path.iterdir()) == [], "nothing is left where there is no room"
