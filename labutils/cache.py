"""Where compiled code is kept between sessions."""

from __future__ import annotations

import os
from pathlib import Path


def folder() -> Path:
    """$GPULAB_CACHE, or this course's folder in the user's cache. It need not exist yet."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get("GPULAB_CACHE") or Path(base) / "gpu-kernel-lab")
