"""A second instructor, who grades written answers in nbgrader's gradebook as its formgrader does, in a process of her
own: `python -m tests.grader.grading.co_instructor GRADEBOOK UNIT` reads lines `student<tab>points` and prints each
student when the points are in."""

import sys

from nbgrader.api import Gradebook

COMMENT = "Seen by the second instructor: {points} of 2."


def main(gradebook: str, unit: str) -> None:
    with Gradebook(f"sqlite:///{gradebook}") as book:
        for line in sys.stdin:
            student, points = line.rstrip("\n").split("\t")
            grade = book.find_grade("explain", unit, unit, student)
            grade.manual_score, grade.needs_manual_grade = float(points), False
            book.find_comment("explain", unit, unit, student).manual_comment = COMMENT.format(points=points)
            book.db.commit()
            print(student, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
