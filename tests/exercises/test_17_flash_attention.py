"""Units 17 and 18: the references beside PyTorch's own attention and its gradients; the steps of the picture."""

import random

import pytest
import torch

from labutils.check.compare import Comparison, mismatches
from labutils.check.known_mistakes import recognise
from labutils.exercises import _attention, get
from labutils.exercises._attention import attention as reference
from labutils.exercises._attention import magnitude
from labutils.exercises._flash_gradients import gradients
from labutils.exercises._flash_gradients import magnitude as magnitude_of_gradients
from labutils.exercises._flash_mistakes import TILE_N
from labutils.lessons import attention
from labutils.spec.exercise import Case
from labutils.spec.inputs import make_run

SDPA = torch.nn.functional.scaled_dot_product_attention


def arrays(*heads, M=13, N=13, D=16, seed=0):
    g = torch.Generator().manual_seed(seed)
    q, k = heads
    return [torch.randn(h, n, D, generator=g, dtype=torch.float64) for h, n in ((q, M), (k, N), (k, N), (q, M))]


@pytest.mark.parametrize("causal", [False, True])
def test_reference_is_attention(causal):
    q, k, v, _ = arrays(6, 2)
    right = SDPA(q[None], k[None], v[None], is_causal=causal, enable_gqa=True)[0]
    got = reference(q, k, v, causal)
    torch.testing.assert_close(got["out"], right)
    out, lse = attention.formula(q, k, v, causal)
    torch.testing.assert_close(out, right)
    torch.testing.assert_close(lse, got["lse"])


@pytest.mark.parametrize("causal", [False, True])
def test_large_arrays_go_head_by_head(causal, monkeypatch):
    q, k, v, _ = arrays(6, 2, M=40, N=40)
    right, scale = reference(q, k, v, causal), magnitude(q, k, v, causal)
    monkeypatch.setattr(_attention, "LARGE", 1000)
    got, bound = reference(q, k, v, causal), magnitude(q, k, v, causal)
    for name in right:
        torch.testing.assert_close(got[name], right[name])
        assert (bound[name] >= 0.999 * scale[name]).all()
        assert causal or (bound[name] <= 5 * scale[name]).all()  # a query that sees one key has next to no error


@pytest.mark.parametrize("causal", [0, 1])
def test_gradients_are_those_of_autograd(causal):
    q, k, v, dout = arrays(6, 2)
    for x in (q, k, v):
        x.requires_grad_()
    both = reference(q, k, v, bool(causal))
    right = torch.autograd.grad(both["out"], (q, k, v), dout)
    delta = (both["out"] * dout).sum(-1)
    got = gradients(q, k, v, dout, both["lse"], delta, causal)
    for name, x in zip(("dq", "dk", "dv"), right, strict=True):
        torch.testing.assert_close(got[name], x)


def test_gradients_of_large_arrays_go_head_by_head(monkeypatch):
    q, k, v, dout = arrays(6, 2, M=40, N=40)
    both = reference(q, k, v, True)
    inputs = {"dout": dout, "lse": both["lse"], "delta": (both["out"] * dout).sum(-1), "causal": 1}
    right, scale = gradients(q, k, v, **inputs), magnitude_of_gradients(q, k, v, **inputs)
    monkeypatch.setattr(_attention, "LARGE", 1000)
    torch.testing.assert_close(gradients(q, k, v, **inputs), right)
    torch.testing.assert_close(magnitude_of_gradients(q, k, v, **inputs), scale)


@pytest.mark.parametrize("causal", [False, True])
def test_steps_end_in_attention(causal):
    q, k, v, _ = (x[0] for x in arrays(1, 1, M=7, N=7))
    right = reference(q[None], k[None], v[None], causal)
    for last in {s.queries: s for s in attention.steps(q, k, v, 3, 2, causal)}.values():
        rows = slice(last.queries.start, last.queries.stop)
        torch.testing.assert_close(last.acc / last.l[:, None], right["out"][0, rows])
        torch.testing.assert_close(last.m + torch.log(last.l), right["lse"][0, rows])


