"""Unit 24, capstone: the float64 block beside PyTorch's, its mistakes and error model; what a work log must have."""

import pytest
import torch

from labutils.exercises import _partitions, block_capstone, block_work_log, get
from labutils.gpu import kernel_graph
from labutils.lessons import blocks
from labutils.spec.inputs import make_run

BLOCK = get("24_capstone/block")


def inputs(case=2, seed=3):
    return make_run(BLOCK, BLOCK.cases[case], seed).inputs()


@pytest.mark.parametrize("case", range(len(BLOCK.cases)))
def test_the_reference_is_pytorchs_block(case):
    data = {name: value.double() for name, value in inputs(case).items()}
    torch.testing.assert_close(block_capstone.block(**data), block_capstone.library(**data), rtol=1e-6, atol=1e-6)


def test_every_mistake_is_more_than_the_error_model_allows():
    data = inputs()
    right, sizes = block_capstone.block(**data), BLOCK.cases[2].sizes
    limit = BLOCK.contract.tolerance(right, block_capstone.magnitude(**data), sizes, "float16")
    for mistake in BLOCK.known_mistakes:
        assert ((mistake.compute(**data) - right).abs() > limit).any(), mistake.sentence


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_a_block_that_rounds_every_result_is_within_the_error_model(dtype):
    kind, case = getattr(torch, dtype), 5 if dtype == "bfloat16" else 2
    data = inputs(case)
    right = block_capstone.block(**data)
    rounded = block_capstone.block(**data, between=lambda name, value: value.to(kind).double()).to(kind).double()
    limit = BLOCK.contract.tolerance(right, block_capstone.magnitude(**data), BLOCK.cases[case].sizes, dtype)
    assert ((rounded - right).abs() <= limit).all()


def test_the_bound_is_what_the_plan_stores():
    """Rows of the results that leave a kernel in the partition with the fewest bytes, and the factors."""
    nodes = blocks.graph()
    stored = 0
    for kernel in _partitions.best(nodes):
        for name in kernel:
            readers = kernel_graph.readers(nodes, name)
            if not readers or any(r not in kernel for r in readers):
                stored += nodes[name]["bytes"]
    sizes = block_capstone.sizes_of(**block_capstone.LLAMA)
    assert 32 * block_capstone.stored_sectors(sizes) == stored + 64 * sizes["S"]


ENTRY = {"change": "one two three", "before": 10.0, "predicted": 8.0, "measured": 9.0, "kept": False}


def test_a_log_is_complete():
    log = [ENTRY | {"change": f"change number {k}"} for k in range(block_work_log.LEAST)]
    assert block_work_log.problem(log) is None
    assert block_work_log.problem([entry | {"change": f"分块加大{k}"} for k, entry in enumerate(log)]) is None
    assert "entries" in block_work_log.problem(log[:-1])[0]


def test_a_change_that_was_not_kept_is_no_version_to_start_from():
    log = [ENTRY | {"change": f"change number {k}"} for k in range(block_work_log.LEAST)]
    log[2]["before"] = 9.0  # within the noise of the first version's 10
    symptom, advice = block_work_log.problem(log)
    assert "entry 3 starts from 9" in symptom and "here 10" in advice
    log[1]["kept"] = True
    assert "entry 4" in block_work_log.problem([*log[:3], log[3] | {"before": 20.0}])[0]


@pytest.mark.parametrize("value", [0, -1.0, True, "9", None, float("inf"), float("nan")])
def test_a_time_is_a_positive_number(value):
    symptom, advice = block_work_log.problem([ENTRY | {"measured": value}])
    assert "measured" in symptom and "positive" in advice
