"""Transformer blocks of unit 24: their graphs, the rules of fusion, and what a partition moves.

from labutils import blocks
graph = blocks.graph()                 the standard block, as data
blocks.problem(graph, kernels)         why these kernels cannot compute it, or None
blocks.show(graph, kernels)            each kernel with the bytes that it moves
blocks.loss_memory(loss, peak_bytes)   peak memory of a loss, beside PyTorch's; needs a GPU
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from .. import environment
from ..gpu import device
from ..gpu.kernel_graph import problem

__all__ = ["graph", "loss_memory", "loss_peaks", "problem", "show"]

TOKENS, WIDTH, HEADS, KEY_HEADS, HIDDEN = 16_384, 4096, 32, 8, 14_336
"""A block of Llama 3 8B (arXiv:2407.21783, table 3), for 8 sequences of 2048 tokens."""


def graph(variant: str = "standard") -> dict[str, Mapping]:
    """The graph of a block: name → kind, inputs, columns and bytes of the result."""
    from ..exercises import block_graphs  # not there where a judge runs a submission, which needs `problem` alone

    return block_graphs.graph(block_graphs.VARIANTS.index(variant), TOKENS, WIDTH, HEADS, KEY_HEADS, HIDDEN)


def show(nodes: Mapping[str, Mapping], kernels: Sequence[Sequence[str]] | None = None) -> None:
    """Print the graph, a node a line; with `kernels`, a kernel a line, beside the best partition's traffic."""
    if environment.grading_in_progress():
        return
    from ..exercises._partitions import best, traffic

    if kernels is None:
        print(f"{'node':10} {'kind':12} {'columns':>7} {'MB':>7}  inputs")
        for name, node in nodes.items():
            size, inputs = node["bytes"] / 1e6, ", ".join(node["inputs"])
            print(f"{name:10} {node['kind']:12} {node['columns']:7,} {size:7,.1f}  {inputs}")
        return
    if found := problem(nodes, kernels):
        print(found)
        return
    for kernel in kernels:
        print(f"{traffic(nodes, [kernel]) / 1e6:9,.1f} MB  {', '.join(kernel)}")
    one_each = [[name] for name, node in nodes.items() if node["kind"] != "input"]
    ways = {
        "your kernels": kernels,
        "a kernel for each node": one_each,
        "nothing fused into matmuls": best(nodes, fused_matmuls=False),
        "fewest bytes": best(nodes),
    }
    for name, way in ways.items():
        print(f"{traffic(nodes, way) / 1e6:9,.1f} MB  {name} ({len(way)})")


# --- the loss ------------------------------------------------------------------------------------------------------

ROWS, VOCABULARY, CHUNK = 8192, 128_256, 16_384


def loss_memory(loss: Callable, peak_bytes: Callable) -> None:
    """Print the peak memory of `loss(x, w, targets, loss, dx)` and of PyTorch, measured and predicted."""
    if environment.grading_in_progress():
        return
    whole, chunked = peak_bytes(ROWS, WIDTH, VOCABULARY, CHUNK)
    print(f"predicted: PyTorch {whole / 1e6:,.0f} MB, in chunks {chunked / 1e6:,.0f} MB")
    if not device.has_gpu():
        print("Peak memory is measured on a GPU.")
        return
    measured = loss_peaks(loss, ROWS, WIDTH, VOCABULARY)
    print("measured:  " + ", ".join(f"{name} {peak / 1e6:,.0f} MB" for name, peak in measured.items()))


def loss_data(rows: int, width: int, vocabulary: int):
    """(x, w, targets, loss, dx) in bf16 on the GPU; a tenth of the targets is ignored."""
    import torch

    g = torch.Generator("cuda").manual_seed(0)
    x = torch.randn(rows, width, device="cuda", generator=g).bfloat16()
    w = (torch.randn(vocabulary, width, device="cuda", generator=g) * width**-0.5).bfloat16()
    targets = torch.randint(0, vocabulary, (rows,), device="cuda", generator=g, dtype=torch.int32)
    targets[::10] = -100
    return x, w, targets, torch.empty(1, device="cuda"), torch.empty_like(x)


def eager_loss(x, w, targets):
    """(loss, dx) by PyTorch."""
    import torch

    x = x.detach().requires_grad_()
    loss = torch.nn.functional.cross_entropy(x @ w.T, targets.long())
    loss.backward()
    return loss.detach(), x.grad


def loss_peaks(loss: Callable, rows: int, width: int, vocabulary: int) -> dict[str, int]:
    """Peak bytes beyond the inputs: PyTorch's, with dx, and those of `loss`, whose dx is allocated before."""
    import torch

    data = loss_data(rows, width, vocabulary)
    peaks = {}
    for name, call in {"PyTorch": lambda: eager_loss(*data[:3]), "in chunks": lambda: loss(*data)}.items():
        call()  # compiles, and allocates what a library keeps
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        call()
        torch.cuda.synchronize()
        peaks[name] = torch.cuda.max_memory_allocated() - before
    peaks["in chunks"] += data[4].numel() * data[4].element_size()  # dx, which PyTorch allocates in the call
    return peaks
