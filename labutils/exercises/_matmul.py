"""What the units on matrix products share: sizes, cost, and what goes wrong along K."""

from __future__ import annotations

import torch

from ..spec.exercise import Cost, KnownMistake


def mnk(M: int, N: int, K: int) -> dict[str, int]:
    return {"M": M, "N": N, "K": K}


def cost(sizes: dict[str, int], item: int) -> Cost:
    """Each operand read once, the product written once, for one product or a batch of B."""
    M, N, K, B = sizes["M"], sizes["N"], sizes["K"], sizes.get("B", 1)
    return Cost(item * B * K * (M + N), item * B * M * N, 2 * B * M * N * K)


def product(a, b):
    return a @ b


def magnitude(a, b):
    return a.abs() @ b.abs()


def one_block(size: int, last: bool):
    """The product of the first or the last block of K alone; the right one where there is no other."""

    def product(a, b):
        K = a.shape[-1]
        cut = slice((K - 1) // size * size, K) if last else slice(0, size)
        return a[..., cut] @ b[..., cut, :]

    return product


def _where(a, b, keep):
    """The sum of the products whose k passes `keep(k, K)`."""
    K = a.shape[1]
    chosen = keep(torch.arange(K), K)
    return a[:, chosen] @ b[chosen]


def _but(a, b, place):
    """All products but one; all where there is only one, because a 0 has too many causes to name one."""
    return _where(a, b, lambda k, K: (k != place % K) | (K == 1))


def known_mistakes(depth: int) -> tuple[KnownMistake, ...]:
    """What goes wrong in a loop over blocks of K that are `depth` deep."""
    return (
        KnownMistake(
            "missing-accumulation",
            f"{{name}} holds only the first {depth} products of each sum",
            one_block(depth, last=False),
        ),
        KnownMistake(
            "missing-accumulation",
            f"{{name}} holds only the last {depth} products of each sum, or fewer",
            one_block(depth, last=True),
        ),
        KnownMistake(
            "missing-accumulation",
            f"{{name}} holds only the first half of every {depth} products",
            lambda a, b: _where(a, b, lambda k, K: k % depth < depth // 2),
        ),
        KnownMistake("missing-accumulation", "{name} lacks the last product of each sum", lambda a, b: _but(a, b, -1)),
        KnownMistake("missing-accumulation", "{name} lacks the first product of each sum", lambda a, b: _but(a, b, 0)),
        KnownMistake(
            "missing-accumulation",
            f"{{name}} lacks all but whole blocks of {depth} products",
            lambda a, b: a[:, : a.shape[1] // depth * depth] @ b[: a.shape[1] // depth * depth],
        ),
        KnownMistake(
            "missing-accumulation",
            "{name} has every other product: the step along k is too large",
            lambda a, b: a[:, ::2] @ b[::2],
        ),
        KnownMistake("wrong-formula", "{name} is |a| @ |b|", magnitude),
        KnownMistake(
            "wrong-formula",
            "{name} is the sum of a and b, not of their products",
            lambda a, b: a.sum(1, keepdim=True) + b.sum(0, keepdim=True),
        ),
    )
