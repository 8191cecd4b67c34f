"""Kernel graphs of unit 24: traffic by hand, each rule, and the fewest bytes beside a search over all partitions."""

import itertools

import pytest

from labutils.exercises import _partitions
from labutils.exercises.block_graphs import VARIANTS, graph
from labutils.gpu import kernel_graph


def block(variant=0, width=4096):
    return graph(variant, tokens=100, width=width, heads=width // 128, key_heads=2, hidden=3 * width)


def chain():
    """x → a → b → c, b also reads x, and c is the result: sizes 1, 10, 100, 1000."""
    nodes, inputs = {}, {"x": [], "a": ["x"], "b": ["a", "x"], "c": ["b"]}
    for k, (name, reads) in enumerate(inputs.items()):
        kind = "elementwise" if reads else "input"
        nodes[name] = {"kind": kind, "inputs": reads, "columns": 1, "bytes": 10**k}
    return nodes


@pytest.mark.parametrize(
    ("kernels", "bytes_"),
    [
        ([["a"], ["b"], ["c"]], (1 + 10) + (10 + 1 + 100) + (100 + 1000)),
        ([["a", "b"], ["c"]], (1 + 100) + (100 + 1000)),
        ([["a"], ["b", "c"]], (1 + 10) + (10 + 1 + 1000)),
        ([["a", "b", "c"]], 1 + 1000),
    ],
)
def test_traffic_by_hand(kernels, bytes_):
    assert _partitions.traffic(chain(), kernels) == bytes_


GOOD = [["rms1", "scale1", "qkv", "rope"], ["attention"], ["out", "residual1"], ["rms2", "scale2", "gate_up", "swiglu"],
        ["down", "residual2"]]  # fmt: skip


def moved(name, where):
    """GOOD with one node in the kernel of another one."""
    return [[n for n in k if n != name] + [name] * (where in k) for k in GOOD]


@pytest.mark.parametrize(
    ("kernels", "part"),
    [
        (GOOD[:-1], "no kernel computes down"),
        ([*GOOD, ["rope"]], "rope is computed more than once"),
        ([*GOOD, ["x"]], "x is an input"),
        ([*GOOD, ["y"]], "there is no node 'y'"),
        ("rope", "a partition is a list"),
        (moved("down", "out"), "out and down are in one kernel"),
        (moved("rms2", "out"), "rms2 behind out reduces 4096 columns"),
        (moved("rope", "attention"), "attention reads rows that other programs compute"),
        (moved("residual1", "gate_up"), "residual1 is computed in the loop of gate_up, so no kernel stores it"),
        (moved("residual2", "rope"), "a cycle: kernel 0 waits for kernel"),
    ],
)
def test_each_rule(kernels, part):
    assert kernel_graph.problem(block(), GOOD) is None
    assert part in kernel_graph.problem(block(), kernels)


def test_two_norms_do_not_fit_before_a_matmul():
    nodes = block(VARIANTS.index("norms behind"))
    kernels = _partitions.best(nodes)
    home = {n: k for k in kernels for n in k}
    both = home["residual1"] + home["gate_up"]
    merged = [k for k in kernels if not set(k) & set(both)] + [both]
    assert "scale_out stands between rms_out and gate_up" in kernel_graph.problem(nodes, merged)


def test_a_norm_fits_behind_a_matmul_as_wide_as_a_tile():
    kernels = [["out", "rms_out", "scale_out", "residual1"]]
    assert kernel_graph.inside(block(2, width=256), kernels[0]) is None
    assert "but a tile of out has only 256" in kernel_graph.inside(block(2, width=384), kernels[0])


def partitions(names):
    """Every partition of a list."""
    if not names:
        yield []
        return
    first, rest = names[0], names[1:]
    for count in range(len(rest) + 1):
        for others in itertools.combinations(rest, count):
            for more in partitions([n for n in rest if n not in others]):
                yield [[first, *others], *more]


@pytest.mark.parametrize("variant", [1, 2])
def test_the_best_partition_is_the_best_of_all(variant):
    nodes = block(variant, width=256)
    keep = list(nodes)[:9]
    nodes = {name: nodes[name] for name in keep}
    names = [name for name in nodes if nodes[name]["kind"] != "input"]
    least = min(_partitions.traffic(nodes, p) for p in partitions(names) if kernel_graph.problem(nodes, p) is None)
    found = _partitions.best(nodes)
    assert kernel_graph.problem(nodes, found) is None
    assert _partitions.traffic(nodes, found) == least


@pytest.mark.parametrize("variant", range(len(VARIANTS)))
def test_library_matmuls_stand_alone(variant):
    nodes = block(variant)
    for kernel in _partitions.best(nodes, fused_matmuls=False):
        assert len(kernel) == 1 or not any(nodes[n]["kind"] in kernel_graph.HEAVY for n in kernel)


def test_the_standard_block_needs_five_kernels():
    assert _partitions.best(block()) == GOOD
