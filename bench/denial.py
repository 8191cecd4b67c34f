"""A class in which one member of every kind tries to stop or to stall the grading: what does it cost the others?

    python -m bench.denial [--count 30] [--unit 00_start] [--workers N] [--json FILE]

The same class is graded three times: all right, with the members below in place of as many, and all right again. The
others must get the same marks, and the second run at most 1.3 × the time of the mean of the others. The memory of the
process that grades is watched.
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_output

from bench.submissions import UNIT, answers_of
from grader.course.build import release_notebook
from grader.course.sources import ROOT, notebook_bytes, source_notebook
from grader.demo.sample import solved

LARGE = 50_000_000
"""Bytes, as many as a file may have."""

IN_THE_ANSWER = {
    "deep_expression": "\ndeep = " + "-" * 30_000 + "1",
    "long_sum": "\nlong = " + "+".join("1" * 25_000),
    "elif": "\nif 0: pass\n" + "elif 0: pass\n" * 4500,
    "elif_20000": "\nif 0: pass\n" + "elif 0: pass\n" * 20_000,
    "shell": "\n" + "!ls\n" * 15_000,
    "shell_20000": "\n" + "!ls\n" * 20_000,
    "long_line": "\n# " + "x" * 1_000_000,
    "huge_number": "\nnumber = " + "1" * 60_000,
    "huge_text": '\ntext = "' + "x" * 5_000_000 + '"',
    "nul": "\nx = '\0'",
    "attributes": "\nx" + ".a" * 30_000,
    "brackets": "\nx = " + "[" * 60_000,
}
"""Text at the end of an answer."""

IN_A_CELL = {
    "cuda_blanks": "%%cuda\n" + "__global__ void k(int a[" + " " * 60_000 + "x",
    "cuda_comments": "%%cuda\n" + "/*" * 30_000,
    "cuda_templates": "%%cuda\n" + "template<a> __global__ " * 2500,
    "cuda_attributes": "%%cuda\n__global__ void k() {" + "[[" * 30_000 + "}",
}
"""A cell of its own before the answer."""

IN_THE_LAUNCHER = {
    "many_launches": "def {name}(*arguments, **more):\n    for _ in range(1_000_000):\n        _{name}(*arguments)",
    "giant_scratch": "def {name}(x, *more):\n    room = x.new_zeros(1 << 50)\n    _{name}(x, *more)\n    room.zero_()",
    "many_prints": "def {name}(*arguments):\n    print('x' * 50_000_000)\n    _{name}(*arguments)",
    "deep_answer": "def {name}(*arguments):\n    value = []\n    for _ in range(500_000):\n        value = [value]\n"
    "    return value",
}
"""In place of an exercise's function, which stays as `_name`."""


def members(unit: str, right: NotebookNode, answers: dict[str, str] | None = None) -> dict[str, bytes]:
    """Files of learners who would stop the class, by kind. `answers`: the answer cells by exercise, if they are not the
    unit's."""
    found = answers or answers_of(right, unit)
    (_, answer), launcher = next(iter(found.items())), list(found)[len(found) > 1]
    made: dict[str, Callable[[NotebookNode], object]] = {}
    for kind, text in IN_THE_ANSWER.items():
        made[kind] = lambda notebook, text=text: _append(notebook, answer, text)
    for kind, text in IN_A_CELL.items():
        made[kind] = lambda notebook, text=text: notebook.cells.insert(2, new_code_cell(text, id="mine"))
    name = launcher.split("/")[1]
    for kind, text in IN_THE_LAUNCHER.items():
        text = f"_{name} = {name}\n" + text.format(name=name)
        made[kind] = lambda notebook, text=text: notebook.cells.insert(-1, new_code_cell(text, id="mine"))
    made |= {
        "deep_metadata": lambda n: n.cells[2].metadata.update(mine=_deep(300)),
        "large_metadata": lambda n: n.cells[2].metadata.update(mine=["x" * 50] * 100_000),
        "large_outputs": lambda n: _code(n).outputs.append(new_output("stream", text="x" * (LARGE - 1_000_000))),
        "long_words": lambda n: n.cells.append(new_markdown_cell("*_[" * 20_000, id="words")),
    }
    found = {}
    for kind, change in made.items():
        notebook = copy.deepcopy(right)
        change(notebook)
        found[kind] = notebook_bytes(notebook)
    text = notebook_bytes(right)
    cell = b'{"cell_type": "markdown", "id": "mine", "metadata": {}, "source": "1"}, '
    found |= {
        "cells": text.replace(b'"cells": [', b'"cells": [' + cell * 100_000, 1),
        "not_utf8": text.replace(b"# ", b"# \xff\xfe ", 1),
        "surrogates": text.replace(b'"# ', b'"# \\ud800 ', 1),
        "deep_json": text.replace(b'"metadata": {', b'"metadata": {"x": ' + b"[" * 200_000 + b"]" * 200_000 + b",", 1),
        "too_large": text + b" " * LARGE,
    }
    return found


