"""Other people's Triton kernels, run unchanged in the recorded interpreter, and in plain Triton's for comparison.

    python -m bench.corpus.triton [PATTERN…] [--only recorded] [--json FILE]

Each pattern selects the cases whose `source/path:case` holds it. $GPULAB_CORPUS names a folder with the repositories,
each under its name; without it they are fetched from GitHub.
"""

import argparse
import importlib
import json
import pkgutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from ..sources import NotHere, Source
from . import cases
from .case import Collection

MODES = ("recorded", "strict", "plain")
STATUSES = ("right", "fault", "wrong", "refused", "crash", "false alarm")
"""What a kernel came to, best first: of several cases the worst counts."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.corpus.triton", description=__doc__.splitlines()[0])
    parser.add_argument("patterns", nargs="*", metavar="PATTERN")
    parser.add_argument("--only", choices=MODES, help="one mode, not all")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    rows = []
    for name, collection in collections():
        chosen = [c for c in collection.cases if not arguments.patterns or any(p in c.id for p in arguments.patterns)]
        if not chosen:
            continue
        for mode in [arguments.only] if arguments.only else MODES:
            for row in run(name, collection, mode, arguments.patterns):
                rows.append(row)
                sentence = " ".join(row["sentence"].split())
                print(
                    f"{mode:9}{row['status']:12} {row['source']}/{row['path']}:{row['case']} {sentence}"[:600],
                    flush=True,
                )
    print(f"\n{table(rows)}")
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1), encoding="utf-8")
    return 0 if all(r["status"] in ("right", "fault") for r in rows if r["mode"] == "recorded") else 1


def collections() -> Iterator[tuple[str, Collection]]:
    for module in pkgutil.iter_modules(cases.__path__):
        yield module.name, importlib.import_module(f"{cases.__name__}.{module.name}").COLLECTION


def run(name: str, collection: Collection, mode: str, patterns: list[str]) -> Iterator[dict]:
    source = Source(collection.source, collection.owner, collection.commit, collection.license)
    try:
        folder = source.checkout(collection.folder)
    except NotHere as e:
        print(e, file=sys.stderr)
        return
    command = [sys.executable, "-m", "bench.corpus.triton.worker", name, str(folder), mode, *patterns]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as worker:
        for line in worker.stdout:
            yield json.loads(line) | {"mode": mode}
    if worker.returncode:
        raise SystemExit(f"the worker for {collection.source} ended with {worker.returncode}: {' '.join(command)}")


def table(rows: list[dict]) -> str:
    """By repository: kernels by status, how many plain Triton gets right, and how many of these are right here."""
    heads = ("repository", "cases", "kernels", *STATUSES, "plain", "both", "undefined")
    by_source = defaultdict(list)
    for row in rows:
        by_source[row["source"]].append(row)
    lines = [(name, *counts(own)) for name, own in by_source.items()]
    lines.append(("all", *(sum(column) for column in list(zip(*lines, strict=True))[1:])))
    return "\n".join(f"{line[0]:24}" + "".join(f"{cell:>12}" for cell in line[1:]) for line in (heads, *lines))


def counts(rows: list[dict]) -> list[int]:
    """A line of the table for the rows of one repository. A kernel is right in a mode if all its cases are."""
    by_mode = {mode: {(r["path"], r["case"]): r for r in rows if r["mode"] == mode} for mode in MODES}
    cases_of = defaultdict(list)
    for key, row in by_mode["recorded"].items():
        for kernel in row["kernels"]:
            cases_of[kernel].append(key)

    def worst(mode: str, kernel: str) -> str:
        found = [by_mode[mode][key]["status"] for key in cases_of[kernel] if key in by_mode[mode]]
        return max(found, key=STATUSES.index, default="")

    here = {kernel: worst("recorded", kernel) for kernel in cases_of}
    plain = [kernel for kernel in cases_of if worst("plain", kernel) in ("right", "fault")]
    undefined = [k for k in cases_of if here[k] == "right" and worst("strict", k) not in ("right", "")]
    return [
        len(by_mode["recorded"]),
        len(cases_of),
        *(sum(status == s for status in here.values()) for s in STATUSES),
        len(plain),
        sum(here[kernel] in ("right", "fault") for kernel in plain),
        len(undefined),
    ]


if __name__ == "__main__":
    sys.exit(main())
