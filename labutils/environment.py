"""What surrounds a notebook: where compiled code is kept between sessions, and whether a class is being graded."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path:
    """$GPULAB_CACHE, or this course's folder in the user's cache. It need not exist yet."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get("GPULAB_CACHE") or Path(base) / "gpu-kernel-lab")


def grading_in_progress() -> bool:
    """Is a class being graded? Then nobody looks at pictures, tables and times, and the notebook does without them.

    nbgrader, and our own grader, say so in the environment of the notebooks that they run.
    """
    return os.environ.get("NBGRADER_EXECUTION") == "autograde"
