"""`python -m grader.redteam.stock FILE EXERCISE`: an attack in the process that checks it, as in a plain notebook.

For comparison only, and only in a process that is thrown away.
"""

import linecache
import sys
from pathlib import Path

import labutils as lab
from labutils import exercises
from labutils.check.evaluate import evaluate


def main(path: str, exercise_id: str) -> None:
    text = Path(path).read_text(encoding="utf-8")
    linecache.cache["<cell>"] = (len(text), None, text.splitlines(keepends=True), "<cell>")
    scope = {"__name__": "__main__", "lab": lab}
    try:
        exec(compile(text, "<cell>", "exec"), scope)
    except (Exception, SystemExit) as e:  # the cell fails, the check cell still runs
        print(f"{type(e).__name__}: {e}")
    task = exercises.get(exercise_id)
    verdict = evaluate(task, scope.get(task.entry), seed=7, hidden=4)
    print(f"\nmarks: {verdict.marks}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
