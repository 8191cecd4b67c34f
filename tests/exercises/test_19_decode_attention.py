"""Unit 19: the references beside PyTorch's attention, lengths and tables that fit, slots and pages of the pictures."""

import random

import pytest
import torch

from labutils.check.compare import Comparison
from labutils.exercises import _decode as form
from labutils.exercises import get
from labutils.lessons import decoding, slots
from labutils.spec.exercise import Case
from labutils.spec.inputs import make_run


def arrays(B=3, H=6, HK=2, N=20, D=16, seed=0):
    g = torch.Generator().manual_seed(seed)
    q = torch.randn(B, H, D, generator=g, dtype=torch.float64)
    k, v = (torch.randn(B, HK, N, D, generator=g, dtype=torch.float64) for _ in range(2))
    return q, k, v, torch.tensor([20.0, 1.0, 13.0], dtype=torch.float64)


def test_decode_is_attention_of_one_query():
    q, k, v, lengths = arrays()
    torch.testing.assert_close(form.decode(q, k, v, lengths)["out"], form.library(q, k, v, lengths))


@pytest.mark.parametrize("chunk", [3, 7, 20, 32])
def test_parts_make_up_the_whole(chunk):
    q, k, v, lengths = arrays()
    p = form.parts(q, k, v, lengths, chunk, -(-20 // chunk))
    whole = (torch.softmax(p["lse"], -1)[..., None] * p["part"]).sum(2)
    torch.testing.assert_close(whole, form.decode(q, k, v, lengths)["out"])
    assert (p["lse"][1, :, 1:] == -torch.inf).all() and (p["part"][1, :, 1:] == 0).all()


@pytest.mark.parametrize("page", [1, 4, 5])
def test_a_cache_cut_into_pages_is_the_same_cache(page):
    q, k, v, lengths = arrays()
    k_pages, v_pages, table = decoding.cut(k, v, page, seed=3)
    assert sorted(table.flatten().tolist()) == list(range(3 * 20 // page))
    got = form.paged(q, k_pages, v_pages, table.double(), lengths)
    torch.testing.assert_close(got["out"], form.decode(q, k, v, lengths)["out"])


def test_tables_fit_the_lengths():
    rng, exercise = random.Random(3), get("19_decode_attention/paged")
    for case in [*exercise.cases, *(Case(f"drawn {i}", dict(exercise.draw(rng))) for i in range(20))]:
        run = make_run(exercise, case, 5)
        table, lengths, s = run.buffers["table"].view, run.buffers["lengths"].view, case.sizes
        assert lengths.min() >= 1 and lengths[0] == s["T"] * s["PAGE"] == lengths.max()
        used = (torch.arange(s["T"]) * s["PAGE"]) < lengths[:, None]
        assert (table[used] >= 0).all() and (table[used] < s["P"]).all() and (table[~used] == form.NOT_THERE).all()
        full = lengths >= s["PAGE"]
        assert (table[full, 0] == table[0, 0]).all(), "sequences that fill a page share the first"


@pytest.mark.parametrize("name", ["partial", "decode", "paged"])
def test_fp16_results_are_within_the_tolerance(name):
    """Weights as an honest kernel rounds them, with q scaled in its own type."""
    exercise = get(f"19_decode_attention/{name}")

    def rounded(q, k, v):
        stored = torch.bfloat16 if case.dtype == "bfloat16" else torch.float16
        group = len(q) // len(k)
        scaled = (q * q.shape[-1] ** -0.5).to(stored).double()
        s = scaled @ k.repeat_interleave(group, 0).mT
        p = torch.exp(s - s.amax(-1, keepdim=True))
        out = p.to(stored).double() @ v.repeat_interleave(group, 0) / p.sum(-1, keepdim=True)
        return {"out": out, "lse": torch.logsumexp(s, -1)}

    for case in exercise.cases:
        run = make_run(exercise, case, 3)
        for output, values in exercise.reference(**run.inputs(), of=rounded).items():
            if output in run.outputs:
                run.buffers[output].view.copy_(values)
        for output in run.outputs:
            assert not Comparison(run).output(output).bad.any(), (case.name, output)


def test_slots():
    tokens = [5, 1, 1, 1, 4]
    batches, flowing = slots.in_batches(tokens, 2), slots.continuous(tokens, 2)
    assert [len(s.steps) for s in batches] == [len(s.steps) for s in flowing] == tokens
    assert slots.steps_of(batches) == 5 + 1 + 4 and slots.steps_of(flowing) == 7
    assert slots.use_of_slots(flowing, 2) == 12 / 14
    for a in flowing:
        assert not any(set(a.steps) & set(b.steps) for b in flowing if b.slot == a.slot and b is not a)


def test_the_pictures_say_what_they_show(capsys):
    explorer = decoding.batching()
    assert "continuous" in explorer.figure().alt and "%" in explorer.figure().alt
    explorer.set(slots=2)
    assert explorer.figure().alt.startswith("2 slots")
    assert "free" in decoding.pages().alt
    ledgers = {n: get(f"19_decode_attention/{n}").reference for n in ("cache_bytes", "unused", "sequences")}
    decoding.room(**ledgers)
    assert "320 KiB per token; with 64 key heads 2560 KiB" in capsys.readouterr().out
    decoding.room(lambda *_: None, *list(ledgers.values())[1:])
    assert "not written yet" in capsys.readouterr().out
