"""`python -m grader worker FOLDER INDEX`: do the jobs in a folder, together with other workers.

    work.json            the module that does it, and how many jobs a worker may do
    jobs/NAME.json       what is to be done
    results/NAME.json    what came of it
    claims/NAME          who does it: made by one worker alone, since a file can be made only once

Files are created atomically, so no one reads half of one. Claims are never released: when the workers of a round are
gone, `array.py` starts a new round.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import time
from pathlib import Path


def put(path: Path, data: dict) -> None:
    """Write JSON in one step, so that others see all of it or nothing."""
    part = path.with_name(f".{path.name}.{os.getpid()}")
    with open(part, "w", encoding="utf-8") as file:
        json.dump(data, file)
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)


def claim(folder: Path, name: str, who: str) -> bool:
    """Take a job; False if somebody else has it."""
    try:
        fd = os.open(folder / "claims" / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return False
    with os.fdopen(fd, "w") as file:
        json.dump({"by": who, "since": time.time()}, file)
    return True


def work_off(folder: Path, index: int, work=None) -> int:
    """Do every job that nobody has claimed; returns how many. Each worker begins at another place of the list."""
    names = sorted(path.stem for path in (folder / "jobs").glob("*.json"))
    start = index * max(1, len(names) // 8) % max(1, len(names))
    count = 0
    payload = json.loads((folder / "work.json").read_text(encoding="utf-8"))
    for name in names[start:] + names[:start]:
        if count == payload["most"]:
            break
        if (folder / "results" / f"{name}.json").exists() or not claim(folder, name, f"worker {index}"):
            continue
        if work is None:  # it takes seconds to import, which a worker without a job need not spend
            work = importlib.import_module(payload["work"])
            work.prepare()
        job = json.loads((folder / "jobs" / f"{name}.json").read_text(encoding="utf-8"))
        put(folder / "results" / f"{name}.json", {"key": job["key"], "result": work.do(job)})
        count += 1
    return count


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="the exchange folder, OUT/exchange")
    parser.add_argument("index", type=int, metavar="INDEX", help="index of this worker, from 0")


def main(args) -> int:
    if not (args.folder / "jobs").is_dir():
        print(f"{args.folder} is not an exchange folder: it has no jobs/.")
        return 2
    print(f"{work_off(args.folder, args.index)} jobs done")
    return 0
