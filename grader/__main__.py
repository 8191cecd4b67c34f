"""GPU Kernel Lab's commands for instructors."""

import argparse
import importlib
import sys

from grader.engines.importing import without_collections

# Each module offers `add_arguments(parser)` and `main(args) -> int`. It is imported only when its verb is
# used: nbgrader and torch take seconds to import, and `--help` needs neither.
VERBS = {
    "build": ("grader.course.build", "write notebooks/ from solutions/, without the answers"),
    "new": ("grader.commands.new", "write the skeleton of a new exercise, with marked holes"),
    "audit": ("grader.commands.audit", "try every exercise on its solution and on known wrong answers"),
    "mutate": ("grader.commands.mutate", "try the check on every solution with one small mistake in it, made by rules"),
    "grade": ("grader.commands.grade", "grade a class: grade book, feedback, report"),
    "verify": ("grader.grading.verify", "check a graded class: grade book and journal say the same"),
    "worker": ("grader.engines.array_worker", "do the work that lies in a folder (the array engine starts these)"),
    "report": ("grader.reports.report", "make the pages of a graded class again"),
    "regrade": ("grader.grading.regrade", "grade one exercise again after its test was fixed"),
    "export": ("grader.reports.exports", "marks for Moodle, Canvas, Gradescope or a spreadsheet"),
    "judge": ("grader.commands.judge", "judge one submission, with a record that can be replayed"),
    "redteam": ("grader.redteam.run", "try attacks and unusual honest submissions on the judge"),
    "demo": ("grader.demo", "grade the sample class and write its report"),
}


def main(argv: list[str] | None = None) -> int:
    """Run one verb; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m grader",
        description=__doc__,
        epilog="verbs:\n" + "\n".join(f"  {verb:<8}{about}" for verb, (_, about) in VERBS.items()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("verb", choices=VERBS, metavar="VERB", help="what to do, see below")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="`VERB --help` lists them")
    chosen = parser.parse_args(argv)

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


if __name__ == "__main__":
    sys.exit(main())
