"""Unit 24: a search for kernels that stops too early is told what to merge."""

from labutils.exercises import get


def test_a_merge_is_proposed_for_kernels_of_one_node():
    exercise = get("24_block/partition")
    case = exercise.cases[0]
    nodes = exercise.arguments(case)["graph"]
    alone = [[name] for name, node in nodes.items() if node["kind"] != "input"]
    symptom, advice = exercise.examine(case.sizes, {"graph": nodes}, alone)
    assert "the partition can run" in symptom and "saves" in advice