def _deep(levels: int) -> list:
    value: list = []
    for _ in range(levels):
        value = [value]
    return value


def _append(notebook: NotebookNode, cell_id: str, text: str) -> None:
    cell = next(c for c in notebook.cells if c.id == cell_id)
    cell.source += text


def _code(notebook: NotebookNode) -> NotebookNode:
    return next(c for c in notebook.cells if c.cell_type == "code")


def write_class(folder: Path, unit: str, count: int, hostile: bool) -> list[str]:
    """A class of `count`; returns the names of those who are right. The others' files, and two links, are in place of
    as many where it is `hostile`."""
    folder.mkdir(parents=True)
    right = solved(release_notebook(ROOT / "solutions" / unit), source_notebook(ROOT / "solutions" / unit))
    bad = members(unit, right) if hostile else {}
    honest = [f"right_{k:03}" for k in range(count - len(bad) - 2 * hostile)]
    for name in honest:
        (folder / f"{name}.ipynb").write_bytes(notebook_bytes(right))
    for kind, content in bad.items():
        (folder / f"{kind}.ipynb").write_bytes(content)
    if hostile:
        (folder / "link.ipynb").symlink_to(folder / f"{honest[0]}.ipynb")
        os.mkfifo(folder / "fifo.ipynb")
    return honest


def graded(unit: str, submissions: Path, out: Path, *options: str) -> dict:
    """One run: its seconds, marks by student and exercise, and the most memory of the process that grades, in MB."""
    line = [sys.executable, "-m", "grader", "grade", unit, "--submissions", str(submissions), "--out", str(out)]
    begin = time.perf_counter()
    with tempfile.TemporaryFile() as noise:
        process = subprocess.Popen([*line, "--seed", "7", *options], cwd=ROOT, stdout=noise, stderr=noise)
        most = {}
        watching = threading.Thread(target=_watch, args=(process, most))
        watching.start()
        code = process.wait()
        watching.join()
        seconds = time.perf_counter() - begin
        noise.seek(0)
        if code:
            raise SystemExit(noise.read().decode(errors="replace")[-3000:])
    students = json.loads((out / "grades.json").read_text(encoding="utf-8"))["students"]
    marks = {s["student"]: {o["name"]: o["marks"] for o in s["outcomes"]} for s in students}
    why = {s["student"]: s["problem"] or "; ".join(o["sentence"] for o in s["outcomes"]) for s in students}
    return {"seconds": seconds, "marks": marks, "why": why, "memory": most}


def _watch(process: subprocess.Popen, most: dict[str, float]) -> None:
    """The most memory of the process that grades and of the workers that it starts."""
    while process.poll() is None:
        for pid, kind in [(process.pid, "grades"), *((p, "judges") for p in _children(process.pid))]:
            try:
                status = Path(f"/proc/{pid}/status").read_text()
            except OSError:
                continue
            if "VmHWM" in status and (kind == "grades" or "grader.engines" in _command(pid)):
                used = int(status.partition("VmHWM:")[2].split()[0]) / 1024
                most[kind] = max(most.get(kind, 0.0), round(used, 1))
        time.sleep(0.3)


def _children(pid: int) -> list[int]:
    try:
        return [int(n) for n in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.denial", description=__doc__.splitlines()[0])
    parser.add_argument("--unit", default=UNIT)
    parser.add_argument("--count", type=int, default=40, metavar="N", help="submissions in all")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 2)
    parser.add_argument("--runs", type=int, choices=(2, 3), default=3, help="2: without the last one")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    options, runs = ["--workers", str(args.workers)], []
    with tempfile.TemporaryDirectory(prefix="bench-denial-") as name:
        for number, hostile in enumerate((False, True, False)[: args.runs]):
            folder = Path(name, str(number))
            honest = write_class(folder / "in", args.unit, args.count, hostile)
            run = graded(args.unit, folder / "in", folder / "out", *options)
            runs.append(run)
            print(f"{'with them' if hostile else 'without  '} {run['seconds']:7.1f} s, memory in MB {run['memory']}")
            if hostile:
                others = honest
                for student in sorted(run["marks"].keys() - set(honest)):
                    print(f"    {student:20} {sum(run['marks'][student].values()):g}  {run['why'][student][:120]}")
            sys.stdout.flush()
    without, second = runs[::2], runs[1]
    same = all(second["marks"][s] == run["marks"][s] for s in others for run in without)
    ratio = len(without) * second["seconds"] / sum(run["seconds"] for run in without)
    print(f"{len(others)} others: the same marks: {same}; {ratio:.2f} × the time")
    if args.json:
        args.json.write_text(json.dumps(runs), encoding="utf-8")


if __name__ == "__main__":
    main()
