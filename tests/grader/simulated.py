"""A class of any size without running anything: results as the judge would give them, and a gradebook full of them."""

import os
import random
from pathlib import Path

from grader.marks.results import Check, ClassResults, Graded, Lateness, Origin, Outcome
from labutils import exercises
from labutils.spec.verdict import CaseResult, Diagnosis, Verdict

UNIT = "06_elementwise_triton"
NAMES = ("add_bytes", "vector_add", "gelu", "gelu_backward", "bias_scale")
KINDS = ("tail-unmasked", "wrong-values", "race", "timeout", "precision", "out-of-bounds")


def simulated(students: int, seed: int = 1) -> ClassResults:
    """A graded class: a third of the answers wrong, times around the reference's, some late, some repaired."""
    draw = random.Random(seed)
    checks = [Check(n, exercises.get(f"{UNIT}/{n}").title, f"check-{n}", 3.0) for n in NAMES]
    graded = [_student(f"student {number:04}", draw) for number in range(students)]
    return ClassResults(UNIT, "Elementwise kernels", checks, graded, "NVIDIA H200", seed, "2026-11-20 12:00 UTC", 99.0)


def _student(name: str, draw: random.Random) -> Graded:
    outcomes = [_outcome(n, draw) for n in NAMES]
    student = Graded(name, outcomes, origin=Origin("moodle", f"1{name[-4:]}", name, file=f"{UNIT}.ipynb"))
    if draw.random() < 0.2:
        student.repairs = [f"The grading information of the answer cell '{n}_kernel' was lost." for n in NAMES]
    if draw.random() < 0.1:
        student.late = Lateness(
            10, "Handed in on 2026-11-21 03:00 CET, 3 h late (the time in the zip): 10 % are taken off."
        )
    return student


def _outcome(name: str, draw: random.Random) -> Outcome:
    cases = [CaseResult(f"n = {n}, a case of this size", error=0.2, seconds=0.01) for n in range(15)]
    verdict = Verdict(f"{UNIT}/{name}", "NVIDIA H200", cases, points=3.0)
    if draw.random() < 0.33:
        kind = draw.choice(KINDS)
        message = Diagnosis(kind, f"out[{draw.randrange(9999)}] is not what it must be", "Look at it.", "1 2 3\n" * 12)
        cases[-1] = CaseResult("n = 4099, a prime", message, 17.0, 0.01, True)
        verdict.headline = message
        return Outcome(name, f"check-{name}", 0.0, 3.0, kind, f"{message.symptom}. {message.advice}", verdict)
    verdict.marks = 3.0
    if name != "add_bytes":
        ratio = draw.lognormvariate(0.2, 0.5)
        sizes = dict(exercises.get(verdict.exercise).bench)
        verdict.timing = {
            "ratio": ratio, "low": ratio * 0.99, "high": ratio * 1.01, "fairest": ratio, "yours_s": 6e-5 * ratio,
            "reference_s": 6e-5, "of_floor": 0.9 / ratio, "floor_why": "", "sizes": sizes, "copy_gbs": 4000.0,
            "samples": {"yours": [6e-5] * 64, "reference": [6e-5] * 64},
        }  # fmt: skip
    return Outcome(name, f"check-{name}", 3.0, 3.0, "", "3 of 3 points.", verdict)


def multiply(course: Path, unit: str, student: str, names: list[str]) -> None:
    """Give every name the submission of a graded student: in nbgrader's folders by links, in its gradebook by rows."""
    from grader.course.nbgrader_config import NbGraderAPI, course_config

    for kind in ("submitted", "autograded", "feedback"):
        for name in names:
            (course / kind / name / unit).mkdir(parents=True)
            for file in (course / kind / student / unit).iterdir():
                os.link(file, course / kind / name / unit / file.name)
    with NbGraderAPI(config=course_config(course)).gradebook as book:
        like = book.find_submission_notebook(unit, unit, student)
        scores = {g.name: (g.auto_score, g.needs_manual_grade) for g in like.grades}
        for name in names:
            book.add_student(name)
            submission = book.add_submission(unit, name)
            for grade in (g for n in submission.notebooks for g in n.grades):
                grade.auto_score, grade.needs_manual_grade = scores[grade.name]
        book.db.commit()
