"""A large class's students are packed, and are the same when somebody looks."""

import json

from grader.marks.results import ClassResults
from grader.marks.students import Students
from tests.grader.simulated import simulated


def test_packed_students_are_the_same_in_their_order():
    results = simulated(12)
    plain = [s.to_json() for s in results.students]
    packed = Students(reversed(results.students), key=str, unpacked=3)
    assert [s.to_json() for s in packed] == plain and len(packed) == 12
    assert packed[-1].to_json() == plain[-1] and [s.to_json() for s in packed[2:5]] == plain[2:5]
    assert sum(isinstance(s, bytes) for s in packed._students) == 9
    assert len(packed._students[0]) < len(json.dumps(plain[0])) / 4


def test_results_of_packed_students_are_written_and_read_line_by_line():
    results = simulated(12)
    text = results.as_json()
    results.students = Students(results.students, unpacked=3)
    assert results.as_json() == text and len(text.splitlines()) == text.count("\n")
    assert ClassResults.from_json(text).as_json() == text
    otherwise = json.dumps(json.loads(text), indent=4)  # by another program
    assert ClassResults.from_json(otherwise).as_json() == text
