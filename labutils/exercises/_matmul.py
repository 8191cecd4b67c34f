"""What the units on matrix products share: sizes, cost, and known mistakes along K."""

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
    """The product over only the first or last block of K; correct if K has just one block."""

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
    """All products but one. All of them if K is 1: a result of 0 has too many possible causes."""
    return _where(a, b, lambda k, K: (k != place % K) | (K == 1))


def known_mistakes(depth: int) -> tuple[KnownMistake, ...]:
    """Known mistakes of a loop over blocks of K that are `depth` deep."""
    return (
        KnownMistake(
            "missing-accumulation",
            f"{{name}} sums only the first {depth} products",
            one_block(depth, last=False),
        ),
        KnownMistake(
            "missing-accumulation",
            f"{{name}} sums only the last {depth} or fewer products: the accumulator is reset for each tile",
            one_block(depth, last=True),
        ),
        KnownMistake(
            "missing-accumulation",
            f"{{name}} sums only the first half of every {depth} products",
            lambda a, b: _where(a, b, lambda k, K: k % depth < depth // 2),
        ),
        KnownMistake(
            "missing-accumulation",
            "{name} misses the last product of each sum (k = K - 1)",
            lambda a, b: _but(a, b, -1),
        ),
        KnownMistake(
            "missing-accumulation", "{name} misses the first product of each sum (k = 0)", lambda a, b: _but(a, b, 0)
        ),
        KnownMistake(
            "missing-accumulation",
            f"{{name}} sums only whole blocks of {depth} products: the last, partial tile along K is missing",
            lambda a, b: a[:, : a.shape[1] // depth * depth] @ b[: a.shape[1] // depth * depth],
        ),
        KnownMistake(
            "missing-accumulation",
            "{name} sums every other product: k advances by 2",
            lambda a, b: a[:, ::2] @ b[::2],
        ),
        KnownMistake("wrong-formula", "{name} is |a| @ |b|", magnitude),
        KnownMistake(
            "wrong-formula",
            "{name} sums a and b, not their products",
            lambda a, b: a.sum(1, keepdim=True) + b.sum(0, keepdim=True),
        ),
    )
