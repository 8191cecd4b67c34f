"""A missed count names the line and access that cost most, and which lanes explain it."""

import pytest

from grader.course.mutants import mutants
from grader.course.solutions import ROOT, load_text, module_text
from grader.course.sources import source_notebook
from labutils.check.evaluate import evaluate
from labutils.exercises import get

MISSED = [
    ("02_execution_model/diverge", "by_thread", ["channel == 0", "branches diverge", "Lanes 0, 2, 4, 6"]),
    ("02_execution_model/diverge", "both_selected", ["sqrtf(1.0f + v * v)", "each side of the branch"]),
    ("07_elementwise_cuda/vector_add", "side_by_side", ["load of x", "16 sectors per request", "16 bytes apart"]),
    ("07_elementwise_cuda/row_scale", "step_of_a_block", ["stored more than once", "the step and the end of line"]),
    ("08_coalescing/transpose", "direct_store", ["store to out", "32 sectors", "1,024 bytes apart"]),
    ("09_shared_memory/transpose_padded", "padded_by_two", ["load of tile", "2 wavefronts", "66 mod 32 = 2"]),
    ("09_shared_memory/conv1d", "all_from_global", ["load of x", "requests"]),
    ("10_warp_reduction/sum_v5", "all_barriers", ["__syncthreads()", "in the loop of line"]),
    ("10_warp_reduction/sum_v6", "atomic_for_each_warp", ["256 atomics on out", "one lane"]),
    ("10_warp_reduction/sum_v6", "scalar_loads", ["4 bytes per lane", "4 neighboring elements"]),
    ("11_softmax/softmax", "loads_twice", ["tl.load", "60,000 bytes"]),
]


def verdict(exercise_id, name, folder, explain=True):
    task = get(exercise_id)
    (mutant,) = [m for m in mutants(exercise_id) if m.name == name]
    solution = module_text(source_notebook(ROOT / "solutions" / task.unit))
    texts = (solution, mutant.text) if mutant.language == "cuda" else (mutant.text, "")
    return evaluate(task, getattr(load_text(texts[0], folder, kernels=texts[1]), task.entry), explain=explain)


@pytest.mark.parametrize("exercise_id, name, words", MISSED)
def test_the_access_that_costs_most_is_named(exercise_id, name, words, tmp_path):
    found = verdict(exercise_id, name, tmp_path)
    assert found.passed and found.marks < found.points
    said = " ".join(found.reasons.values())
    assert all(word in said for word in [*words, "Try: "] + ["ine "]), said
    assert all(why in "\n".join(found.notes) for why in found.reasons.values())


def test_nothing_is_looked_for_without_a_learner_or_a_missed_bound(tmp_path):
    assert not verdict("09_shared_memory/transpose_padded", "padded_by_two", tmp_path, explain=False).reasons
