"""What surrounds a notebook: where compiled code and progress are kept, and whether a class is being graded."""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
from pathlib import Path

ROOM = 1 << 20
"""Bytes that must fit in the cache, or else it is full: a compiled kernel takes less."""


def cache_folder() -> Path:
    """$GPULAB_CACHE, or this course's folder in the user's cache. It need not exist yet."""
    if named := os.environ.get("GPULAB_CACHE"):
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gpu-kernel-lab"


def ensure_cache() -> str:
    """Make the cache folder. Where nothing can be written there, take a new folder for this session instead, which
    processes that this one starts use too. What the reader must know of it, or "".

    Raises NoRoom, which says what to do, if the folder for temporary files takes nothing either.
    """
    try:
        wanted = cache_folder()
        _try(wanted)
        return ""
    except (OSError, RuntimeError) as problem:  # RuntimeError: there is no home folder
        why = getattr(problem, "strerror", None) or str(problem)
    folder = None
    try:
        folder = Path(tempfile.mkdtemp(prefix="gpu-kernel-lab-"))
        _try(folder)
    except OSError as problem:
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)
        raise NoRoom(
            f"Compiled kernels cannot be stored anywhere ({problem.strerror}). Free 100 MB, or set GPULAB_CACHE to a "
            "folder that you can write to, and restart the notebook's kernel."
        ) from None
    os.environ["GPULAB_CACHE"] = str(folder)
    for name, inside in (("TRITON_CACHE_DIR", "triton"), ("MPLCONFIGDIR", "matplotlib")):  # theirs are at home, too
        os.environ.setdefault(name, str(folder / inside))
    atexit.register(_remove, folder, os.getpid())
    return (
        f"Compiled kernels are kept for this session only: the cache folder cannot be used ({why}). "
        "Set GPULAB_CACHE to a folder that you can write to."
    )


class NoRoom(OSError):
    """Nothing can be written anywhere; the message says what to do."""

    def _render_traceback_(self):  # in a notebook, instead of a traceback
        return [str(self)]


def _try(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=folder) as f:
        f.write(bytes(ROOM))


def _remove(folder: Path, owner: int) -> None:
    if os.getpid() == owner:  # not in a child that ends before its parent
        shutil.rmtree(folder, ignore_errors=True)


def grading_in_progress() -> bool:
    """Is a class being graded? Then nobody looks at pictures, tables and times, and the notebook does without them.

    nbgrader, and our own grader, say so in the environment of the notebooks that they run.
    """
    return os.environ.get("NBGRADER_EXECUTION") == "autograde"


def progress_file() -> Path:
    """Where a learner's progress is kept: $GPULAB_PROGRESS, on Colab a mounted Drive, else the user's data folder."""
    if named := os.environ.get("GPULAB_PROGRESS"):
        return Path(named)
    try:
        return _data_folder() / "gpu-kernel-lab" / "progress.json"
    except RuntimeError:  # there is no home folder
        ensure_cache()
        return cache_folder() / "progress.json"


def _data_folder() -> Path:
    drive = Path("/content/drive/MyDrive")
    if drive.is_dir():
        return drive
    if sys.platform == "win32":
        base = os.environ.get("APPDATA") or Path.home() / "AppData" / "Roaming"
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Application Support"
    else:
        base = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(base)
