"""Runs the cases of one source in a process of its own, each in a fork, and prints a row of JSON for each.

    python -m bench.corpus.triton.worker COLLECTION FOLDER {recorded,strict,plain} PART/PARTS [PATTERN…]

Of the cases that the patterns select it runs each PARTS-th, from number PART on.

"recorded": in this repository's interpreter, every access recorded, as `lab.record` does. "strict": as `lab.check`
does, where masked lanes of a load without `other` hold anything. "plain": in Triton's own, of which nothing is patched;
it only has the answers of this repository's driver, without which few of the sources can be imported.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import select
import signal
import sys
import time
import warnings
from collections.abc import Sequence
from pathlib import Path

import torch

from . import stand_ins
from .case import Case, Collection, examine

HERE = Path(__file__).resolve().parents[3]
LIMIT = 60
"""Seconds of CPU time for a case; six times as many by the clock."""


def main(name: str, folder: str, mode: str, part: str, *patterns: str) -> None:
    os.environ |= {"TRITON_INTERPRET": "1", "CUDA_VISIBLE_DEVICES": ""}  # before anything imports Triton
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)  # a fork has no others
    collection: Collection = importlib.import_module(f"bench.corpus.triton.cases.{name}").COLLECTION
    if mode == "plain":
        stand_ins.without_init(HERE, ("labutils", "labutils.backends"))
    else:
        from labutils.backends import interpreter

        interpreter.require()
    importlib.import_module("labutils.backends.driver").install()
    collection.open(Path(folder))
    first, parts = map(int, part.split("/"))
    for case in selected(collection, patterns)[first::parts]:
        try:
            module = collection.load(case, Path(folder))
        except (Exception, SystemExit) as e:
            row = {"status": "refused", "sentence": reason(e), "kernels": []}
        else:
            row = forked(lambda case=case, module=module: run(case, module, mode))
        print(json.dumps({"source": case.source, "path": case.path, "case": case.run.__name__} | row), flush=True)


def selected(collection: Collection, patterns: Sequence[str]) -> list[Case]:
    return [case for case in collection.cases if not patterns or any(p in case.id for p in patterns)]


def forked(job) -> dict:
    """What a job returns that runs in a fork; "crash" if that dies or does not end."""
    begin, (there, here) = time.time(), os.pipe()
    pid = os.fork()
    if not pid:
        os.close(there)
        signal.setitimer(signal.ITIMER_VIRTUAL, LIMIT)
        with os.fdopen(here, "w") as pipe, open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
            json.dump(job(), pipe)
        os._exit(0)
    os.close(here)
    text = b""
    while select.select([there], [], [], max(0.0, begin + 6 * LIMIT - time.time()))[0]:
        piece = os.read(there, 1 << 16)
        if not piece:
            break
        text += piece
    else:
        os.kill(pid, signal.SIGKILL)
    os.close(there)
    _, status, used = os.wait4(pid, 0)
    seconds = round(used.ru_utime + used.ru_stime, 2)
    if status or not text:
        return {"status": "crash", "sentence": f"ended with status {status}", "kernels": [], "seconds": seconds}
    return json.loads(text) | {"seconds": seconds}


def run(case: Case, module, mode: str) -> dict:
    """Status, sentence and kernels of a case that runs in this process."""
    kernels: dict[str, None] = {}
    findings: list[str] = []
    try:
        with watched(kernels, findings, mode):
            found = examine(case, module)
        status = "wrong" if found else "false alarm" if findings else "right"
    except (Exception, SystemExit) as e:
        status, found = "refused", reason(e)
    if case.fault:
        status = "wrong" if status == "right" else "fault"
    sentence = " | ".join(filter(None, [case.fault, found, *findings]))
    return {"status": status, "sentence": sentence, "kernels": list(kernels)}


@contextlib.contextmanager
def watched(kernels: dict[str, None], findings: list[str], mode: str):
    """Within this context launches are recorded, unless Triton is to be left as it is."""
    if mode == "plain":
        yield
        return
    from labutils.backends.access import Recorder
    from labutils.backends.hooks import recording

    def note(kernel, *_):
        kernels.setdefault(f"{kernel.__globals__['__name__']}.{kernel.__name__}")

    recorder = Recorder(poisons=mode == "strict")
    try:
        with recording(recorder, note, order=SEED, follow_pointers=True):
            yield
    finally:
        findings += dict.fromkeys(f.sentence() for f in recorder.findings)


SEED = 1 << 32 | 25
"""Of the order of programs, and of what masked lanes hold."""


def reason(error: BaseException) -> str:
    """The innermost cause: what the interpreter says of it is only where."""
    while error.__cause__ is not None or error.__context__ is not None:
        error = error.__cause__ or error.__context__
    return f"{type(error).__name__}: {error}"


if __name__ == "__main__":
    main(*sys.argv[1:])
