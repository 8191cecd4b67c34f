"""`python -m grader mutate`: scores, holes, and that a mutation the check lets pass is told."""

import argparse
import json

import pytest

from grader.commands import audit, mutate
from grader.course.mutations import Mutation, mutations

VECTOR_ADD = "06_elementwise_triton/vector_add"


def test_small_mistakes_in_vector_add_are_refused():
    scores = mutate.mutate([VECTOR_ADD], jobs=1, sample=6)
    score = scores[VECTOR_ADD]
    assert 4 <= score.tried <= 6
    assert score.holes == [] and score.rate == 1.0


def test_only_kernels_are_chosen():
    assert VECTOR_ADD in mutate.kernels([])
    assert "04_roofline/machine_balance" not in mutate.kernels([])
    with pytest.raises(KeyError):
        mutate.kernels(["06_elementwise_triton/nothing"])


def stub(monkeypatch, kind: str) -> None:
    """Every trial comes to `kind`, without being run."""
    monkeypatch.setattr(
        mutate, "run_trials", lambda trials, quick, jobs: (audit.Attempt(t, kind, "why", 0.1) for t in trials)
    )


def test_what_is_accepted_is_a_hole(monkeypatch, capsys, tmp_path):
    stub(monkeypatch, audit.ACCEPTED)
    options = argparse.Namespace(exercises=[VECTOR_ADD], jobs=1, sample=None, json=tmp_path / "out.jsonl")
    assert mutate.main(options) == 1
    printed = capsys.readouterr().out
    assert "hole: 06_elementwise_triton/vector_add" in printed and "0 of" in printed
    rows = [json.loads(line) for line in options.json.read_text().splitlines()]
    assert len(rows) == len(mutations(VECTOR_ADD)) and rows[0]["kind"] == "accepted"


def test_what_a_person_called_equivalent_is_none(monkeypatch):
    stub(monkeypatch, audit.ACCEPTED)
    known = {(VECTOR_ADD, m.line, m.becomes): "Why." for m in mutations(VECTOR_ADD)}
    monkeypatch.setattr(mutate, "equivalents", lambda unit: known)
    score = mutate.mutate([VECTOR_ADD])[VECTOR_ADD]
    assert score.holes == [] and score.equivalent == score.tried and score.rate == 1.0


def test_mutations_of_what_only_another_exercise_executes_are_left_out(monkeypatch):
    stub(monkeypatch, audit.REFUSED)
    found = mutations(VECTOR_ADD)
    others = {found[0].number}
    monkeypatch.setattr(mutate.executed, "others_lines", lambda exercise_id: others)
    score = mutate.mutate([VECTOR_ADD])[VECTOR_ADD]
    assert 0 < score.tried == sum(m.number not in others for m in found) < len(found)


def test_fewer_points_are_as_good_as_a_refusal():
    score, mutation = mutate.Score(), Mutation(VECTOR_ADD, "", "", "", "", "python")
    score.add(mutation, "2 marks", known=False)
    score.add(mutation, "accepted", known=False)
    assert (score.refused, len(score.holes), score.rate) == (1, 1, 0.5)
