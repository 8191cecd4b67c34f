"""Unit 24: the bytes that a partition moves, and the partition that moves the fewest."""

import itertools

from ..gpu import kernel_graph
from ..spec.exercise import Case, Hint, PlainExercise, Points, register
from . import _partitions
from .block_graphs import HEAD, graph

UNIT = "24_block"

SLACK = 1.02
"""Allowed traffic of a partition, relative to the best one."""


def _case(name: str, variant: int, width: int = 4096, hidden: int = 14_336, key_heads: int = 8, **more) -> Case:
    sizes = {"variant": variant, "tokens": 16_384, "width": width, "heads": width // HEAD, "key_heads": key_heads}
    return Case(name, sizes | {"hidden": hidden} | more)


def _draw(rng) -> dict[str, int]:
    heads = rng.choice([1, 2, 4, 16, 32])
    width = heads * HEAD
    return {
        "variant": rng.randrange(6), "tokens": rng.randrange(1, 40_000), "width": width, "heads": heads,
        "key_heads": heads // rng.choice([1, 2]) or 1, "hidden": 64 * rng.randrange(1, 300),
    }  # fmt: skip


# --- traffic -------------------------------------------------------------------------------------------------------


def partition_of(nodes, seed: int) -> list[list[str]]:
    """Neighboring nodes in kernels of one to four, as if drawn: the traffic can be counted, whatever the rules say."""
    kernels, names, size = [], [n for n, node in nodes.items() if node["kind"] != "input"], seed
    while names:
        size = (size * 5 + 3) % 7
        kernels.append(names[: 1 + size % 4])
        names = names[1 + size % 4 :]
    return kernels


def _traffic_arguments(seed: int, **sizes) -> dict:
    nodes = graph(**sizes)
    return {"graph": nodes, "kernels": partition_of(nodes, seed)}


def _traffic_mistakes(nodes, kernels) -> list[tuple[int, str]]:
    """Wrong totals, with the cause."""

    def total(reads=lambda inside, inputs: inputs - inside, writes=None) -> int:
        writes = writes or (lambda name, inside: kernel_graph.leaves(nodes, name, inside))
        found = 0
        for kernel in kernels:
            inside = set(kernel)
            inputs = {i for name in kernel for i in nodes[name]["inputs"]}
            moved = [*reads(inside, inputs), *(n for n in kernel if writes(n, inside))]
            found += sum(nodes[name]["bytes"] for name in moved)
        return found

    def all_reads(inside, _):
        return [i for name in inside for i in nodes[name]["inputs"] if i not in inside]

    def read_elsewhere(name, inside):
        return any(r not in inside for r in kernel_graph.readers(nodes, name))

    def never_inside(name, inside):
        return not any(r in inside for r in kernel_graph.readers(nodes, name))

    last = "A result that no node reads is a result of the block: it must be stored."
    once = "A kernel reads a result once, even if several of its nodes need it."
    return [
        (total(all_reads), once),
        (total(writes=read_elsewhere), last),
        (total(all_reads, read_elsewhere), f"{once} {last}"),
        (
            total(lambda inside, inputs: inputs, lambda name, inside: True),
            "That is the traffic without any fusion: what a kernel computes and uses itself stays on the chip.",
        ),
        (
            total(writes=lambda name, inside: True),
            "A kernel stores only results that leave it: those that another kernel or nobody reads.",
        ),
        (total(lambda inside, inputs: inputs), "A kernel does not read from memory what it computes itself."),
        (
            total(writes=never_inside),
            "A result can be needed inside the kernel and by another kernel: then it must be stored, too.",
        ),
        (
            total(lambda inside, inputs: {i for i in inputs - inside if nodes[i]["kind"] != "input"}),
            "x is read from memory, too.",
        ),
        (total(writes=lambda name, inside: False), "That counts only what the kernels read. They also store results."),
        (total(lambda inside, inputs: ()), "That counts only what the kernels store. They also read results."),
        (sum(node["bytes"] for node in nodes.values()), "That counts each result once, whatever the kernels are."),
    ]


def _examine_traffic(sizes, arguments, yours) -> tuple[str, str] | None:
    nodes, kernels = arguments["graph"], arguments["kernels"]
    expected = _partitions.traffic(nodes, kernels)
    try:
        value = float(yours)
    except (TypeError, ValueError):
        return f"traffic returned {type(yours).__name__}, not a number", "Return a number of bytes."
    if value == expected:
        return None
    hint = Hint.of(text for wrong, text in _traffic_mistakes(nodes, kernels) if value == wrong)
    shown = f"{value:,.0f} bytes, expected {expected:,} for the kernels {kernels[:3]} and so on"
    return shown, hint or "For each kernel, collect the names that it must read and those that it must store."


register(
    PlainExercise(
        id=f"{UNIT}/traffic",
        title="Bytes that a partition moves",
        entry="traffic",
        points=Points(correct=1),
        make=_traffic_arguments,
        examine=_examine_traffic,
        cases=(
            _case("the standard block", 0, seed=1),
            _case("other kernels", 0, seed=2),
            _case("attention and MLP in parallel", 1, seed=3),
            _case("norms behind each branch", 2, seed=4),
            _case("norms of heads", 3, seed=5),
            _case("gated attention", 4, seed=6),
            _case("a norm of the heads' output", 5, seed=1),
            _case("a narrow block", 2, width=256, hidden=768, key_heads=2, seed=3),
        ),
        draw=lambda rng: _draw(rng) | {"seed": rng.randrange(7)},
    )
)


# --- partition -----------------------------------------------------------------------------------------------------

ADVICE = {
    "computed more than once": "Each node belongs to one kernel: a result that two kernels need is stored once.",
    "a cycle": "A kernel starts when all its inputs are in memory. Merge kernels only if nothing outside of them lies "
    "between them.",
    "at most one matmul": "The product of one matmul is spread over many programs before the next one can start.",
    "a tile of": "A program of a matmul holds only its tile of columns, not whole rows. Reduce in a later kernel, "
    "which may be the loop of the next matmul.",
    "attention reads": "Attention needs keys and values of all tokens: its inputs must be in memory.",
    "no kernel stores it": "Leave what several kernels need in a kernel of its own, or with the kernel before.",
    "stands between": "Only row reduction, scale, matmul can share a loop: the factor multiplies the product.",
}


def _examine_partition(sizes, arguments, yours) -> tuple[str, str] | None:
    nodes = arguments["graph"]
    if found := kernel_graph.problem(nodes, yours):
        return found, next((text for part, text in ADVICE.items() if part in found), "Keep to the rules in the text.")
    kernels = [list(k) for k in yours if len(k)]
    moved, least = (_partitions.traffic(nodes, p) for p in (kernels, _partitions.best(nodes)))
    if moved <= SLACK * least:
        return None
    library = _partitions.best(nodes, fused_matmuls=False)
    message = (
        f"the partition can run, but it moves {moved / 1e6:,.1f} MB in {len(kernels)} kernels; {least / 1e6:,.1f} MB "
        f"is possible, and {_partitions.traffic(nodes, library) / 1e6:,.1f} MB without fusion into matmuls"
    )
    return message, _merge(nodes, kernels, moved)


def _merge(nodes, kernels, moved: int) -> str:
    """The most useful merge that is left."""
    options = []
    for a, b in itertools.combinations(kernels, 2):
        merged = [k for k in kernels if k is not a and k is not b] + [a + b]
        saved = moved - _partitions.traffic(nodes, merged)
        if saved > 0 and kernel_graph.problem(nodes, merged) is None:
            options.append((saved, a, b))
    if not options:
        return "No merge of two of your kernels helps: some node is in the wrong kernel. Which result is read twice?"
    saved, a, b = max(options, key=lambda option: option[0])
    return f"For example, merging the kernels of {a[-1]} and {b[0]} saves {saved / 1e6:,.1f} MB."


register(
    PlainExercise(
        id=f"{UNIT}/partition",
        title="A block in the fewest bytes",
        entry="partition",
        points=Points(correct=4),
        make=lambda **sizes: {"graph": graph(**sizes)},
        examine=_examine_partition,
        cases=(
            _case("the standard block", 0),
            _case("a narrow block", 0, width=256, hidden=768, key_heads=2),
            _case("attention and MLP in parallel", 1),
            _case("norms behind each branch", 2),
            _case("norms behind each branch, narrow", 2, width=256, hidden=768, key_heads=2),
            _case("norms of heads", 3),
            _case("gated attention", 4),
            _case("a norm of the heads' output", 5),
        ),
        draw=_draw,
    )
)
