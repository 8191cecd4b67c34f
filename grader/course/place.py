"""Where the course is: the folder that holds `solutions/`, and the files that a command writes."""

from __future__ import annotations

import os
from pathlib import Path

CODE = Path(__file__).resolve().parents[2]
"""The folder from which `grader` is imported: a checkout of the course, or the packages of a Python."""

COURSE = "GPULAB_COURSE"
"""Environment variable: the course's folder where the grader is installed as a package."""


def installed() -> bool:
    """Is the grader installed as a package, apart from any course?"""
    return not (CODE / "solutions").exists()


def course_root() -> Path:
    """The checkout that this code is in. Where it is installed as a package: $GPULAB_COURSE, or else the current folder
    or the nearest above it that holds `solutions/`, or else the current folder."""
    if not installed():
        return CODE
    if named := os.environ.get(COURSE):
        return Path(named).resolve()
    here = Path.cwd()
    return next((folder for folder in (here, *here.parents) if (folder / "solutions").is_dir()), here)


ROOT = course_root()
