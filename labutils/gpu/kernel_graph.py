"""The operations of a transformer block as a graph, and the kernels that they can be fused into.

A graph maps the name of each node to a dict: `kind`, `inputs` (names of nodes), `columns` and `bytes` of its result,
and for a row reduction `over`, the columns that one number comes from. Every result has a row per token. Weights are
left out: each of them is read once, whatever the kernels are.

A kernel is a list of names; a partition is a list of kernels. `problem` says why a partition cannot run. What it moves
and which moves least is what unit 24 asks for, so it stands in `labutils.exercises`, which the judge hides.

The rules are those of kernels that compute tiles of 128 × 256: an epilogue sees one tile, a loop along K sees whole
rows of the matmul's input.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

Graph = Mapping[str, Mapping]

KINDS = ("input", "elementwise", "row", "matmul", "attention")
HEAVY = ("matmul", "attention")
WIDEST = 256
"""Columns of a matmul's tile. Its 128 × 256 accumulators of 4 bytes fill half of an SM's registers."""


def readers(graph: Graph, name: str) -> list[str]:
    """The nodes that read a node's result."""
    return [other for other, node in graph.items() if name in node["inputs"]]


def leaves(graph: Graph, name: str, inside: set[str]) -> bool:
    """Is this result needed outside of the kernel? One that nobody reads is a result of the block."""
    found = readers(graph, name)
    return not found or not inside.issuperset(found)


# --- rules ---------------------------------------------------------------------------------------------------------


def problem(graph: Graph, kernels: Sequence[Sequence[str]]) -> str | None:
    """Why these kernels cannot compute the graph, in a sentence; None if they can."""
    return _coverage(graph, kernels) or next(filter(None, (inside(graph, k) for k in kernels)), _cycle(graph, kernels))


def _coverage(graph: Graph, kernels) -> str | None:
    if not isinstance(kernels, (list, tuple)) or not all(isinstance(k, (list, tuple, set)) for k in kernels):
        return "a partition is a list of kernels, and a kernel is a list of names of nodes"
    found: dict[str, int] = {}
    for number, kernel in enumerate(kernels):
        for name in kernel:
            if not isinstance(name, str) or name not in graph:
                return f"kernel {number}: there is no node {str(name)[:40]!r}"
            if graph[name]["kind"] == "input":
                return f"kernel {number}: {name} is an input; no kernel computes it"
            if name in found:
                return f"{name} is computed more than once: in kernels {found[name]} and {number}"
            found[name] = number
    missing = [name for name, node in graph.items() if node["kind"] != "input" and name not in found]
    return f"no kernel computes {missing[0]}" if missing else None


def inside(graph: Graph, kernel: Sequence[str]) -> str | None:
    """The rules within one kernel."""
    heavy = [name for name in kernel if graph[name]["kind"] in HEAVY]
    if len(heavy) > 1:
        return f"{heavy[0]} and {heavy[1]} are in one kernel; a kernel has at most one matmul or attention"
    if not heavy:
        return None
    center = heavy[0]
    before = _ancestors(graph, center) & set(kernel)
    for name in kernel:
        if found := _before(graph, kernel, name, center) if name in before else _behind(graph, name, center):
            return found
    return None


def _behind(graph: Graph, name: str, center: str) -> str | None:
    """The rule for a node that does not come before the matmul of its kernel."""
    over = graph[name].get("over", 0)
    if over <= WIDEST:
        return None
    return f"{name} behind {center} reduces {over} columns, but a tile of {center} has only {WIDEST}"


def _before(graph: Graph, kernel: Sequence[str], name: str, center: str) -> str | None:
    """The rules for a node that a matmul's kernel computes before the matmul, in its loop along K."""
    node = graph[name]
    if graph[center]["kind"] == "attention":
        return f"{name} is in one kernel with {center}, but attention reads rows that other programs compute"
    if leaves(graph, name, set(kernel)):
        return f"{name} is computed in the loop of {center}, so no kernel stores it, but another kernel needs it"
    if node["kind"] != "row":
        return None
    depth = sum(graph[i]["columns"] for i in graph[center]["inputs"])
    if node["over"] != depth:
        return f"{name} reduces {node['over']} columns, but the loop of {center} goes over {depth}"
    feeding = set(graph[center]["inputs"])
    if between := [r for r in readers(graph, name) if r not in feeding]:
        return (
            f"{between[0]} stands between {name} and {center}, so the factor of {name} cannot move behind the loop of "
            f"{center}"
        )
    return None


def _cycle(graph: Graph, kernels: Sequence[Sequence[str]]) -> str | None:
    """Kernels that wait for each other."""
    home = {name: number for number, kernel in enumerate(kernels) for name in kernel}
    waits: dict[int, set[int]] = {number: set() for number in range(len(kernels))}
    for name, number in home.items():
        waits[number] |= {home[i] for i in graph[name]["inputs"] if i in home} - {number}
    left = dict(waits)
    while ready := [number for number, others in left.items() if not others & left.keys()]:
        for number in ready:
            del left[number]
    if not left:
        return None
    path = [next(iter(left))]
    while True:
        following = next(iter(left[path[-1]] & left.keys()))
        if following in path:
            ring = [*path[path.index(following) :], following]
            return f"a cycle: kernel {ring[0]} waits for kernel " + ", which waits for kernel ".join(map(str, ring[1:]))
        path.append(following)


def _ancestors(graph: Graph, name: str) -> set[str]:
    found, open_ = set(), list(graph[name]["inputs"])
    while open_:
        node = open_.pop()
        if node not in found:
            found.add(node)
            open_ += graph[node]["inputs"]
    return found
