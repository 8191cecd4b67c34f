"""Does the check's message name the mistake? Counted over generated mistakes of CUDA C++ kernels.

    python -m bench.messages_cuda [UNIT or UNIT/EXERCISE …] [--sample 150] [--seed 1] [--json FILE]

Draws mutations (`grader/course/mutations`) of the exercises' solutions, one exercise as often as another, and checks
each as a notebook does. A message is a hit if it names the line that the mutation changed, or of a removed statement
its function; it is a first hit if that is the first line that it names. Mutations that the check accepts are left out.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import tempfile
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from grader.commands.mutate import kernels
from grader.course.mutations import Mutation, mutations
from grader.course.solutions import load_text, solution_text
from labutils import exercises
from labutils.check import statements
from labutils.check.evaluate import evaluate
from labutils.cuda.kernel import CompileError
from labutils.spec.verdict import Verdict


def drawn(names: Iterable[str], count: int, seed: int) -> list[Mutation]:
    """`count` mutations, from each exercise about as many, in an order of which any beginning is a fair sample."""
    rng, found = random.Random(seed), []
    for exercise_id in kernels(names):
        if exercises.get(exercise_id).language == "cuda":
            own = sorted(mutations(exercise_id), key=lambda m: (m.number, m.name))
            found += enumerate(rng.sample(own, min(len(own), count)))
    rng.shuffle(found)
    return [m for _, m in sorted(found, key=lambda f: f[0])][:count]


def tried(mutation: Mutation) -> tuple[Verdict, float]:
    """The verdict as in a notebook, and the seconds of the check. Raises CompileError."""
    exercise = exercises.get(mutation.exercise)
    with tempfile.TemporaryDirectory() as folder:
        unit = solution_text(mutation.exercise.split("/")[0])
        fn = getattr(load_text(unit, folder, kernels=mutation.text), exercise.entry)
        begin = time.perf_counter()
        return evaluate(exercise, fn, explain=True), time.perf_counter() - begin


def message(verdict: Verdict) -> str:
    """What the learner reads about the cause."""
    found = verdict.headline
    return "\n".join([found.symptom, found.advice] if found else [*verdict.reasons.values()])


def named(mutation: Mutation, text: str) -> str:
    """ "first", "hit" or "miss"."""
    lines = [int(n) for n in re.findall(r"\bline (\d+)", text)]
    if mutation.number in lines[:1]:
        return "first"
    gone = re.search(r"(\w+)\s*(?:<[^<>]*>)?\(", mutation.line) if mutation.becomes == ";" else None
    if gone and f"{gone[1]}(" in text:
        return "first"
    own = statements.shortened(mutation.text.splitlines()[mutation.number - 1])
    return "hit" if mutation.number in lines or (len(own) > 4 and f"`{own}`" in text) else "miss"


def table(rows: list[dict], by: str) -> str:
    """Hits by exercise or class of mutation, as text."""
    lines = []
    for key in [*sorted({r[by] for r in rows}), ""]:
        own = [r["named"] for r in rows if key in (r[by], "")]
        counts = Counter(own)
        hits = counts["first"] + counts["hit"]
        lines.append(
            f"{key or 'all':40} {hits:4} of {len(own):4} ({hits / max(1, len(own)):4.0%}), first {counts['first']}"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="UNIT or UNIT/EXERCISE")
    parser.add_argument("--sample", type=int, default=150)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path, help="write each message to this file, one per line")
    options = parser.parse_args()
    rows = []
    for mutation in drawn(options.names, options.sample, options.seed):
        try:
            verdict, seconds = tried(mutation)
        except CompileError:
            continue
        text = message(verdict)
        if not text:
            continue
        row = {f: getattr(mutation, f) for f in ("exercise", "operator", "number", "line", "becomes")}
        kind = verdict.headline.kind if verdict.headline else "counts"
        rows.append(row | {"kind": kind, "named": named(mutation, text), "seconds": round(seconds, 2), "message": text})
        if options.json:
            with options.json.open("a", encoding="utf-8") as out:
                out.write(json.dumps(rows[-1]) + "\n")
    for by in ("exercise", "operator", "kind"):
        print(table(rows, by), end="\n\n")


if __name__ == "__main__":
    main()
