"""What a partition of a block's graph moves, and one that moves the fewest bytes (`labutils.gpu.kernel_graph`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache

from ..gpu.kernel_graph import HEAVY, Graph, inside, leaves


def traffic(graph: Graph, kernels: Sequence[Sequence[str]]) -> int:
    """Bytes that the kernels read and write: each result that a kernel needs once, and each that leaves it once."""
    total = 0
    for kernel in kernels:
        members = set(kernel)
        needed = {i for name in members for i in graph[name]["inputs"]} - members
        leaving = {name for name in members if leaves(graph, name, members)}
        total += sum(graph[name]["bytes"] for name in needed | leaving)
    return total


def best(graph: Graph, fused_matmuls: bool = True) -> list[list[str]]:
    """Kernels that move the fewest bytes. Without `fused_matmuls`, a matmul or attention has a kernel of its own.

    Exact: the cheapest path from nothing to everything through the sets of nodes that can be done at one time.
    """
    nodes = [name for name, node in graph.items() if node["kind"] != "input"]

    @cache
    def rest(done: frozenset) -> tuple[int, tuple]:
        if len(done) == len(nodes):
            return 0, ()
        options = []
        for kernel in _next_kernels(graph, nodes, done, fused_matmuls):
            moved, others = rest(done | kernel)
            names = tuple(name for name in nodes if name in kernel)
            options.append((moved + traffic(graph, [names]), (names, *others)))
        return min(options, key=lambda option: (option[0], len(option[1])))

    return [list(kernel) for kernel in rest(frozenset())[1]]


def _next_kernels(graph: Graph, nodes: Sequence[str], done: frozenset, fused_matmuls: bool) -> Iterator[frozenset]:
    """Every kernel that can run when `done` is done."""
    inputs = {name for name, node in graph.items() if node["kind"] == "input"}
    open_, seen = [frozenset()], {frozenset()}
    while open_:
        kernel = open_.pop()
        for name in nodes:
            if name in done or name in kernel or not set(graph[name]["inputs"]) <= done | kernel | inputs:
                continue
            larger = kernel | {name}
            heavy = [n for n in larger if graph[n]["kind"] in HEAVY]
            if larger in seen or len(heavy) > 1 or (heavy and len(larger) > 1 and not fused_matmuls):
                continue
            seen.add(larger)
            open_.append(larger)
            if inside(graph, sorted(larger)) is None:
                yield larger
