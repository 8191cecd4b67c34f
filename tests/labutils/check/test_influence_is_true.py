"""Every sentence about influence holds when it is worked out by brute force, for random wrong index maps."""

import random
import re

import pytest
import torch

from labutils.check import influence
from labutils.check.compare import Comparison
from labutils.spec.exercise import Case, Contract, array, out
from tests.labutils.check.small_exercises import small

SHAPES = [(7,), (600,), (5, 6), (9, 40)]


def index_map(rng: random.Random, count: int, size: int, terms: int) -> torch.Tensor:
    """For each output the numbers of the input's elements that are added up."""
    own = torch.arange(count)[:, None] * size // count
    return (own + torch.arange(terms) * rng.choice([1, 3, size // 2 + 1])) % size


def wrong_map(rng: random.Random, right: torch.Tensor, size: int, shape: tuple[int, ...]) -> torch.Tensor:
    """The same with a mistake as kernels make them: a shift, a stride, a transposition, one block for all, a cut."""
    k, numbers = rng.randrange(6), torch.arange(size)
    if k == 0:
        return (right + rng.randrange(1, size)) % size
    if k == 1:
        return right * rng.randrange(2, 5) % size
    if k == 2 and len(shape) == 2:
        return numbers.reshape(shape).T.flatten()[right]
    if k == 3:
        return right % max(2, size // rng.randrange(2, 5))
    if k == 4:
        first = rng.randrange(size)
        return torch.where(right >= first, numbers[torch.randperm(size)][right], right)
    return right[:, : max(1, right.shape[1] // 2)]


def elements(text: str, shape: tuple[int, ...]) -> set[int]:
    """The row-major numbers that a description such as `x[2, 3:]` names; with "and 3 more" the first only."""
    numbers = torch.arange(torch.Size(shape).numel()).reshape(shape)
    if text.startswith("all of"):
        return set(numbers.flatten().tolist())
    index = re.match(r"x\[([^\]]*)\]", text)[1]
    parts = [slice(*(int(x) if x else None for x in p.split(":"))) if ":" in p else int(p) for p in index.split(", ")]
    return set(numbers[tuple(parts)].flatten().tolist())


SENTENCES = [
    (r"depends on (?P<has>.+?); it should depend on (?P<lacks>.+)", ""),
    (
        r"does not depend on (?P<lacks>.+?)(?:, only on (?P<only>.+?))?, although it should"
        r"(?:, and out\[(?P<reader>\d+)\] does)?",
        "",
    ),
    (r"depends on nothing in (?P<none>.+?), and should on some of it(?:, only on (?P<only>.+?))?", ""),
    (r"depends on (?P<has>.+?) too, which belongs to other results", ""),
]


def check(sentence: str, yours: torch.Tensor, right: torch.Tensor, shape: tuple[int, ...]) -> None:
    """Raise an AssertionError unless the sentence is true of these maps."""
    m = re.fullmatch(r"out\[(\d+)\] (.*?)(?: \(and (\d+) other elements? of out likewise\))?", sentence)
    at, text, others = int(m[1]), m[2], int(m[3] or 0)
    mine, wanted = set(yours[at].tolist()), set(right[at].tolist())
    found = next(f for pattern, _ in SENTENCES if (f := re.fullmatch(pattern, text))).groupdict()
    for kind, truth in (("has", mine - wanted), ("lacks", wanted - mine)):
        if text := found.get(kind):
            if text.startswith("some of "):
                assert elements(text.removeprefix("some of "), shape) & truth, kind
            else:
                named = elements(text, shape)
                assert named <= truth, kind
                assert "and others" not in text or truth - named, kind
    if reader := found.get("reader"):
        assert elements(found["lacks"], shape) <= set(yours[int(reader)].tolist())
    if text := found.get("only"):
        assert elements(text, shape) <= mine and (" more" in text or elements(text, shape) == mine)
    if text := found.get("none"):
        assert not elements(text, shape) & mine and elements(text, shape) & wanted
    wrong = sum(set(a) != set(b) for a, b in zip(yours.tolist(), right.tolist(), strict=True))
    assert others < wrong


def sentence_for(seed: int, shape: tuple[int, ...]) -> tuple[str, torch.Tensor, torch.Tensor] | None:
    rng, size = random.Random(seed), torch.Size(shape).numel()
    torch.manual_seed(seed)
    right = index_map(rng, rng.choice([5, size]), size, rng.choice([1, 1, 3, min(size // 2, 100)]))
    yours = wrong_map(rng, right, size, shape)
    dims = dict(zip("MN", shape, strict=False))
    exercise = small(
        "gather",
        "gather",
        arguments={"x": array(*dims), "out": out("R")},
        reference=lambda x: x.flatten()[right].sum(-1),
        magnitude=lambda x: x.abs().flatten()[right].sum(-1),
        contract=Contract(terms=lambda s: right.shape[1]),
        cases=(Case("one", {**dims, "R": len(right)}),),
    )

    def gather(x, out):
        out.copy_(x.flatten()[yours].sum(-1))

    study = influence.study(exercise, gather, exercise.cases[0], seed, 60.0)
    bad = Comparison(study.base).output("out").bad
    story = influence.story("out", study.moves["out"], bad, study)
    return (story.cause, yours, right) if story else None


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_every_sentence_is_true(shape):
    said = [found for seed in range(6) if (found := sentence_for(seed, shape))]
    for sentence, yours, right in said:
        check(sentence, yours, right, shape)
    assert len(said) >= 4, "most mistakes are seen"


def test_a_false_sentence_is_seen():
    yours, right = torch.tensor([[0], [0], [2]]), torch.tensor([[0], [1], [2]])
    check("out[1] depends on x[0]; it should depend on x[1]", yours, right, (3,))
    for wrong in (
        "x[0]; it should depend on x[2]",
        "x[0:2]; it should depend on x[1]",
        "x[0]; it should depend on x[1:]",
    ):
        with pytest.raises(AssertionError):
            check(f"out[1] depends on {wrong}", yours, right, (3,))
