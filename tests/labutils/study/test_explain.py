"""`lab.explain`: what is counted is right, the advice names what differs and where, and each figure has a source."""

import json
import re
import resource
import sys
import time
from dataclasses import replace

import pytest

import labutils as lab
from grader.course.mutants import mutants
from grader.course.solutions import load_text, solution_text
from labutils import exercises
from labutils.check import checked
from labutils.check.evaluate import evaluate
from labutils.check.figures import Code, Figures, Line
from labutils.check.planned import Step, Work
from labutils.cuda import pipes
from labutils.gpu import device
from labutils.lessons import hardware
from labutils.spec.exercise import KernelExercise
from labutils.study import card, prediction, reference
from labutils.study.advice import next_step
from labutils.study.explain import explain, offer

TRITON, CUDA = "06_elementwise_triton/vector_add", "09_shared_memory/transpose_padded"

PARTS = pipes.Schedule(pipes.Part(busy=40, load=16), pipes.Part(), flight=64, copies=False)
CODE = Code("kernel", schedule=PARTS, threads=256, registers=32, local=0, shared=0, load=16, tma=False, matrix=None)
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
READS = Line(7, "tile[t]", {"shared_load_wavefronts": 512, "ideal_shared_load_wavefronts": 512})
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
        (changed(shared_load_wavefronts=512, ideal_shared_load_wavefronts=512, lines=(READS,)), "8 times the wavef", 7),
        (changed({"load": 4}), "at most 4 bytes at a time", None),
        (changed({"schedule": replace(PARTS, flight=16)}), "at most 16 bytes of loads in flight", None),
        (changed(launches=3), "launches 3 kernels", None),
        (changed(lanes=1024), "33% of the lanes are active", 4),
        (changed(barriers=80), "80 barriers", None),
        (REFERENCE, "Nothing that is counted here is worse", None),
    ],
    ids=[
        "spills", "bytes", "sectors", "conflicts", "shared", "width", "flight", "launches", "lanes", "barriers",
        "nothing",
    ],
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


@pytest.mark.compiler
def test_a_kernel_that_fails_only_other_cases_has_no_card(tmp_path, capsys, monkeypatch):
    solution = solution_text("09_shared_memory")
    wrong = solution.replace(
        "threadIdx.x + MAX_RADIUS - radius;", "threadIdx.x;"
    )  # right where the radius is the largest, as in the case
    assert wrong != solution
    fn = load_text(wrong, tmp_path).conv1d
    assert lab.explain("09_shared_memory/conv1d", fn) is None
    assert re.search(r"not right yet.*: \d of \d+ cases fail\. Run lab\.check", capsys.readouterr().out)
    monkeypatch.setattr(checked, "evaluate", lambda *_, **__: pytest.fail("the outcome is known"))
    assert lab.explain("09_shared_memory/conv1d", fn) is None


def test_what_has_no_kernel_has_no_card(capsys):
    assert lab.explain("00_start/number_of_programs") is None
    assert lab.explain("00_start/nonsense") is None
    said = capsys.readouterr().out
    assert "has no kernel" in said and "did you mean" in said


# --- predictions ---------------------------------------------------------------------------------------------------

