"""`lab.explain`: what is counted is right, the advice names what differs and where, and each figure has a source."""

import re
from dataclasses import replace

import pytest

import labutils as lab
from grader.course.mutants import mutants
from grader.course.solutions import load_text, solution_text
from labutils import exercises
from labutils.check import figures
from labutils.check.figures import Code, Figures, Line
from labutils.gpu import device
from labutils.study import card, prediction, reference
from labutils.study.advice import next_step
from labutils.study.explain import explain

TRITON, CUDA = "06_elementwise_triton/vector_add", "09_shared_memory/transpose_padded"

CODE = Code("kernel", threads=256, registers=32, local=0, shared=0, load=16, tma=False, matrix=None)
COUNTS = {
    "launches": 1, "load_bytes": 8192, "store_bytes": 4096, "global_load_sectors": 256, "ideal_load_sectors": 256,
    "global_store_sectors": 128, "ideal_store_sectors": 128, "lanes": 3072, "lane_slots": 3072, "barriers": 8,
    "shared_load_wavefronts": 64, "ideal_shared_load_wavefronts": 64, "compulsory_read": 8192,
    "compulsory_written": 4096, "compulsory_bytes": 12288,
}  # fmt: skip
LINES = (
    Line(3, "x = a[i];", {"global_load_sectors": 256, "ideal_load_sectors": 256, "global_load_bytes": 8192}),
    Line(4, "y[i] = x;", {"global_store_sectors": 128, "ideal_store_sectors": 128, "lanes": 9, "lane_slots": 32}),
)
SPREAD = Line(4, "y[i] = x;", {"global_store_sectors": 1024, "ideal_store_sectors": 128})
CONFLICTED = Line(7, "tile[t]", {"shared_load_wavefronts": 512, "ideal_shared_load_wavefronts": 64})
REFERENCE = Figures(TRITON, "n", COUNTS, (CODE,), LINES)


def changed(code: dict | None = None, lines: tuple = LINES, **counts) -> Figures:
    return replace(REFERENCE, counts=COUNTS | counts, code=(replace(CODE, **(code or {})),), lines=lines)


@pytest.mark.parametrize(
    "yours, said, line",
    [
        (changed({"local": 96}), "96 bytes in local memory", None),
        (changed(load_bytes=16384), "1.7 times the bytes", 3),
        (changed(global_store_sectors=1024, lines=(LINES[0], SPREAD)), "3.3 times the sectors", 4),
        (changed(shared_load_wavefronts=512, lines=(CONFLICTED,)), "448 of its 512 wavefronts", 7),
        (changed({"load": 4}), "at most 4 bytes at a time", None),
        (changed(launches=3), "launches 3 kernels", None),
        (changed(lanes=1024), "33% of the lanes are active", 4),
        (changed(barriers=80), "80 barriers", None),
        (REFERENCE, "Nothing that is counted here is worse", None),
    ],
    ids=["spills", "bytes", "sectors", "conflicts", "width", "launches", "lanes", "barriers", "nothing"],
)  # fmt: skip
def test_the_advice_names_what_differs_and_the_line(yours, said, line):
    advice = next_step(yours, REFERENCE)
    assert said in advice.sentence
    assert (advice.line.number if advice.line else None) == line


def test_a_kernel_without_tensor_cores_hears_of_them():
    theirs = replace(REFERENCE, code=(replace(CODE, matrix="wgmma"),))
    assert "wgmma" in next_step(REFERENCE, theirs).sentence
    assert "Nothing" in next_step(theirs, theirs).sentence


def test_more_than_one_difference_gives_one_advice():
    assert "local memory" in next_step(changed({"local": 8}, launches=9, barriers=99), REFERENCE).sentence


# --- real kernels --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def solved(tmp_path_factory):
    return load_text(solution_text("06_elementwise_triton"), tmp_path_factory.mktemp("solved"))


def test_a_triton_solution_has_the_stored_figures(solved):
    pytest.importorskip("triton")
    shown = explain(TRITON, solved.vector_add)
    stored = reference.of(TRITON)
    assert shown.yours.counts == stored.counts
    assert shown.yours.counts["load_bytes"] == shown.yours.counts["compulsory_read"]
    assert [line.text for line in shown.yours.lines if line.counts.get("global_store_requests")]
    assert "Nothing" in shown.advice.sentence
    assert [row.how for row in shown.rows if not row.how] == []
    assert {row.name for row in shown.rows} >= {f"time on {name}" for name in prediction.GPUS}
    page = shown._repr_mimebundle_()
    assert page["text/plain"] == repr(shown) and page["text/html"].count("<tr>") == len(shown.rows) + 1
    assert "<img alt=" in page["text/html"]


@pytest.mark.compiler
def test_bank_conflicts_of_a_cuda_kernel_are_found_at_their_line(tmp_path):
    mutant = next(m for m in mutants(CUDA) if m.name == "no_padding")
    module = load_text(solution_text("09_shared_memory"), tmp_path, mutant.text)
    advice = explain(CUDA, module.transpose_padded).advice
    assert "Bank conflicts take" in advice.sentence
    assert "tile[threadIdx.x]" in advice.line.text


def test_a_wrong_kernel_has_no_card(capsys):
    def vector_add(x, y, out):
        pass

    assert lab.explain(TRITON, vector_add) is None
    assert "not right yet" in capsys.readouterr().out


def test_what_has_no_kernel_has_no_card(capsys):
    assert lab.explain("00_start/number_of_programs") is None
    assert lab.explain("00_start/nonsense") is None
    said = capsys.readouterr().out
    assert "has no kernel" in said and "did you mean" in said


# --- predictions ---------------------------------------------------------------------------------------------------


def test_a_prediction_is_bytes_over_the_bandwidth_that_a_copy_reaches():
    exercise, h200 = exercises.get(TRITON), device.find("H200")
    made = prediction.predict(exercise, reference.of(TRITON), h200)
    assert made.bound == "memory" and made.least == made.most
    assert made.least == pytest.approx(12 * exercise.bench["n"] / 4282e9, rel=1e-6)


def test_sectors_that_are_requested_again_make_a_span():
    exercise = exercises.get(TRITON)
    again = changed(global_load_sectors=1024)
    made = prediction.predict(exercise, again, device.find("T4"))
    assert made.most == pytest.approx(made.least * (1024 + 128) * 32 / 12288)
    assert " … " in str(made)


def test_tensor_cores_have_another_roof():
    exercise, h100 = exercises.get("14_matmul_triton/matmul_relu"), device.find("H100 SXM")
    stored = reference.of(exercise.id)
    assert prediction.predict(exercise, stored, h100).bound == "compute"
    without = replace(stored, code=tuple(replace(code, matrix=None) for code in stored.code))
    assert prediction.predict(exercise, without, h100).least > 10 * prediction.predict(exercise, stored, h100).least


def test_every_kernel_exercise_has_figures_and_a_card_of_itself():
    for exercise in exercises.all_exercises().values():
        if isinstance(exercise, figures.KernelExercise):
            stored = reference.of(exercise.id)
            shown = repr(card.Card(exercise, stored, stored))
            assert "Nothing that is counted here is worse" in shown
            assert re.search(r"registers per thread +\d", shown), exercise.id


def test_figures_survive_json():
    assert Figures.from_json(REFERENCE.to_json()) == REFERENCE
