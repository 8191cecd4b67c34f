"""GPU Kernel Lab's commands for instructors."""

import argparse
import errno
import importlib
import os
import sys

from grader.course import place
from grader.engines.importing import without_collections

# Each module offers `add_arguments(parser)` and `main(args) -> int`. It is imported only when its verb is
# used: nbgrader and torch take seconds to import, and `--help` needs neither.
VERBS = {
    "build": ("grader.course.build", "write notebooks/ from solutions/, without the answers"),
    "course": ("grader.commands.course", "set up your own course: repository, roster, weights, nbgrader"),
    "locale": ("grader.commands.locale", "catalogs of other languages: update, export, import"),
    "new": ("grader.commands.new", "write the skeleton of a new exercise, with marked holes"),
    "audit": ("grader.commands.audit", "check every exercise's solution and mutants"),
    "mutate": ("grader.commands.mutate", "run the check on solutions with one small generated mistake"),
    "figures": ("grader.commands.figures", "count what the solutions' kernels do, for lab.explain"),
    "grade": ("grader.commands.grade", "grade a class: gradebook, feedback, report"),
    "verify": ("grader.grading.verify", "check that all of a graded class agrees with its journal"),
    "status": ("grader.grading.status", "what a folder holds: the run, its state, what changed since"),
    "worker": ("grader.engines.array_worker", "do the jobs in a folder (started by the array engine)"),
    "report": ("grader.reports.report", "rebuild the pages of a graded class"),
    "regrade": ("grader.commands.regrade", "judge exercises again after a test was fixed"),
    "export": ("grader.reports.exports", "points for Moodle, Canvas, Gradescope or a spreadsheet"),
    "autograder": ("grader.commands.autograder", "an archive with which Gradescope or Autolab judges submissions"),
    "judge": ("grader.commands.judge", "judge one submission, with a record that can be replayed"),
    "redteam": ("grader.redteam.run", "run attacks and unusual honest submissions through the judge"),
    "demo": ("grader.demo", "grade the sample class and write its report"),
}


_ABOUT_A_PATH = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ENAMETOOLONG)
"""Errors that concern a path which a person chose: a sentence says more than a traceback."""


def main(argv: list[str] | None = None) -> int:
    """Run one verb; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m grader",
        description=__doc__,
        epilog="verbs:\n" + "\n".join(f"  {verb:<12}{about}" for verb, (_, about) in VERBS.items()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("verb", choices=VERBS, metavar="VERB", help="the command, see below")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="`VERB --help` lists them")
    chosen = parser.parse_args(argv)
    if place.installed():
        os.environ.setdefault(place.COURSE, str(place.ROOT))  # processes that this one starts run elsewhere

    module_name, about = VERBS[chosen.verb]
    try:
        with without_collections():
            module = importlib.import_module(module_name)
        verb_parser = argparse.ArgumentParser(prog=f"{parser.prog} {chosen.verb}", description=about)
        module.add_arguments(verb_parser)
        return module.main(verb_parser.parse_args(chosen.arguments))
    except KeyboardInterrupt:
        print("\nStopped.")
        return 130
    except OSError as problem:
        if problem.errno not in _ABOUT_A_PATH or problem.filename is None:
            raise
        print(f"{problem.filename} cannot be used: {problem.strerror}.")
        return 1


if __name__ == "__main__":
    sys.exit(main())