BENCH = dict(exercises.get(TRITON).bench)
STEP = Step(0, 1, BENCH["n"] // 1024, 256, (4 * BENCH["n"],) * 2, (4 * BENCH["n"],), sectors=12 * BENCH["n"] // 32)
"""vector_add at the benchmark's size."""


def predicted(gpu: str = "H200", code: dict | None = None, **step) -> prediction.Prediction:
    shown = replace(changed(code), work=(Work(BENCH, (replace(STEP, **step),)),))
    return prediction.predict(exercises.get(TRITON), shown, device.find(gpu))


def test_long_copies_are_predicted_as_measured():
    # docs/measured.md: an addition of 2**27 floats takes 371 µs on an H200
    made = predicted()
    assert made.bound == "memory"
    assert made.seconds == pytest.approx(371e-6, rel=0.05)
    assert str(made).endswith("µs")


@pytest.mark.parametrize("row", json.loads(hardware.STORED.read_text())["occupancy"], ids=str)
def test_bytes_in_flight_bound_the_bandwidth_as_in_the_stored_copies(row):
    n = 2**27
    schedule = replace(PARTS, flight=16 * row["loads"])
    blocks = n // (4 * 256 * row["loads"])
    shared = int(228 * 1024 / (8 * row["occupancy"])) - 1024 if row["occupancy"] < 1 else 0
    step = Step(0, 1, blocks, 256, (4 * n,), (4 * n,), sectors=n // 4)
    shown = replace(changed({"schedule": schedule, "shared": shared}), work=(Work({"n": n}, (step,)),))
    made = prediction.predict(exercises.get("00_start/scale_cuda"), shown, device.find("H200"), {"n": n})
    assert 8e-9 * n / (made.seconds - prediction.LAUNCH_S) == pytest.approx(row["gbs"], rel=0.15)


def test_each_part_that_needs_more_time_makes_it_longer():
    plain = predicted().seconds
    assert predicted(sectors=9 * STEP.sectors).bound == "l2"
    assert predicted(wavefronts=10**9).bound == "shared"
    assert predicted(code={"schedule": replace(PARTS, once=replace(PARTS.once, busy=4000))}).bound == "issue"
    assert predicted(code={"schedule": replace(PARTS, flight=4)}).bound == "flight"
    assert predicted(launches=100).parts["launch"] == pytest.approx(prediction.LAUNCH_S + 99 * prediction.NEXT_S)
    again = predicted(blocks=1024, again=4 * BENCH["n"])
    assert again.parts["memory"] > 1.2 * predicted(blocks=1024).parts["memory"]
    assert predicted(blocks=STEP.blocks, again=4 * BENCH["n"]).seconds == pytest.approx(plain, rel=0.05)  # L2 hits


def test_a_few_blocks_leave_most_of_the_gpu_idle_unless_their_number_depends_on_it():
    # docs/measured.md: the 64 blocks of fix_sum take 3.13 ms on an H200, and a kernel that fills it 241 µs
    h200 = device.find("H200")
    for name, seconds in (("09_debugging/fix_sum", 3.13e-3), ("10_warp_reduction/sum_v6", 241e-6)):
        made = prediction.predict(exercises.get(name), reference.of(name), h200)
        assert made.seconds == pytest.approx(seconds, rel=0.15)
    few = [predicted(blocks=blocks, sectors=STEP.sectors) for blocks in (8, 16)]
    assert few[0].seconds == pytest.approx(2 * few[1].seconds, rel=0.05)
    assert few[0].parts["l2"] == pytest.approx(132 / 8 * predicted().parts["l2"])
    assert predicted(blocks=8, asked=True).seconds == pytest.approx(predicted().seconds, rel=0.1)


def test_a_store_of_part_of_a_sector_takes_the_l2_longer_and_memory_reads_the_rest():
    partial = predicted(partial=STEP.written // 32)
    assert partial.parts["memory"] == pytest.approx(predicted(reads=(4 * BENCH["n"],) * 3).parts["memory"])
    assert partial.parts["l2"] == pytest.approx(2 * predicted().parts["l2"])


def test_a_gpu_starts_so_many_blocks_in_a_cycle():
    made = predicted("H100 SXM", blocks=1 << 21, threads=32)
    assert made.bound == "dispatch" and made.seconds == pytest.approx(1.26e-3, rel=0.05)


def test_without_a_plan_sectors_that_are_requested_again_come_from_memory():
    exercise = exercises.get(TRITON)
    plain = prediction.predict(exercise, REFERENCE, device.find("T4")).parts["memory"]
    again = prediction.predict(exercise, changed(global_load_sectors=1024), device.find("T4")).parts["memory"]
    assert again == pytest.approx(plain * (1024 + 128) * 32 / 12288)


def test_loops_run_as_often_as_their_barriers_or_bytes_say():
    loop = pipes.Part(busy=10, load=4, barriers=1)
    code = replace(CODE, schedule=replace(PARTS, once=pipes.Part(barriers=1), loop=loop))
    assert prediction.iterations(replace(STEP, blocks=10, barriers=90), code) == 8
    assert prediction.iterations(replace(STEP, blocks=10, threads=32, reads=(10 * 32 * 64,)), code) == 16


def test_tensor_cores_have_another_roof():
    exercise, h100 = exercises.get("14_matmul_triton/matmul_relu"), device.find("H100 SXM")
    stored = reference.of(exercise.id)
    assert prediction.predict(exercise, stored, h100).bound == "compute"
    without = replace(stored, code=tuple(replace(code, matrix=None) for code in stored.code))
    assert prediction.predict(exercise, without, h100).seconds > 10 * prediction.predict(exercise, stored, h100).seconds


@pytest.mark.parametrize(
    "kernel, heads, length, size, causal, tflops",
    [
        ("17_flash_attention/flash", 128, 4096, 128, 0, 542),
        ("17_flash_attention/flash", 32, 16384, 128, 1, 519),
        ("17_flash_attention/flash", 128, 3968, 128, 1, 492),
        ("17_flash_attention/flash", 128, 4096, 64, 0, 455),
        ("17_flash_attention/flash", 32, 16384, 64, 1, 448),
        ("20_flash_cuda/tensor", 128, 4096, 64, 0, 328),
    ],
)
def test_attention_takes_as_long_as_measured_on_an_h200(kernel, heads, length, size, causal, tflops):
    # docs/measured.md, "Attention", as papers count FLOPs
    sizes = {"H": heads, "HK": heads, "M": length, "N": length, "D": size, "causal": causal}
    made = prediction.predict(exercises.get(kernel), reference.of(kernel), device.find("H200"), sizes)
    papers = 4 * heads * length**2 * size / (2 if causal else 1)
    assert made.seconds == pytest.approx(papers / (1e12 * tflops), rel=0.17 if kernel.startswith("20") else 0.11)
    assert made.parts["exponentials"] > 0.2 * made.parts["compute"]


def test_matmuls_reach_the_rate_of_measured_ones():
    # docs/measured.md: 744 TFLOP/s at 8192 on an H200
    name, sizes = "14_matmul_triton_persistent/persistent", {"M": 8192, "N": 8192, "K": 8192, "relu": 0}
    made = prediction.predict(exercises.get(name), reference.of(name), device.find("H200"), sizes)
    assert made.seconds == pytest.approx(2 * 8192**3 / 744e12, rel=0.03) and "exponentials" not in made.parts


def test_every_kernel_exercise_has_figures_and_a_card_of_itself():
    for exercise in exercises.all_exercises().values():
        if isinstance(exercise, KernelExercise):
            stored = reference.of(exercise.id)
            shown = repr(card.Card(exercise, stored, stored))
            assert "Nothing that is counted here is worse" in shown
            assert re.search(r"registers per thread +\d", shown), exercise.id


def test_figures_survive_json():
    whole = replace(REFERENCE, work=(Work(BENCH, (STEP,)),))
    assert Figures.from_json(json.loads(json.dumps(whole.to_json()))) == whole


# --- every exercise ------------------------------------------------------------------------------------------------

SAMPLE = ("02_execution_model/mirror", "10_scan/compact", "12_online_softmax/split_softmax")
KERNELS = [e.id for e in exercises.all_exercises().values() if isinstance(e, KernelExercise)]
LIMIT_S = 3.0


@pytest.mark.compiler
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in SAMPLE else pytest.mark.slow) for name in KERNELS]
)
def test_a_card_of_every_solution_without_a_gpu(name, tmp_path, record_property):
    exercise = exercises.get(name)
    fn = getattr(load_text(solution_text(exercise.unit), tmp_path), exercise.entry)
    checked.verdict(exercise, fn)
    before, begin = cpu_seconds(), time.perf_counter()
    shown = explain(name, fn)
    page = shown.to_html()
    wall, cpu = time.perf_counter() - begin, cpu_seconds() - before
    record_property("seconds", round(wall, 2))
    print(f"{name}: {wall:.2f} s, {cpu:.2f} s of CPU time")
    assert not shown.yours.notes and shown.yours.work
    assert "<img alt=" in page and "Nothing that is counted" in shown.advice.sentence
    assert {row.name for row in shown.rows} >= {f"time on {gpu}" for gpu in prediction.GPUS}
    assert min(wall, cpu) < 2 * LIMIT_S  # a busy machine takes longer than the 3 s of an idle one


def cpu_seconds() -> float:
    """Of this process and of those that it waited for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in used)


# --- the folded card -----------------------------------------------------------------------------------------------


def test_a_passed_check_offers_the_card_as_a_line_or_folded(solved, monkeypatch):
    verdict = evaluate(exercises.get(TRITON), solved.vector_add)
    line = offer(exercises.get(TRITON), verdict)
    assert line.startswith(f'lab.explain("{TRITON}")')
    monkeypatch.setattr(sys.modules["labutils.study.explain"], "live", lambda: True)
    folded = offer(exercises.get(TRITON), verdict)
    assert folded._repr_mimebundle_()["text/plain"] == line
    view = folded.widget()
    assert view.selected_index is None and "One moment" in view.children[0].value
    monkeypatch.setattr(folded, "_card", lambda: "<p>card</p>")
    view.selected_index = 0
    assert view.children[0].value == "<p>card</p>"
