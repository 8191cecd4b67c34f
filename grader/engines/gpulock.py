"""One at a time on a GPU: a time measured while somebody else's kernel runs is no time."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
import threading
from pathlib import Path

from filelock import FileLock


class GpuLock:
    """`with GpuLock("1"): …` has GPU 1 alone, among all threads and all graders of this user on this machine.

    A file lock ends with the process that holds it, however that ends.
    """

    def __init__(self, visible: str | None = None, folder: Path | None = None):
        """`visible`: the value of CUDA_VISIBLE_DEVICES, of which the first is used; None for GPU 0."""
        name = re.sub(r"[^\w-]", "_", (visible or "0").split(",")[0].strip())
        folder = folder or Path(tempfile.gettempdir(), f"gpulab-locks-{os.getuid()}")
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._threads = threading.Lock()
        self._file = FileLock(folder / f"gpu-{name}.lock", thread_local=False)

    def __enter__(self) -> GpuLock:
        self._threads.acquire()
        try:
            self._file.acquire()
        except BaseException:
            self._threads.release()
            raise
        return self

    def __exit__(self, *_) -> None:
        self._file.release()
        self._threads.release()


def visible_gpus() -> list[str]:
    """The GPUs that this process may use, as CUDA_VISIBLE_DEVICES names them. Touches none of them."""
    told = os.environ.get("CUDA_VISIBLE_DEVICES")
    if told is not None:
        return [name.strip() for name in told.split(",") if name.strip() and name.strip() != "-1"]
    try:
        found = subprocess.run(
            ["nvidia-smi", "--query-gpu=index", "--format=csv,noheader"], capture_output=True, text=True, timeout=30
        )
    except (OSError, subprocess.TimeoutExpired):
        return []
    return found.stdout.split() if found.returncode == 0 else []
