"""Do the check's messages name the mistake? Generated mistakes of Triton exercises, checked as a learner would.

    python -m bench.messages [--units UNIT …] [--count 150] [--seed 0] [--renamed] [--json FILE]

A sample of the mutations of `grader.course.mutations`, by turns over exercises and kinds of mutation, is checked with
all evidence. Nobody labels the messages; each is scored by what it names outside of the table of values:

    hit     the mutated statement, by its number or its text, or a name in the part that was changed
    near    a statement that computes what the mutated one uses, or that uses what it computes
    wrong   other statements only
    silent  no statement

A message that explains the mistake in words alone is silent here, so the figures are no measure of good messages, but
they compare two versions of the check. `--renamed` gives the solution other names and other loops first
(`restructured`): learners do not write ours. A check on a loaded machine has less time for its evidence; `--seconds`
adds to it.
"""

from __future__ import annotations

import argparse
import ast
import json
import random
import re
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from time import perf_counter

from grader.commands.mutate import kernels
from grader.course.mutants import language_of
from grader.course.mutations import Mutation, equivalents, mutations
from grader.course.mutations.edits import Edit
from grader.course.solutions import load_text
from labutils import exercises
from labutils.backends.interpreter import Interpreter
from labutils.check import evidence
from labutils.check.evaluate import evaluate

SCORES = ("hit", "near", "wrong", "silent")

TIME_LIMIT = 5.0
"""Seconds of CPU time for one case: a small mistake may make a loop endless."""

COMMON = {"mask", "other", "load", "store", "float", "where", "range", "axis", "None", "True", "False", "float32"}
"""Names that stand in many messages and point nowhere."""


def sample(units: Iterable[str], count: int, seed: int, renamed: bool) -> list[Mutation]:
    """Mutations that are not known to be equivalent, an exercise and a kind of mutation after the other."""
    rng, left = random.Random(seed), {}
    for exercise_id in kernels(units):
        if language_of(exercise_id) == "cuda":
            continue
        known = equivalents(exercise_id.split("/")[0])
        found = mutations(exercise_id, restructured if renamed else str)
        by_kind = defaultdict(list)
        for m in found:
            if (m.exercise, m.line, m.becomes) not in known:
                by_kind[m.operator].append(m)
        left[exercise_id] = by_kind
    order, chosen = sorted(left), []
    rng.shuffle(order)
    while order and len(chosen) < count:
        for exercise_id in [*order]:
            by_kind = left[exercise_id]
            kind = rng.choice(sorted(by_kind))
            chosen.append(by_kind[kind].pop(rng.randrange(len(by_kind[kind]))))
            if not by_kind[kind]:
                del by_kind[kind]
            if not by_kind:
                order.remove(exercise_id)
    return chosen[:count]


# --- another way to write a solution -------------------------------------------------------------------------------


def restructured(text: str) -> str:
    """The text with other names for the variables of its functions, and with loops that count iterations."""
    for rewrite in (_loops, _names):
        edits = sorted(rewrite(text), key=lambda e: e.begin, reverse=True)
        for edit in edits:
            text = edit.applied(text)
    return text


def _loops(text: str) -> Iterator[Edit]:
    """`for k in range(0, K, BLOCK)` as a loop over whole numbers."""
    lines = text.splitlines(keepends=True)
    starts = [sum(map(len, lines[:k])) for k in range(len(lines))]
    for node in ast.walk(ast.parse(text)):
        if not (isinstance(node, ast.For) and isinstance(node.iter, ast.Call) and len(node.iter.args) == 3):
            continue
        if ast.unparse(node.iter.func) != "range" or node.lineno != node.iter.end_lineno:
            continue
        first, last, step = map(ast.unparse, node.iter.args)
        head, pad = lines[node.lineno - 1], " " * node.body[0].col_offset
        new = f"for step in range(tl.cdiv({last} - ({first}), {step})):\n{pad}{ast.unparse(node.target)} = {first} + "
        begin = starts[node.lineno - 1]
        if not head.rstrip().endswith(":"):
            continue
        yield Edit("loop", begin + node.col_offset, begin + len(head.rstrip()), f"{new}step * {step}")


def _names(text: str) -> Iterator[Edit]:
    """Variables of functions, but not their parameters, under names that say little."""
    lines = text.splitlines(keepends=True)
    starts = [sum(map(len, lines[:k])) for k in range(len(lines))]
    for function in ast.parse(text).body:
        if not isinstance(function, ast.FunctionDef):
            continue
        own = [n for n in ast.walk(function) if isinstance(n, ast.Name)]
        parameters = {a.arg for a in ast.walk(function) if isinstance(a, ast.arg)}
        bound = dict.fromkeys(n.id for n in own if isinstance(n.ctx, ast.Store) and n.id not in parameters)
        new = {name: f"{name[0]}{k}" for k, name in enumerate(bound)}
        for n in own:
            if n.id in new:
                begin = starts[n.lineno - 1] + len(lines[n.lineno - 1].encode()[: n.col_offset].decode())
                yield Edit("name", begin, begin + len(n.id), new[n.id])


# --- what a message names ------------------------------------------------------------------------------------------


