"""Other people's Triton kernels, run unchanged in the recorded interpreter, and in plain Triton's for comparison.

    python -m bench.corpus.triton [PATTERN…] [--only recorded] [--jobs N] [--json FILE]
    python -m bench.corpus.triton --export FOLDER

Each pattern selects the cases whose `source/path:case` holds it. $GPULAB_CORPUS names a folder with the repositories,
each under its name; without it they are fetched from GitHub. `--export` copies their modules to such a folder, for a
machine without a network.
"""

import argparse
import importlib
import json
import pkgutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ..sources import NotHere, Source, export
from . import cases
from .case import Collection
from .worker import selected

MODES = ("recorded", "strict", "plain")
MOST = 12
"""Cases of one worker, of which importing its modules is a large part."""

STATUSES = ("right", "fault", "wrong", "refused", "crash", "false alarm")
"""What a kernel came to, best first: of several cases the worst counts."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.corpus.triton", description=__doc__.splitlines()[0])
    parser.add_argument("patterns", nargs="*", metavar="PATTERN")
    parser.add_argument("--only", choices=MODES, help="one mode, not all")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="so many processes at a time")
    parser.add_argument("--export", type=Path, metavar="FOLDER")
    arguments = parser.parse_args()
    if arguments.export:
        for _, collection, folder in checkouts(arguments.patterns):
            export(collection.source, texts(folder, collection.folder), arguments.export)
        return 0
    rows = []
    for row in results(arguments.patterns, [arguments.only] if arguments.only else MODES, arguments.jobs):
        rows.append(row)
        sentence = " ".join(row["sentence"].split())
        print(
            f"{row['mode']:9}{row['status']:12} {row['source']}/{row['path']}:{row['case']} {sentence}"[:600],
            flush=True,
        )
    print(f"\n{table(rows)}")
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1), encoding="utf-8")
    return 0 if all(r["status"] in ("right", "fault") for r in rows if r["mode"] == "recorded") else 1


def collections() -> Iterator[tuple[str, Collection]]:
    for module in pkgutil.iter_modules(cases.__path__):
        yield module.name, importlib.import_module(f"{cases.__name__}.{module.name}").COLLECTION


def checkouts(patterns: Sequence[str]) -> Iterator[tuple[str, Collection, Path]]:
    """The collections with a selected case, each with the folder of its repository; says which cannot be read here."""
    for name, collection in collections():
        if selected(collection, patterns):
            source = Source(collection.source, collection.owner, collection.commit, collection.license)
            try:
                yield name, collection, source.checkout(collection.folder)
            except NotHere as e:
                print(e, file=sys.stderr)


def results(patterns: Sequence[str] = (), modes: Sequence[str] = MODES, jobs: int = 1) -> Iterator[dict]:
    """A row for each selected case in each mode, from so many workers at a time. Raises RuntimeError as `run`."""
    work = []
    for name, collection, folder in checkouts(patterns):
        parts = -(-len(selected(collection, patterns)) // MOST)
        work += [(name, folder, mode, f"{part}/{parts}", *patterns) for mode in modes for part in range(parts)]
    with ThreadPoolExecutor(jobs) as pool:
        for found in pool.map(run, work):
            yield from found


def run(arguments: tuple) -> list[dict]:
    """A row for each case of one worker with these arguments. Raises RuntimeError where it does not come to an end."""
    command = [sys.executable, "-m", "bench.corpus.triton.worker", *map(str, arguments)]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    if done.returncode:
        raise RuntimeError(f"a worker ended with {done.returncode}: {' '.join(command)}")
    return [json.loads(line) | {"mode": arguments[2]} for line in done.stdout.splitlines()]


def texts(root: Path, folder: str) -> dict[str, str]:
    """What a repository's modules are made of, by path: Python, and what it reads when it is imported."""
    files = (p for p in (root / folder).rglob("*") if p.suffix in (".py", ".yaml", ".json", ".toml") and p.is_file())
    return {str(p.relative_to(root)): p.read_text(encoding="utf-8") for p in files}


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
