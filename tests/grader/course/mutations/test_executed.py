"""Which statements the cases of an exercise execute, and which mutations are therefore left to another exercise."""

import pytest

from grader.course.mutants import answer
from grader.course.mutations import executed
from labutils.backends import interpreter

needs_interpreter = pytest.mark.skipif(not interpreter.ready(), reason="Triton's interpreter is off or not installed")

TEXT = '''
def outer(x,
          y):
    """A docstring."""
    if x and (
        y
    ):
        a = x
    else:
        a = (
            y
        )
    return a
'''


def test_a_branch_and_its_body_are_statements_of_their_own():
    found = executed.statements(TEXT)
    assert {line: number for line, (_, number) in found.items()} == {
        5: 3,
        6: 3,
        7: 3,
        8: 6,
        10: 8,
        11: 8,
        12: 8,
        13: 11,
    }
    assert {text for text, _ in found.values()} == {TEXT.strip()}


def test_functions_with_the_same_name_and_another_text_are_different():
    one, other = executed.statements(TEXT), executed.statements(TEXT.replace("return a", "return -a"))
    assert one.keys() == other.keys() and not set(one.values()) & set(other.values())


def test_tracing_sees_the_lines_of_one_file(tmp_path):
    path = tmp_path / "traced.py"
    path.write_text(TEXT)
    scope = {}
    exec(compile(TEXT, str(path), "exec"), scope)
    result = executed.traced(lambda: {"result": scope["outer"](1, 2)}, str(path))
    assert result["result"] == 1
    assert {5, 8, 13} <= set(result["lines"]) and not {10, 11, 12} & set(result["lines"])


def lines(exercise_id: str) -> list[str]:
    text = answer(exercise_id).split("\n")
    return [text[number - 1].strip() for number in sorted(executed.others_lines(exercise_id))]


@needs_interpreter
def test_the_branch_of_the_other_format_is_left_to_the_other_exercise():
    mx, nv = lines("22_sub_byte/mxfp4"), lines("22_sub_byte/nvfp4")
    assert nv and all("scale_code" in line for line in nv)
    assert any("tensor_scale" in line for line in mx) and any("magnitude" in line for line in mx)  # all of from_code
    assert "if MX:" not in mx + nv and not set(mx) & set(nv)


@needs_interpreter
def test_what_no_exercise_executes_is_left_to_none(monkeypatch):
    monkeypatch.setattr(executed, "executed", lambda exercise_id: frozenset())
    assert executed.others_lines("22_sub_byte/mxfp4") == frozenset()


def test_kernels_in_cuda_are_not_traced():
    assert executed.others_lines("07_elementwise_cuda/vector_add") == frozenset()
