"""A child process whose lines are read as they come, and which is stopped when it is silent for too long."""

from __future__ import annotations

import queue
import subprocess
import threading
from collections.abc import Iterator, Sequence


class Stopped(Exception):
    """The child crashed, or was silent for too long."""


def follow(command: Sequence[str], patience_s: float) -> Iterator[str]:
    """The lines that the child prints, without their ends. Raises Stopped."""
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    lines: queue.Queue[str] = queue.Queue()
    threading.Thread(target=pass_on, args=(child.stdout, lines), daemon=True).start()
    try:
        while line := lines.get(timeout=patience_s):
            yield line.rstrip("\n")
        if child.wait():
            raise Stopped(f"its process ended with {child.returncode}")
    except queue.Empty:
        raise Stopped(f"no answer within {patience_s:.0f} s") from None
    finally:
        child.kill()
        child.wait()


def pass_on(stream, lines: queue.Queue) -> None:
    for line in stream:
        lines.put(line)
    lines.put("")