@pytest.mark.parametrize("name", ["forward", "ragged", "flash"])
def test_fp16_results_are_within_the_tolerance(name):
    """Scores and weights as an honest kernel rounds them, with q scaled in its own type."""
    exercise, rng = get(f"17_flash_attention/{name}"), random.Random(1)
    cases = [*exercise.cases, *(Case(f"drawn {i}", dict(exercise.draw(rng)), "position") for i in range(4))]
    for case in cases:
        run = make_run(exercise, case, 3)
        q, k, v = (run.buffers[n].view for n in "qkv")
        group = len(q) // len(k)
        scaled = (q.float() * q.shape[-1] ** -0.5).to(q.dtype).float()
        s = scaled @ k.float().repeat_interleave(group, 0).mT
        if case.sizes.get("causal"):
            s = s.masked_fill(torch.ones(s.shape[1:], dtype=torch.bool).triu(1), -torch.inf)
        p = torch.exp(s - s.amax(-1, keepdim=True))
        out = p.to(q.dtype).float() @ v.float().repeat_interleave(group, 0) / p.sum(-1, keepdim=True)
        run.buffers["out"].view.copy_(out)
        run.buffers["lse"].view.copy_(torch.logsumexp(s, -1))
        for output in ("out", "lse"):
            assert not Comparison(run).output(output).bad.any(), (case.name, output)


def test_the_pictures_say_what_they_show():
    explorer = attention.stepper()
    assert explorer.figure().alt.startswith("Tile 2 of 8: queries 0–2, keys 2–3.")
    explorer.set(mask="causal", tile=5)
    assert "factor" in explorer.figure().alt
    assert "mask" in attention.owners(4, 2, 1).alt


def test_gradient_table(capsys):
    class Exact(torch.autograd.Function):
        @staticmethod
        def forward(ctx, q, k, v, causal):
            ctx.save_for_backward(q, k, v)
            return attention.forward(q, k, v, causal)[0]

        @staticmethod
        def backward(ctx, dout):
            x = [t.float().requires_grad_() for t in ctx.saved_tensors]
            with torch.enable_grad():
                out, _ = attention.formula(*x)
            return *(g.half() for g in torch.autograd.grad(out, x, dout.float())), None

    errors = attention.gradient_table(Exact.apply)
    assert max(errors.values()) < 2e-3
    assert "dq" in capsys.readouterr().out


def test_a_key_past_the_end_counts_in_every_case_with_a_partial_tile():
    """Without -inf for these keys each such case is refused, so that none of those that pass misleads."""
    ragged = get("17_flash_attention/ragged")
    (mistake,) = (m for m in ragged.known_mistakes if m.sentence.startswith("keys past the end are included"))
    for case in ragged.cases:
        comparison = Comparison(make_run(ragged, case, 5))
        wrong = mistake.compute(**comparison.inputs)
        for name, y in wrong.items():
            output = comparison.output(name)
            refused = mismatches(y, output.expected, output.limit, output.rounded(output.expected)).any()
            assert bool(refused) == bool(case.sizes["N"] % TILE_N), (case.name, name)


@pytest.mark.parametrize("exercise", ["forward", "flash"])
@pytest.mark.parametrize(
    "sentence", ["exp stands where exp2 belongs", "the scores are multiplied by the factor log₂ e / √D twice"]
)
def test_of_mistakes_with_one_output_alike_the_one_that_gives_both_is_named(exercise, sentence):
    """out is the same for exp in place of exp2 and for scores with log₂ e twice, and lse is not."""
    exercise = get(f"17_flash_attention/{exercise}")
    (mistake,) = (m for m in exercise.known_mistakes if m.sentence.startswith(sentence))
    run = make_run(exercise, exercise.cases[1], 5)
    comparison = Comparison(run)
    for name, y in mistake.compute(**comparison.inputs).items():
        run.buffers[name].view.copy_(y)
    assert [recognise(comparison, comparison.output(n)) for n in run.outputs] == [mistake, mistake]