def score(mutation: Mutation, message: str) -> str:
    """One of `SCORES` for a message about this mutation."""
    statements = _statements(mutation.text)
    own = next((s for s in statements if s[0] <= mutation.number <= s[1]), (mutation.number, mutation.number, None))
    numbers = {int(n) for group in re.findall(r"\blines? ((?:\d+(?:, | and )?)+)", message)
               for n in re.findall(r"\d+", group)}  # fmt: skip
    quoted = re.findall(r"`([^`]+)`", message)
    if any(own[0] <= n <= own[1] for n in numbers):
        return "hit"
    lines = mutation.text.splitlines()
    text = " ".join(" ".join(lines[own[0] - 1 : own[1]]).split())
    if any(len(q) > 8 and q.rstrip("…") in text for q in quoted):
        return "hit"
    names = _changed(mutation)
    if names & set(quoted):
        return "hit"
    telling = [n for n in names if n not in COMMON and ("_" in n or n.isupper())]
    if any(re.search(rf"(?<![\w.\[]){re.escape(name)}(?!\w)", message) for name in telling):
        return "hit"
    others = [s for s in statements if s != own and any(s[0] <= n <= s[1] for n in numbers)]
    if not others:
        return "silent"
    return "near" if any(_related(own, s) for s in others) else "wrong"


def _statements(text: str) -> list[tuple[int, int, ast.stmt]]:
    """(first line, last line, statement) of all statements, of a branch or a loop the head alone."""
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.stmt):
            body = getattr(node, "body", None)
            last = max(node.lineno, body[0].lineno - 1) if body else node.end_lineno
            found.append((node.lineno, last, node))
    return sorted(found, key=lambda s: (s[1] - s[0], s[0]))


def _changed(mutation: Mutation) -> set[str]:
    """Names of two characters or more that stand only before or only after the change."""
    before, after = (Counter(re.findall(r"[A-Za-z_]\w+", t)) for t in (mutation.line, mutation.becomes))
    return {
        n for n in (before - after) | (after - before) if n not in COMMON and len(n) > 1 and "_" in n or n.isupper()
    }


def _related(one: tuple, other: tuple) -> bool:
    """Does one of two statements bind a name that the other one uses or binds?"""
    (bound, used), (others_bound, others_used) = map(_bound_and_used, (one[2], other[2]))
    return bool(bound & (others_used | others_bound) or used & others_bound)


def _bound_and_used(statement: ast.stmt | None) -> tuple[set[str], set[str]]:
    if statement is None or isinstance(statement, ast.FunctionDef):
        return set(), set()
    inside = [statement]
    if getattr(statement, "body", None):
        inside = [n for n in (getattr(statement, f, None) for f in ("target", "iter", "test")) if n is not None]
    names = [n for top in inside for n in ast.walk(top) if isinstance(n, ast.Name)]
    bound = {n.id for n in names if isinstance(n.ctx, ast.Store)}
    return bound, {n.id for n in names if isinstance(n.ctx, ast.Load)} - {"tl", "triton", "range", "float", "min"}


# --- the run -------------------------------------------------------------------------------------------------------


def attempt(mutation: Mutation) -> dict | None:
    """What the check says about a mutation, scored; None if it is accepted or does not load."""
    task = exercises.get(mutation.exercise)
    with tempfile.TemporaryDirectory(prefix="bench-messages-") as folder:
        try:
            fn = getattr(load_text(mutation.text, folder), task.entry)
        except Exception:  # the cell itself fails
            return None
        begin = perf_counter()
        verdict = evaluate(task, fn, backend=Interpreter(targets=()), time_limit=TIME_LIMIT, explain=True)
        seconds = perf_counter() - begin
    if verdict.headline is None:
        return None
    message = f"{verdict.headline.symptom}\n{verdict.headline.advice}"
    row = {f: getattr(mutation, f) for f in ("exercise", "operator", "number", "line", "becomes")}
    return row | {
        "tag": verdict.headline.kind,
        "score": score(mutation, message),
        "message": message,
        "seconds": round(seconds, 1),
    }


def table(rows: list[dict], by: str) -> str:
    """Counts of the scores by one field of the rows."""
    counts: dict[str, Counter] = defaultdict(Counter)
    for row in rows:
        counts[row[by]][row["score"]] += 1
        counts["all"][row["score"]] += 1
    lines = [f"{by:34}" + "".join(f"{s:>8}" for s in SCORES)]
    for name in [*sorted(n for n in counts if n != "all"), "all"]:
        lines.append(f"{name:34}" + "".join(f"{counts[name][s]:8}" for s in SCORES))
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.messages", description=__doc__.splitlines()[0])
    parser.add_argument("--units", nargs="+", default=[], metavar="UNIT or UNIT/EXERCISE", help="by default all")
    parser.add_argument("--count", type=int, default=150, help="mutations (%(default)s)")
    parser.add_argument("--slice", default="", metavar="FIRST:LAST", help="only this part of the sample")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=evidence.SECONDS, help="for evidence, beside the check's time")
    parser.add_argument("--renamed", action="store_true", help="mutate a solution of other names and loops")
    parser.add_argument("--json", type=Path, help="append every message to this file, one a line")
    arguments = parser.parse_args()
    evidence.SECONDS = arguments.seconds
    chosen, rows = sample(arguments.units, arguments.count, arguments.seed, arguments.renamed), []
    first, _, last = arguments.slice.partition(":")
    for mutation in chosen[int(first or 0) : int(last) if last else None]:
        if (row := attempt(mutation)) is None:
            continue
        rows.append(row)
        print(f"{row['score']:7} {row['tag']:20} {row['exercise']}: {mutation.name[:150]}", flush=True)
        if arguments.json:
            with arguments.json.open("a", encoding="utf-8") as out:
                out.write(json.dumps(row) + "\n")
    print("", table(rows, "operator"), "", table(rows, "tag"), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
