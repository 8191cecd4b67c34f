"""Unit 25: the stored reports, timelines and listings; what the references make of them; wide accesses in SASS."""

import json
from collections import Counter

import pytest

from grader.course.mutants import ACCEPTED, answer, mutants
from labutils import exercises
from labutils.cuda import cubin, nvrtc
from labutils.cuda.kernel import Module
from labutils.cuda.signature import signatures
from labutils.exercises import _reports, profile_diagnose, profile_gaps, profile_sass

SEEDS = range(1, 120)

# --- reports ----------------------------------------------------------------------------------------------------------


def test_each_report_shows_the_bottleneck_that_its_kernel_was_built_to_have():
    wrong = [r["name"] for r in _reports.reports() if _reports.diagnose(r["metrics"]) != r["bottleneck"]]
    assert not wrong


def test_no_value_lies_so_near_its_limit_that_rounding_decides():
    """A learner who writes <= for < gets the same names."""
    for report in _reports.reports():
        metrics = report["metrics"]
        near = {k: v * (1 + 1e-6) for k, v in metrics.items()}
        assert _reports.diagnose(near) == _reports.diagnose(metrics)


def test_drawn_reports_have_every_bottleneck():
    found = Counter(_reports.diagnose(profile_diagnose.drawn_report(seed)) for seed in range(1, 1000))
    assert set(found) == set(_reports.EVIDENCE) and min(found.values()) > 30


def test_each_confusion_of_a_stored_report_names_a_metric():
    examine = exercises.get("25_profile/diagnose").examine
    for report in _reports.reports():
        for wrong in set(_reports.EVIDENCE) - {report["bottleneck"]}:
            problem, advice = examine({}, {"report": report["metrics"]}, wrong)
            assert repr(wrong) in problem and repr(report["bottleneck"]) in problem
            assert advice.startswith(("A metric rules out", "Both rows")) and any(c.isdigit() for c in advice)


@pytest.mark.parametrize("wrong", [None, 3, "slow", ["spills"]])
def test_what_is_no_bottleneck_is_refused(wrong):
    report = _reports.reports()[0]["metrics"]
    problem, advice = exercises.get("25_profile/diagnose").examine({}, {"report": report}, wrong)
    assert str(wrong) in problem and "launch-bound" in advice


# --- timelines --------------------------------------------------------------------------------------------------------


def test_gaps_add_up_to_the_time_without_a_kernel():
    for seed in SEEDS:
        timeline = profile_gaps.drawn_timeline(seed)
        idle = sum(end - begin for begin, end, _ in profile_gaps.idle_gaps(timeline))
        assert sum(profile_gaps.account(timeline).values()) == pytest.approx(idle)


@pytest.mark.parametrize("number", range(len(profile_gaps.MISTAKES)))
def test_each_mistake_shows_in_the_public_programs_and_is_explained(number):
    steps, sentence = profile_gaps.MISTAKES[number]
    exercise = exercises.get("25_profile/gaps")
    shown = 0
    for case in exercise.cases[-2:]:
        arguments = exercise.arguments(case)
        wrong = profile_gaps.account(arguments["timeline"], **steps)
        problem = exercise.examine(case.sizes, arguments, wrong)
        shown += problem is not None and problem[1] == sentence
    assert shown


def test_what_is_no_dict_of_four_numbers_is_refused():
    exercise = exercises.get("25_profile/gaps")
    arguments = exercise.arguments(exercise.cases[0])
    right = profile_gaps.account(arguments["timeline"])
    for wrong in (None, 3.0, [1, 2, 3, 4], {"copy": 1.0}, right | {"idle": 2.0}, right | {"copy": "x"}):
        assert "dict with the keys" in exercise.examine({}, arguments, wrong)[1]


def test_stored_timelines_have_kernels_whose_calls_are_there():
    for name, timeline in profile_gaps.stored().items():
        kernels, calls = profile_gaps.of(timeline, "kernel"), profile_gaps.of(timeline, "host")
        assert len(kernels) > 1, name
        assert {k[4] for k in kernels} <= {c[4] for c in calls}, name


# --- listings ---------------------------------------------------------------------------------------------------------


def instructions(text: str) -> list[cubin.Instruction]:
    return [cubin.Instruction(line.partition("*/ ")[2].removesuffix(" ;"), None) for line in text.splitlines()]


@pytest.mark.parametrize("text", [*profile_sass.listings().values(), *map(profile_sass.drawn_listing, SEEDS)])
def test_the_reference_agrees_with_lab_inspect(text):
    code = instructions(text)
    width, matrix, local = profile_sass.read(text)
    assert width == (cubin.access_width(code) or 0)
    assert matrix == cubin.matrix_instruction(code)
    assert local == sum(i.opcode.split(".")[0] in ("LDL", "STL") for i in code)


def test_listings_differ_in_what_is_asked():
    found = [profile_sass.read(text) for text in profile_sass.listings().values()]
    assert {width for width, *_ in found} == {0, 1, 2, 4, 8, 16}
    assert {matrix for _, matrix, _ in found} == {None, "mma.sync", "wgmma"}
    assert any(local for *_, local in found)


def test_every_wrong_width_has_a_sentence_of_its_own():
    exercise = exercises.get("25_profile/read_sass")
    text = profile_sass.drawn_listing(5)
    right = profile_sass.read(text)
    assert exercise.examine({}, {"text": text}, right) is None
    assert "divide it by 8" in exercise.examine({}, {"text": text}, (8 * right[0], *right[1:]))[1]


# --- wide accesses ----------------------------------------------------------------------------------------------------


def compiled(text: str, target: int) -> list[cubin.Instruction]:
    done = Module(text, signatures(text))["brighten_kernel"].compiled(target)
    return cubin.sass(done.cubin)[done.lowered["brighten_kernel"]]


@pytest.mark.skipif(not nvrtc.available(), reason="needs NVRTC (pip install nvidia-cuda-nvrtc)")
@pytest.mark.parametrize("target", [80, 90])
def test_points_for_counted_bytes_are_points_for_128_bit_accesses(target):
    """The judge counts bytes per request. The compiler's code shows LDG.128 and STG.128 in the same variants."""
    assert cubin.access_width(compiled(answer("25_profile/brighten"), target)) == 16
    for mutant in mutants("25_profile/brighten"):
        if mutant.expect == ACCEPTED:
            code = compiled(mutant.text, target)
            wide = sum(cubin.access_width(code, opcode) == 16 for opcode in ("LDG", "STG"))
            assert wide == (2 if mutant.marks is None else mutant.marks - 1), mutant.name


def test_stored_files_name_what_made_them():
    for path in (_reports.STORED, profile_gaps.STORED):
        assert "H200" in json.loads(path.read_text(encoding="utf-8"))["machine"]
