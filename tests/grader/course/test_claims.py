"""Numbers with a source: what the build puts into a text, what it refuses, and that each number is what it prints."""

import pytest

from grader.course.claims import computed, printed, read_claims, unused, wrong_number
from grader.course.regions import BuildError
from grader.course.sources import ROOT, source_notebook
from tests.grader.sample import POINTS, SAMPLE, UNIT, released, run, write_unit

TEXT = SAMPLE.replace("# The launcher is given.", "# A miss of the L2 costs {claim: h200_hbm_latency}.")
LATENCY = """
[h200_hbm_latency]
value = "664 cycles"
number = 664
source = "measured, docs/measured.md"
gpu = "H200"
date = "2026-11"
"""
RIDGE = """
[h100_ridge]
value = "295 FLOP/byte"
number = 295.2
source = "NVIDIA H100 data sheet"
compute = "990e12 / claims.h100_bandwidth / 1e12"

[h100_bandwidth]
value = "3.35 TB/s"
number = 3.35
source = "NVIDIA H100 data sheet"
compute = "lab.device.find('H100 SXM').bandwidth_gbs / 1000"
"""


def course(root, claims=LATENCY, text=TEXT, unit=UNIT):
    write_unit(root, text, unit)
    (root / "solutions" / unit / "claims.toml").write_text(claims)
    return root


def test_the_build_prints_the_value(tmp_path):
    root = course(tmp_path)
    assert run(root) == []
    assert "A miss of the L2 costs 664 cycles." in released(root).read_text()
    assert run(root, check=True) == []
    (root / "solutions" / UNIT / "claims.toml").write_text(LATENCY.replace("664", "700"))
    (problem,) = run(root, check=True)
    assert "differs from its source" in problem


def test_a_claim_of_another_unit_is_found(tmp_path):
    root = write_unit(course(tmp_path), TEXT, "07_other")
    notebook = source_notebook(root / "solutions" / "07_other", POINTS)
    assert any("costs 664 cycles" in cell.source for cell in notebook.cells)


@pytest.mark.parametrize(
    ("claims", "problem"),
    [
        ("", "06_unit.py, cell 5: no unit's claims.toml has the claim 'h200_hbm_latency'"),
        (LATENCY.replace("source", "# source"), "06_unit/claims.toml: h200_hbm_latency has no source"),
        (
            LATENCY.replace('"measured, docs/measured.md"', '""'),
            "h200_hbm_latency needs one line of text as its source",
        ),
        (LATENCY.replace("gpu", "device"), "h200_hbm_latency has the unknown field device"),
        (LATENCY.replace('"2026-11"', '"last fall"'), "has the date 'last fall'; write YYYY-MM"),
        (LATENCY.replace("= 664", '= "664"'), "h200_hbm_latency needs a finite number as its number"),
        (LATENCY.replace("664 cycles", "some cycles"), "has a number, but its value prints none"),
        (LATENCY.replace("number = 664", 'compute = "664"'), "has compute, but no number to compare it with"),
        (LATENCY + 'compute = "2 *"', "has a compute that is no expression: invalid syntax"),
        (LATENCY + LATENCY, "06_unit/claims.toml: Cannot declare"),
        (LATENCY.replace("h200_", "H200-"), "the key 'H200-hbm_latency' must be lower-case"),
        (LATENCY + RIDGE, "06_unit/claims.toml: nothing uses h100_ridge; write {claim: h100_ridge} in a text cell"),
    ],
)
def test_a_wrong_claim_stops_the_build(tmp_path, claims, problem):
    (found,) = run(course(tmp_path, claims))
    assert problem in found


def test_a_key_has_one_unit(tmp_path):
    root = course(course(tmp_path), unit="07_other")
    problem = "07_other/claims.toml: h200_hbm_latency is a claim of 06_unit already"
    assert run(root) == [problem]
    assert run(root, units=[UNIT]) == [problem]


def test_claims_stand_in_text_only(tmp_path):
    (problem,) = run(
        course(tmp_path, text=TEXT.replace("bytes_moved = 3 * n * 4", 'print("{claim: h200_hbm_latency}")'))
    )
    assert problem == "06_unit.py, cell 3: a claim stands in a code cell; only text cells take claims"


def test_a_variable_may_be_called_claim(tmp_path):
    assert run(course(tmp_path, text=TEXT.replace("bytes_moved = 3 * n * 4", 'claim = 3\nprint(f"{claim:>9}")'))) == []


def test_only_the_built_units_must_use_their_claims(tmp_path):
    root = course(course(tmp_path), RIDGE, SAMPLE, "07_other")
    assert run(root, units=[UNIT]) == []
    (problem,) = run(root, units=["07_other"])
    assert "nothing uses h100_ridge" in problem  # h100_bandwidth is used: h100_ridge is computed from it


def test_numbers_are_computed_again(tmp_path):
    claims = read_claims(course(tmp_path, RIDGE) / "solutions")
    assert computed(claims["h100_bandwidth"], claims) == pytest.approx(3.35)
    assert [wrong_number(claim, claims) for claim in claims.values()] == [None, None]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (("295.2", "295.6"), "h100_ridge prints '295 FLOP/byte', but its number is 295.6"),
        (("990e12", "998e12"), "h100_ridge is 295.2, but compute gives 297.91"),
    ],
)
def test_a_wrong_number_is_found(tmp_path, change, problem):
    claims = read_claims(course(tmp_path, RIDGE.replace(*change)) / "solutions")
    assert problem in wrong_number(claims["h100_ridge"], claims)


@pytest.mark.parametrize(
    ("value", "number", "half"),
    [
        ("264 cycles", 264, 0.5),
        ("4.09 TB/s", 4.09, 0.005),
        ("65 536 registers", 65536, 0.5),
        ("1,979 TFLOP/s", 1979, 0.5),
        ("about 0.5 %", 0.5, 0.05),
        ("×13", 13, 0.5),
    ],
)
def test_the_printed_digits(value, number, half):
    assert printed(value) == pytest.approx((number, half))


COURSE = read_claims(ROOT / "solutions")


def test_every_claim_of_the_course_is_used():
    assert unused(ROOT / "solutions", COURSE) == []


@pytest.mark.parametrize("key", [key for key, claim in COURSE.items() if claim.number is not None])
def test_a_number_of_the_course_is_what_it_prints_and_computes(key):
    assert wrong_number(COURSE[key], COURSE) is None


def test_an_unreadable_file_is_named(tmp_path):
    with pytest.raises(BuildError, match=r"06_unit/claims.toml: "):
        read_claims(course(tmp_path, "[half") / "solutions")
