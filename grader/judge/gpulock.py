"""One at a time on a GPU: a time measured while somebody else's kernel runs is no time."""

from __future__ import annotations

import fcntl
import functools
import os
import re
import subprocess
import tempfile
from pathlib import Path


class GpuLock:
    """`with GpuLock("1"): …` has GPU 1 alone, among all threads and all graders of this user on this machine.

    A file lock ends with the process that holds it, however that ends. Linux wakes those who wait in the order in
    which they came; who asks again and again, as the filelock package does, may be overtaken for minutes.
    """

    def __init__(self, visible: str | None = None, folder: Path | None = None):
        """`visible`: the value of CUDA_VISIBLE_DEVICES, of which the first is used; None for GPU 0."""
        name = re.sub(r"[^\w-]", "_", first_gpu(visible))
        folder = folder or Path(tempfile.gettempdir(), f"gpulab-locks-{os.getuid()}")
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._path, self._held = folder / f"gpu-{name}.lock", -1

    def __enter__(self) -> GpuLock:
        file = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)  # of its own for each that waits: threads too
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
        except BaseException:
            os.close(file)
            raise
        self._held = file
        return self

    def __exit__(self, *_) -> None:
        os.close(self._held)


def first_gpu(visible: str | None) -> str:
    """The GPU that a process uses with this value of CUDA_VISIBLE_DEVICES; without one, GPU 0."""
    return (visible or "0").split(",")[0].strip()


def visible_gpus() -> list[str]:
    """The GPUs that this process may use, as CUDA_VISIBLE_DEVICES names them. Touches none of them."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return [name.strip() for name in visible.split(",") if name.strip() and name.strip() != "-1"]
    return _installed_gpus()


@functools.cache
def _installed_gpus() -> list[str]:
    """Asked once: it may take a second, and both the number of workers and their GPUs depend on it."""
    try:
        found = subprocess.run(
            ["nvidia-smi", "--query-gpu=index", "--format=csv,noheader"], capture_output=True, text=True, timeout=30
        )
    except (OSError, subprocess.TimeoutExpired):
        return []
    return found.stdout.split() if found.returncode == 0 else []
