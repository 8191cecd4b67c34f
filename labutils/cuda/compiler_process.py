"""The process that runs `compiler.py`: started for the first text, and again after it has died."""

from __future__ import annotations

import atexit
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

TIME_LIMIT = 120.0
"""Seconds for one text; the largest headers take NVRTC about three."""


class Died(RuntimeError):
    """The compiler ended without an answer; the message says how."""


_lock = threading.Lock()
_running: tuple[int, subprocess.Popen] | None = None
"""The process, and the one that started it: one that was forked since starts its own."""


def ask(job: dict) -> dict:
    """What `compiler.compile_job` gives for this job. Raises Died."""
    with _lock:
        process = _process()
        slow = threading.Timer(TIME_LIMIT, process.kill)
        slow.start()
        try:
            process.stdin.write(json.dumps(job) + "\n")
            process.stdin.flush()
            return json.loads(process.stdout.readline())
        except (OSError, ValueError):
            late = slow.finished.is_set()
            _end()
            raise Died(f"it took more than {TIME_LIMIT:.0f} s" if late else _cause(process.returncode)) from None
        except BaseException:  # interrupted: its answer, when it comes, is to nobody
            _end()
            raise
        finally:
            slow.cancel()


def _cause(status: int) -> str:
    return signal.Signals(-status).name if status < 0 else f"exit status {status}"


def _process() -> subprocess.Popen:
    global _running
    if _running is None or _running[0] != os.getpid() or _running[1].poll() is not None:
        process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("compiler.py"))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,  # an interrupt of the notebook is none of its
        )
        _running = (os.getpid(), process)
    return _running[1]


@atexit.register
def _end() -> None:
    global _running
    if _running is not None and _running[0] == os.getpid():
        process = _running[1]
        process.kill()
        process.communicate()
    _running = None
