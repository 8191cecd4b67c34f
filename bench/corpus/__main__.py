"""Other people's CUDA kernels, run unchanged in the emulator.

    python -m bench.corpus [PATTERN…] [--jobs N] [--json FILE] [--text]
    python -m bench.corpus [PATTERN…] --export FOLDER

Each pattern selects the cases whose `source/path:kernel` holds it. $GPULAB_CORPUS names a folder with the collections,
each under its name; without it they are fetched from GitHub. `--export` copies the files that the cases read to such a
folder, for a machine without a network.
"""

import argparse
import json
import sys
from collections import Counter
from pathlib import Path

from .cases import all_cases
from .run import STATUSES, as_rows, in_processes, results
from .sources import export


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.corpus", description=__doc__.splitlines()[0])
    parser.add_argument("patterns", nargs="*", metavar="PATTERN")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="so many cases at a time")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--export", type=Path, metavar="FOLDER")
    parser.add_argument("--text", action="store_true", help="print the text that is compiled, and run nothing")
    arguments = parser.parse_args()
    cases = [c for c in all_cases() if not arguments.patterns or any(p in c.id for p in arguments.patterns)]
    if arguments.text:
        print(*(f"// {c.id}\n{c.text()}" for c in cases), sep="\n")
        return 0
    if arguments.export:
        for case in cases:
            export(case.source, case.files(), arguments.export)
        return 0
    found = []
    for result in results(cases) if arguments.jobs < 2 else in_processes(cases, arguments.jobs):
        found.append(result)
        sentence = " ".join(result.sentence.split())
        print(f"{result.status:12} {result.source}/{result.path}:{result.kernel} {sentence}"[:600], flush=True)
    totals = {
        name: Counter(r.status for r in found if r.source == name) for name in dict.fromkeys(c.source for c in cases)
    }
    print("\n" + f"{'':14}{'kernels':>12}" + "".join(f"{s:>12}" for s in STATUSES))
    for name, counts in [*totals.items(), ("all", sum(totals.values(), Counter()))]:
        print(f"{name:14}{counts.total():12}" + "".join(f"{counts[s]:12}" for s in STATUSES))
    for what, count in Counter(c.needs for c, r in zip(cases, found, strict=True) if r.status == "refused").items():
        print(f"refused: {count:3} {'need ' + what if what else 'for other reasons'}")
    if arguments.json:
        arguments.json.write_text(json.dumps(as_rows(found), indent=1), encoding="utf-8")
    return 0 if all(r.as_it_should_be for r in found) else 1


if __name__ == "__main__":
    sys.exit(main())
