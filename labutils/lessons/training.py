"""A small language model of unit 24 that is trained with the learner's operations, beside PyTorch's.

from labutils import training
training.gradients(norm, rope, swiglu)    results and gradients of each operation beside PyTorch's in float64
training.compare(norm, rope, swiglu)      the losses of 50 steps, beside those of PyTorch
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from .. import environment
from ..gpu import device
from ..spec.precision import ROUND_OFF

__all__ = ["Operations", "Shape", "compare", "differences", "gradients", "losses"]

EPS = 1e-6
ROUNDINGS = 8
"""A correct operation in fp32 may change its result by so many units of round-off, relative to each element."""
DRAWS, MARGIN = 4, 8
"""Perturbed trainings, and how many times their root mean square a loss may differ."""


@dataclass(frozen=True)
class Shape:
    """Sequences of `tokens`; `words` of the vocabulary; `heads` of queries and as many of keys."""

    sequences: int = 1
    tokens: int = 6
    words: int = 16
    width: int = 32
    heads: int = 2
    hidden: int = 32


LARGE = Shape(8, 512, 1024, 1024, 8, 2048)
"""Where there is a GPU."""


@dataclass(frozen=True)
class Operations:
    """norm(x, w) of rows, rope(q, k, cos, sin) of (B, T, H, D), swiglu(x) of (M, 2N): each differentiable."""

    norm: Callable
    rope: Callable
    swiglu: Callable


def _norm(x, w):
    import torch

    return torch.nn.functional.rms_norm(x, (x.shape[-1],), w, EPS)


def _rotated(x, cos, sin):
    import torch

    a, b = x.chunk(2, -1)
    cos, sin = cos[:, None], sin[:, None]
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


def _rope(q, k, cos, sin):
    return _rotated(q, cos, sin), _rotated(k, cos, sin)


def _swiglu(x):
    import torch

    gate, up = x.chunk(2, -1)
    return torch.nn.functional.silu(gate) * up


PYTORCH = Operations(_norm, _rope, _swiglu)


def _perturbed(seed: int, where: str) -> Operations:
    """PyTorch's operations, with each result changed by ROUNDINGS units of fp32's round-off, up or down at random."""
    import torch

    g = torch.Generator(where).manual_seed(seed)

    def changed(t):
        signs = torch.randint(0, 2, t.shape, generator=g, device=where) * 2 - 1
        return t * (1 + ROUNDINGS * ROUND_OFF["float32"] * signs)

    return Operations(
        lambda x, w: changed(_norm(x, w)),
        lambda *a: tuple(changed(t) for t in _rope(*a)),
        lambda x: changed(_swiglu(x)),
    )


def weights(shape: Shape, where: str = "cpu") -> dict:
    """The model's first weights by name, in fp32; the same on every machine."""
    import torch

    g = torch.Generator().manual_seed(1)
    C, F = shape.width, shape.hidden

    def normal(rows: int, columns: int):
        return torch.randn(rows, columns, generator=g) * columns**-0.5

    found = {"embedding": torch.randn(shape.words, C, generator=g), "norm1": torch.ones(C), "norm2": torch.ones(C)}
    found |= {"qkv": normal(3 * C, C), "proj": normal(C, C), "gate_up": normal(2 * F, C), "down": normal(C, F)}
    found |= {"norm3": torch.ones(C), "head": normal(shape.words, C)}
    return {name: t.to(where) for name, t in found.items()}


def tables(shape: Shape, where: str = "cpu"):
    """cos and sin (tokens, D / 2), fp32."""
    import torch

    pairs = shape.width // shape.heads // 2
    angles = torch.arange(shape.tokens)[:, None] * 10_000.0 ** (-torch.arange(pairs).double() / pairs)
    return angles.cos().float().to(where), angles.sin().float().to(where)


def loss_of(w: dict, words, shape: Shape, do: Operations, angles):
    """The loss of one block and a head; `words` (sequences, tokens + 1)."""
    import torch

    functional, (B, T) = torch.nn.functional, (shape.sequences, shape.tokens)
    x = w["embedding"][words[:, :-1]].reshape(B * T, shape.width)
    q, k, v = (do.norm(x, w["norm1"]) @ w["qkv"].T).view(B, T, 3, shape.heads, -1).unbind(2)
    q, k = do.rope(q.contiguous(), k.contiguous(), *angles)
    mixed = functional.scaled_dot_product_attention(*(t.transpose(1, 2) for t in (q, k, v)), is_causal=True)
    x = x + mixed.transpose(1, 2).reshape(B * T, -1) @ w["proj"].T
    x = x + do.swiglu(do.norm(x, w["norm2"]) @ w["gate_up"].T) @ w["down"].T
    return functional.cross_entropy(do.norm(x, w["norm3"]) @ w["head"].T, words[:, 1:].reshape(-1))


