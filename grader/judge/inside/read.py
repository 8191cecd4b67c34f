"""In a sandbox of its own: read what a submission holds, and run nothing of it. The judge's own process parses none.

A job as JSON names the reader, a module of the grader with a function `read(payload, content)`; the content is a file
in memory. What the reader yields is the answer, a line of JSON each. Deep nesting, text that takes too long and
whatever else stops a parser stop this process alone.

    python -m gpulab_inside.read FD

is the same where there are no namespaces: it waits at the socket FD for jobs, and forks for each.
"""

from __future__ import annotations

import gc
import importlib
import importlib.util
import json
import os
import resource
import signal
import socket
import sys

from .job import job

READER = "grader.intake.reading"
"""What the program `read` is for. The judge's own reader works in the sandbox `launch`, which has imported Triton."""

MEMORY = 1 << 30
"""Bytes that reading may take beyond what is imported."""


def prepare() -> None:
    importlib.import_module(READER).prepare()


def main(memory: int | None = None) -> None:
    with job() as (payload, answer):
        reply(payload, answer, memory)


def reply(payload: dict, answer, content: int) -> None:
    """Answer one job; `content` is the open file to be read."""
    reader = importlib.import_module(payload["reader"])
    size = os.fstat(content).st_size
    text = os.pread(content, size, 0)
    lock()
    for part in reader.read(payload, text):
        answer(part)


def lock() -> None:
    """From here on this process only computes and answers: limits, and what else the sandbox's cage can forbid."""
    with open("/proc/self/statm") as f:
        mapped = int(f.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    for what, most in (
        (resource.RLIMIT_AS, mapped + MEMORY),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_NPROC, 0),
    ):
        hard = resource.getrlimit(what)[1]
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(what, (most, most))
    if importlib.util.find_spec(f"{__package__}.cage"):
        importlib.import_module(f"{__package__}.cage").lock("reader")


def serve(channel: socket.socket) -> None:
    """Fork for each job: a message with its reader and limits, and its input, output, errors and content as files."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for them
    while True:
        message, fds, _, _ = socket.recv_fds(channel, 4096, 4)
        if not message:
            return
        payload = json.loads(message)
        importlib.import_module(payload["reader"]).prepare()
        gc.freeze()
        if os.fork() == 0:
            try:
                for n in range(3):
                    os.dup2(fds[n], n)
                for what, most in payload["limits"]:
                    resource.setrlimit(what, (most, most))
                signal.alarm(payload["seconds"])  # by the clock, whatever happens outside
                channel.close()
                main(fds[3])
            except BaseException as e:
                os.write(2, f"{type(e).__name__}: {e}\n".encode())
            finally:
                os._exit(0)
        for fd in fds:
            os.close(fd)


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
