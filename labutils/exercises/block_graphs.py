"""Unit 24: transformer blocks as graphs, from the standard one to those with other norms, gates and branches."""

from collections.abc import Mapping

VARIANTS = ("standard", "parallel", "norms behind", "norms of heads", "gated attention", "norm of the heads' output")
"""What is different about a block:

standard                    norm, attention, residual, norm, MLP, residual (Llama)
parallel                    attention and MLP read the same norm (GPT-J, PaLM)
norms behind                a norm before and one behind each branch (Gemma 2)
norms of heads              each head of q and k has its own norm (Qwen 3)
gated attention             a gate multiplies the output of attention
norm of the heads' output   each head of the output has its own norm
"""

HEAD = 128
"""Columns of a head."""


def graph(variant: int, tokens: int, width: int, heads: int, key_heads: int, hidden: int) -> dict[str, Mapping]:
    """The graph of one block: name → kind, inputs, columns, bytes (2 for each element, 4 for each row factor)."""
    nodes: dict[str, dict] = {}

    def add(name, kind, inputs, columns, over=None) -> str:
        size = 4 if kind == "row" else 2
        nodes[name] = {"kind": kind, "inputs": list(inputs), "columns": columns, "bytes": tokens * columns * size}
        if over:
            nodes[name]["over"] = over
        return name

    def norm(number, x, columns=width, over=width) -> str:
        factor = add(f"rms{number}", "row", [x], columns // over, over)
        return add(f"scale{number}", "elementwise", [x, factor], columns)

    what = VARIANTS[variant]
    queries, keys = heads * HEAD, key_heads * HEAD
    x = add("x", "input", [], width)
    n = norm(1, x)
    gate = queries if what == "gated attention" else 0
    h = qkv = add("qkv", "matmul", [n], queries + 2 * keys + gate)
    if what == "norms of heads":
        h = norm("_heads", h, queries + 2 * keys, HEAD)
    h = add("attention", "attention", [add("rope", "elementwise", [h], queries + 2 * keys)], queries)
    if gate:
        h = add("gate", "elementwise", [h, qkv], queries)
    if what == "norm of the heads' output":
        h = norm("_output", h, queries, HEAD)
    o = add("out", "matmul", [h], width)
    if what != "parallel":
        o = norm("_out", o) if what == "norms behind" else o
        x = add("residual1", "elementwise", [x, o], width)
        n = norm(2, x)
    h = add("swiglu", "elementwise", [add("gate_up", "matmul", [n], 2 * hidden)], hidden)
    d = add("down", "matmul", [h], width)
    d = norm("_down", d) if what == "norms behind" else d
    add("residual2", "elementwise", [x, o, d] if what == "parallel" else [x, d], width)
    return nodes