def losses(do: Operations, shape: Shape, steps: int, where: str = "cpu", double: bool = False) -> list[float]:
    """The loss of each step of gradient descent. The next word is 3 · word + 1, so that there is something to learn."""
    import torch

    kind = torch.float64 if double else torch.float32
    w = {name: t.to(kind).requires_grad_() for name, t in weights(shape, where).items()}
    angles = [t.to(kind) for t in tables(shape, where)]
    g, found = torch.Generator().manual_seed(2), []
    for _ in range(steps):
        words = [torch.randint(0, shape.words, (shape.sequences,), generator=g)]
        for _ in range(shape.tokens):
            words.append((3 * words[-1] + 1) % shape.words)
        loss = loss_of(w, torch.stack(words, 1).to(where), shape, do, angles)
        gradients = torch.autograd.grad(loss, list(w.values()))
        with torch.no_grad():
            for t, gradient in zip(w.values(), gradients, strict=True):
                t -= 0.1 * gradient
        found.append(loss.item())
    return found


def differences(do: Operations, shape: Shape, steps: int, where: str = "cpu") -> list[tuple[float, float, float]]:
    """For each step: the loss with `do`, its difference from float64, and how much a correct one may differ.

    A rounding in one step changes all later ones, and how much depends on the model. So this is measured: float64
    trainings with operations whose results change at random by what fp32 may change them.
    """
    exact = losses(PYTORCH, shape, steps, where, double=True)
    runs = [losses(_perturbed(seed, where), shape, steps, where, double=True) for seed in range(DRAWS)]
    yours, found, largest = losses(do, shape, steps, where), [], 0.0
    for step, (loss, right) in enumerate(zip(yours, exact, strict=True)):
        largest = max(largest, (sum((run[step] - right) ** 2 for run in runs) / DRAWS) ** 0.5)
        found.append((loss, abs(loss - right), MARGIN * (largest + ROUNDINGS * ROUND_OFF["float32"] * right)))
    return found


def compare(norm: Callable, rope: Callable, swiglu: Callable, steps: int = 50) -> None:
    """Train with these operations; print some losses, and the first step whose loss is not PyTorch's."""
    if environment.grading_in_progress():
        return
    where, shape = ("cuda", LARGE) if device.has_gpu() else ("cpu", Shape())
    found = differences(Operations(norm, rope, swiglu), shape, steps, where)
    for step in range(0, steps, 7):
        loss, difference, limit = found[step]
        print(f"step {step:2}: loss {loss:.6f}, differs from float64 by {difference:.1e}, at most {limit:.1e}")
    if wrong := [step for step, (_, difference, limit) in enumerate(found) if not difference <= limit]:
        print(f"✗ The loss of step {wrong[0]} differs by {found[wrong[0]][1]:.1e}: more than rounding explains.")
    else:
        print(f"✓ All {steps} losses are those of PyTorch, within what rounding explains.")


def gradients(norm: Callable, rope: Callable, swiglu: Callable) -> None:
    """Print the largest error of each result and gradient, relative to the largest element, beside float64."""
    if environment.grading_in_progress():
        return
    where = "cuda" if device.has_gpu() else "cpu"
    for name, error in errors(Operations(norm, rope, swiglu), where).items():
        print(f"{'✓' if error < 1e-5 else '✗'} {name:22} {error:.1e}")


def errors(do: Operations, where: str = "cpu") -> dict[str, float]:
    """The largest error of each result and gradient of the operations, relative to its largest element."""
    import torch

    shape = replace(Shape(), sequences=2)
    g = torch.Generator().manual_seed(3)
    M, C, F, D = 2 * shape.tokens, shape.width, shape.hidden, shape.width // shape.heads

    def normal(*sizes):
        return torch.randn(sizes, generator=g).to(where)

    heads = shape.sequences, shape.tokens, shape.heads, D
    inputs = {
        "norm": {"x": normal(M, C), "w": normal(C)},
        "rope": {"q": normal(*heads), "k": normal(*heads)},
        "swiglu": {"x": normal(M, 2 * F)},
    }
    found = {}
    for name, given in inputs.items():
        rest = tables(shape, where) if name == "rope" else ()
        results = []
        for operations, kind in ((do, torch.float32), (PYTORCH, torch.float64)):
            leaves = [t.to(kind).requires_grad_() for t in given.values()]
            outs = getattr(operations, name)(*leaves, *(t.to(kind) for t in rest))
            outs = outs if isinstance(outs, tuple) else (outs,)
            g_out = torch.Generator().manual_seed(4)
            seeds = [torch.randn(t.shape, generator=g_out).to(where, kind) for t in outs]
            results.append([*outs, *torch.autograd.grad(outs, leaves, seeds)])
        titles = [f"{name}, result {k}" for k in range(1, len(outs) + 1)] + [f"{name}, gradient of {k}" for k in given]
        for title, got, right in zip(titles, *results, strict=True):
            found[title] = float((got.detach().double() - right.detach()).abs().max() / right.detach().abs().max())
    return found
