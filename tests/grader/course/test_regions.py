"""Only well-formed regions are accepted: whatever else resembles a marker stops the build."""

import pytest

from grader.course.regions import BuildError, find_regions, looks_like_marker, outside

ANSWER = "def f(x):\n    ### BEGIN SOLUTION\n    # why\n\n    return x + 1\n    ### END SOLUTION"


def test_a_region_is_found_with_its_lines():
    (region,) = find_regions(ANSWER)
    assert (region.kind, region.begin, region.end) == ("SOLUTION", 1, 5)
    assert region.code_lines() == ["return x + 1"]
    assert outside(ANSWER, [region]) == "def f(x):"


def test_regions_may_follow_each_other_and_stand_in_cuda():
    text = "// ### BEGIN SOLUTION\nx;\n// ### END SOLUTION\ny;\n### BEGIN HIDDEN TESTS\n### END HIDDEN TESTS"
    assert [region.kind for region in find_regions(text)] == ["SOLUTION", "HIDDEN TESTS"]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("### BEGIN SOLUTION\nx = 1", "BEGIN SOLUTION on line 1 has no END"),
        ("x = 1\n### END SOLUTION", "END SOLUTION on line 2 has no BEGIN"),
        ("### BEGIN SOLUTION\n### BEGIN SOLUTION\n### END SOLUTION", "stands inside the region"),
        ("### BEGIN SOLUTION\n### BEGIN HIDDEN TESTS\n### END HIDDEN TESTS", "stands inside the region"),
        ("### BEGIN SOLUTION\nx = 1\n### END HIDDEN TESTS", "does not end the region"),
    ],
)
def test_regions_that_are_open_or_nested_are_refused(text, sentence):
    with pytest.raises(BuildError, match=sentence):
        find_regions(text)


@pytest.mark.parametrize(
    "line",
    [
        "#BEGIN SOLUTION",
        "# BEGIN SOLUTION",
        "### Begin Solution",
        "###  BEGIN SOLUTION",
        "### BEGIN  SOLUTION",
        "###BEGIN SOLUTION",
        "### BEGIN_SOLUTION",
        "### BEGIN SOLUTIONS",
        "### BEGIN SOLUTON",
        "### end solution",
        "x = 1  ### BEGIN SOLUTION",
        "x = 1  # begin solution",
        "print('BEGIN SOLUTION')",
        "// BEGIN SOLUTION",
        "//### BEGIN SOLUTION",
        "# begin hidden-tests",
        "### BEGIN HIDDEN TEST",
        "=== BEGIN MARK SCHEME ===",
        "### END MARKING SCHEME",
    ],
)
def test_a_misspelt_marker_is_refused(line):
    with pytest.raises(BuildError, match="looks like a marker"):
        find_regions(f"a = 1\n{line}\nb = 2")


@pytest.mark.parametrize(
    "line", ["### Begin with a sketch", "The end. Solutions are below.", "In the end, solutions differ."]
)
def test_prose_is_no_marker(line):
    assert not looks_like_marker(line, code=False)
