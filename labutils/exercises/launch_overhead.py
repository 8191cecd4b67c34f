"""Unit 21: the cost of launches, a chain of updates fused into one launch, and pages of unified memory."""

import random

import torch

from ..spec.exercise import (
    Bound,
    Case,
    Contract,
    Cost,
    KernelExercise,
    KnownMistake,
    PlainExercise,
    Points,
    array,
    out,
    register,
)

UNIT = "21_launch_overhead"


def close(a: float, b: float) -> bool:
    return abs(a - b) <= 1e-6 * max(1.0, abs(b))


# --- eager and graph -----------------------------------------------------------------------------------------------


def _kernels(count: int, kernel: int, first: int, last: int, seed: int) -> list[float]:
    """Durations in µs; `first` and `last` replace those two where they are not 0; a nonzero seed draws all of them."""
    if seed:
        rng = random.Random(seed)
        return [rng.choice([0.5, 2.0, 8.0, 60.0]) * rng.randrange(1, 5) for _ in range(count)]
    times = [float(kernel)] * count
    if first:
        times[0] = float(first)
    if last:
        times[-1] = float(last)
    return times


def _queue_arguments(count, kernel, first, last, seed, launch, graph, node) -> dict:
    """`launch`, `graph` and `node` in ns."""
    kernels = _kernels(count, kernel, first, last, seed)
    return {"kernels": kernels, "launch": launch / 1000, "graph_launch": graph / 1000, "per_node": node / 1000}


def finish_times(kernels: list[float], launch: float, graph_launch: float, per_node: float) -> tuple[float, float]:
    """µs until all kernels are done: launched one by one (eager), and as one graph."""
    free = 0.0
    for i, kernel in enumerate(kernels):
        free = max(free, (i + 1) * launch) + kernel
    return free, graph_launch + sum(max(kernel, per_node) for kernel in kernels)


def _eager_mistakes(kernels, launch, **_) -> list[tuple[float, str]]:
    n, total = len(kernels), sum(kernels)
    if not n:
        return [(launch, "Nothing is launched, so the time is 0.")]
    paced = sum(max(launch, k) for k in kernels)
    ahead = "During a long kernel, the host runs ahead by several launches, so later kernels start without waiting. "
    return [
        (n * launch, "That is when the host has launched everything. The last kernel starts only then."),
        (n * launch + total, "The host does not wait: while one kernel runs, it launches the next ones."),
        (launch + total, "That is right if the GPU never waits. Here some launch ends after the previous kernel."),
        (n * launch + kernels[-1], "That is right if the GPU always waits. Some kernel takes longer than a launch."),
        (max(n * launch, total), "Totals and means ignore the order: a long kernel at the end hides no "
         "launch, and nothing hides the first launch."),
        (total, "The first kernel starts only after its launch; others may also wait for theirs."),
        (launch + max(n * launch, total), "Totals ignore the order: track when the GPU becomes free."),
        (max(n * launch, total) + kernels[-1], "Not every launch is late: track when the GPU becomes free."),
        (paced, ahead + "And nothing hides the first launch."),
        (launch + paced, ahead + "Track when the GPU becomes free."),
        (launch + paced - max(launch, kernels[-1]) + kernels[-1], ahead + "Track when the GPU becomes free."),
        (_free(kernels, launch, 0), "Kernel 0 cannot start at 0: the launch of kernel i ends at (i + 1)·launch."),
        (_free(kernels, launch, 2), "One launch too many: the launch of kernel i ends at (i + 1)·launch."),
        (_free(kernels[::-1], launch, 1), "The kernels run in the order of the list."),
        (_free(sorted(kernels), launch, 1), "The kernels run in the order of the list; do not sort them."),
        (n * launch + max(kernels), "The last kernel runs after the last launch, not the longest one."),
        (launch + (n - 1) * max(launch, kernels[0]) + kernels[0], "That is right if all kernels are equally long."),
    ]  # fmt: skip


def _free(kernels, launch, first: int) -> float:
    free = 0.0
    for i, kernel in enumerate(kernels):
        free = max(free, (i + first) * launch) + kernel
    return free


def _graph_mistakes(kernels, launch, graph_launch, per_node) -> list[tuple[float, str]]:
    n, total = len(kernels), sum(kernels)
    nodes = sum(max(k, per_node) for k in kernels)
    adds = "No node starts before the graph is launched: add graph_launch and the nodes."
    return [
        (
            graph_launch + total,
            "A node takes at least per_node: use the larger of the two for each node.",
        ),
        (nodes, adds),
        (max(graph_launch, nodes), adds),
        (total, adds + " And a node takes at least per_node."),
        (graph_launch + total + n * per_node, "per_node is the minimum time of a node; it is not added to its kernel."),
        (graph_launch + n * per_node, "Those are the minimum times of the nodes. Some kernels take longer."),
        (graph_launch + sum(min(k, per_node) for k in kernels), "A node takes the larger of its kernel and per_node."),
        (graph_launch + max([*kernels, per_node]), "The nodes run one after another: add their times."),
        (graph_launch + max(total, n * per_node), "Take the larger of the two for each node, then add up."),
        (n * graph_launch + nodes, "A graph is launched once, however many nodes it has."),
        (n * launch + nodes, "The kernels of a graph are not launched one by one."),
        (graph_launch + n * launch + nodes, "The kernels of a graph are not launched one by one."),
        (graph_launch + n * launch, "The kernels of a graph are not launched one by one, and they take time."),
        (launch + nodes, "Launching a graph takes graph_launch, not launch."),
        (graph_launch + launch + nodes, "Launching a graph takes graph_launch, and nothing else."),
        (graph_launch, "That is only the launch. Add the nodes."),
    ]


def _examine_queue(sizes, arguments, yours) -> tuple[str, str] | None:
    expected = finish_times(**arguments)
    try:
        eager, graph = (float(v) for v in yours)
    except (TypeError, ValueError):
        return f"finish_times returned {type(yours).__name__}, not two numbers", "Return eager, graph: two times in µs."
    if close(eager, expected[0]) and close(graph, expected[1]):
        return None
    if close(eager, expected[1]) and close(graph, expected[0]):
        return "the two results are in the wrong order", "Return eager first, then graph."
    part, value, right, mistakes = (
        ("eager", eager, expected[0], _eager_mistakes(**arguments))
        if not close(eager, expected[0])
        else ("graph", graph, expected[1], _graph_mistakes(**arguments))
    )
    hint = next((text for wrong, text in mistakes if close(value, wrong)), None)
    return f"{part}: {value:.6g} µs, expected {right:.6g}", hint or (
        "Track when the GPU becomes free. Kernel i starts then, or when its launch ends, at "
        "(i + 1)·launch, whichever is later."
        if part == "eager"
        else "Add one launch and all nodes, each as long as its kernel and at least per_node."
    )


def _queue_case(name: str, **changes) -> Case:
    usual = {"count": 100, "kernel": 2, "first": 0, "last": 0, "seed": 0, "launch": 7100, "graph": 10_000, "node": 500}
    return Case(name, usual | changes)


def _draw_queue(rng) -> dict[str, int]:
    return {
        "count": rng.randrange(2, 300),
        "kernel": 1,
        "first": 0,
        "last": 0,
        "seed": rng.randrange(1, 10**6),
        "launch": rng.randrange(2000, 20_000),
        "graph": rng.randrange(5000, 30_000),
        "node": rng.randrange(300, 3000),
    }


register(
    PlainExercise(
        id=f"{UNIT}/finish_times",
        title="A queue of kernels, eager and as a graph",
        entry="finish_times",
        points=Points(correct=2),
        make=_queue_arguments,
        examine=_examine_queue,
        cases=(
            _queue_case("100 kernels of 2 µs"),
            _queue_case("100 kernels of 40 µs", kernel=40),
            _queue_case("a long kernel first, then short ones", first=300),
            _queue_case("a long kernel last", last=300),
            _queue_case("a single kernel", count=1, kernel=3),
            _queue_case("kernels shorter than a node", count=7, kernel=1, node=2500, last=30),
            _queue_case("nothing to run", count=0),
            _queue_case("20 kernels of different lengths", count=20, seed=3, node=900),
        ),
        draw=_draw_queue,
    )
)


# --- many updates in one launch ------------------------------------------------------------------------------------


def _coefficients(sizes, g) -> torch.Tensor:
    """Pairs (a, b) with |a| near 1, so that every pair still matters after 100 updates."""
    a = (0.97 + 0.06 * torch.rand(sizes["steps"], generator=g)) * (
        1 - 2 * (torch.rand(sizes["steps"], generator=g) < 0.3)
    )
    return torch.stack([a, torch.randn(sizes["steps"], generator=g)], 1)


def chain(x, coef):
    for a, b in coef:
        x = a * x + b
    return x


def _absolute_chain(x, coef):
    return chain(x.abs(), coef.abs())


def _chain_case(name: str, n: int, steps: int, *arguments, **options) -> Case:
    return Case(name, {"n": n, "steps": steps, "pair": 2}, *arguments, **options)


register(
    KernelExercise(
        id=f"{UNIT}/chain",
        title="A hundred updates in one launch",
        entry="chain",
        points=Points(
            correct=2,
            bounds=(
                Bound("bytes moved, relative to the minimum", "moved_bytes", per="compulsory_bytes", at_most=1.05),
            ),
        ),
        arguments={"x": array("n"), "coef": array("steps", "pair", fill=_coefficients), "out": out("n")},
        reference=chain,
        magnitude=_absolute_chain,
        contract=Contract(terms=lambda sizes: 2 * sizes["steps"] + 2),
        cost=lambda sizes, item: Cost(
            item * (sizes["n"] + 2 * sizes["steps"]), item * sizes["n"], 2 * sizes["n"] * sizes["steps"]
        ),
        cases=(
            _chain_case("one element, one step", 1, 1),
            _chain_case("one element, three steps", 1, 3),
            _chain_case("n = 7, three steps", 7, 3, "position"),
            _chain_case("n = 1023, one step", 1023, 1, "position"),
            _chain_case("n = 1023, three steps", 1023, 3, "integers"),
            _chain_case("n = 1025, a hundred steps", 1025, 100, "position"),
            _chain_case("n = 5000, not aligned to 16 bytes", 5000, 3, layout="offset"),
            _chain_case("n = 3000, values up to ten thousand", 3000, 20, "large"),
            _chain_case("n = 98432, twenty steps", 98_432, 20),
        ),
        draw=lambda rng: {"n": rng.choice([1, 700, 1024, 4099, 20_011]), "steps": rng.randrange(1, 120), "pair": 2},
        tiny=_chain_case("eight elements, two steps", 8, 2, "integers"),
        bench={"n": 2**26, "steps": 100, "pair": 2},
        known_mistakes=(
            KnownMistake(
                "wrong-formula",
                "{name} applies the pairs in reverse order: start with coef[0]",
                lambda x, coef: chain(x, coef.flip(0)),
            ),
            KnownMistake(
                "missing-accumulation",
                "{name} is a·x + b with only the last pair: each step must use the result of the previous one",
                lambda x, coef: chain(x, coef[-1:]),
            ),
            KnownMistake(
                "missing-accumulation",
                "{name} is a·x + b with only the first pair: the other steps are missing",
                lambda x, coef: chain(x, coef[:1]),
            ),
            KnownMistake(
                "wrong-formula",
                "{name} is b·x + a: the first number of a pair is a, the second b",
                lambda x, coef: chain(x, coef.flip(1)),
            ),
            KnownMistake(
                "wrong-formula",
                "{name} is a·(x + b): multiply first, then add",
                lambda x, coef: _added_first(x, coef),
            ),
            KnownMistake(
                "wrong-formula",
                "{name} does not use b: each step is a·x + b",
                lambda x, coef: chain(x, coef * torch.tensor([1.0, 0.0], dtype=coef.dtype)),
            ),
            KnownMistake(
                "wrong-formula",
                "{name} misses the last step",
                lambda x, coef: chain(x, coef[:-1]),
            ),
            KnownMistake(
                "wrong-formula",
                "{name} misses the first step",
                lambda x, coef: chain(x, coef[1:]),
            ),
            KnownMistake(
                "wrong-formula",
                "{name} uses the first pair in every step: pair i starts at coef_ptr + 2 * i",
                lambda x, coef: chain(x, coef[:1].expand(len(coef), 2)),
            ),
            KnownMistake(
                "wrong-formula",
                "{name} reads a and b at i and i + 1: pair i starts at coef_ptr + 2 * i",
                lambda x, coef: chain(
                    x, torch.stack([coef.flatten()[: len(coef)], coef.flatten()[1 : 1 + len(coef)]], 1)
                ),
            ),
            KnownMistake(
                "wrong-formula",
                "{name} reads coef as all a, then all b; its rows are pairs: pair i starts at coef_ptr + 2 * i",
                lambda x, coef: chain(x, coef.reshape(2, -1).T),
            ),
            KnownMistake(
                "wrong-formula",
                "{name} uses the original x in every step: use the result of the previous step",
                lambda x, coef: x + sum(a * x + b for a, b in coef),
            ),
        ),
    )
)


def _added_first(x, coef):
    for a, b in coef:
        x = a * (x + b)
    return x


# --- pages of unified memory ---------------------------------------------------------------------------------------

_K = 1024
SCRIPTS = (
    ("the GPU reads 8192 bytes", [("gpu", 0, 8191, False)]),
    ("two bytes, on two pages", [("gpu", 4095, 4096, False)]),
    ("one byte", [("gpu", 8192, 8192, False)]),
    ("back and forth", [("gpu", 0, 12_287, False), ("host", 0, 5000, False), ("gpu", 0, 12_287, False)]),
    ("prefetched, then read", [("gpu", 0, 64 * _K - 1, True), ("gpu", 0, 64 * _K - 1, False)]),
    ("half of it prefetched", [("gpu", 0, 32 * _K - 1, True), ("gpu", 0, 64 * _K - 1, False)]),
    ("the host reads its own pages", [("host", 0, 64 * _K - 1, False), ("host", 5000, 9000, True)]),
    (
        "results prefetched back",
        [("gpu", 100, 20_000, False), ("host", 0, 12_287, True), ("host", 0, 20_479, False), ("gpu", 0, 0, False)],
    ),
)


def _accesses(script: int, seed: int) -> list[tuple]:
    if not seed:
        return list(SCRIPTS[script][1])
    rng, made = random.Random(seed), []
    for _ in range(rng.randrange(3, 12)):
        first = rng.randrange(0, 300_000)
        made.append((rng.choice(["gpu", "host"]), first, first + rng.randrange(0, 60_000), rng.random() < 0.3))
    return made


def _migration_arguments(script: int, seed: int, page: int) -> dict:
    return {"accesses": _accesses(script, seed), "page": page}


def migrations(
    accesses, page: int, *, pages_of=None, prefetch_faults=False, back=True, again=False, start=()
) -> tuple[int, int, int]:
    """(pages moved to the GPU, pages moved to the host, faults); the options are common mistakes."""
    on_gpu: set = set(start)
    moved, faults = {"gpu": 0, "host": 0}, 0
    for side, first, last, prefetch in accesses:
        for p in (pages_of or _pages)(first, last, page):
            if (p in on_gpu) == (side == "gpu") and not (again and side == "gpu"):
                continue
            moved[side] += 1
            faults += not prefetch or prefetch_faults
            if side == "gpu":
                on_gpu.add(p)
            elif back:
                on_gpu.discard(p)
    return moved["gpu"], moved["host"], faults


def _pages(first: int, last: int, page: int) -> range:
    return range(first // page, last // page + 1)


PAGE_RANGES = (
    lambda first, last, page: range(first // page, first // page + -(-(last - first + 1) // page)),
    lambda first, last, page: range(first // page, first // page + (last - first + 1) // page),
    lambda first, last, page: range(first // page, first // page + -(-(last - first) // page)),
    lambda first, last, page: range(first // page, last // page),
    lambda first, last, page: range(first // page, -(-last // page)),
    lambda first, last, page: range(first // page, (last + 1) // page + 1),
    lambda first, last, page: range(first // page, last // page + 2),
    lambda first, last, page: range(-(-first // page), last // page + 1),
    lambda first, last, page: range(first // page + 1, last // page + 1),
)
"""Wrong ways to compute which pages an access touches."""


def _one_fault_an_access(accesses, page: int) -> tuple:
    right, seen, faults = migrations(accesses, page), [], 0
    for access in accesses:
        before, seen = migrations(seen, page)[2], [*seen, access]
        faults += migrations(seen, page)[2] > before
    return right[0], right[1], faults


def _faults_of(accesses, page: int, side: str) -> int:
    """Faults caused by accesses of one side."""
    seen, faults = [], 0
    for access in accesses:
        before, seen = migrations(seen, page)[2], [*seen, access]
        faults += (migrations(seen, page)[2] - before) * (access[0] == side)
    return faults


def _migration_mistakes(accesses, page: int) -> list[tuple[tuple, str]]:
    up, down, faults = migrations(accesses, page)
    prefetch = "A prefetch moves pages without faults; an access to pages that are already there causes none either."
    whole = "An access touches pages first // page to last // page, inclusive: two bytes can be on two pages."
    host = "When the host touches a page on the GPU, it moves back and is no longer on the GPU."
    one = "Count a fault for each page that either side touches while it is on the other side."
    return [
        (migrations(accesses, page, prefetch_faults=True), prefetch),
        (migrations([a for a in accesses if not a[3]], page), prefetch),
        (migrations([a for a in accesses if a[0] == "gpu"], page), host),
        (migrations(accesses, page, back=False), host),
        ((up, 0, faults), host),
        (migrations(accesses, page, again=True), "A page that is already there does not move again."),
        (_one_fault_an_access(accesses, page), one),
        ((up, down, _faults_of(accesses, page, "gpu")), one),
        ((up, down, _faults_of(accesses, page, "host")), one),
        ((up, down, 0), one),
        *((migrations(accesses, page, pages_of=way), whole) for way in PAGE_RANGES),
        (migrations(accesses, page, start=range(10**4)), "All pages start on the host."),
        ((down, up, faults), "The order is: to the GPU, to the host, faults."),
        ((faults, up, down), "The order is: to the GPU, to the host, faults."),
        ((up * page, down * page, faults), "Count pages, not bytes."),
        (
            migrations(accesses, page, pages_of=lambda first, last, page: range(first, last + 1)),
            "Each page counts once, however many of its bytes are touched: loop over pages, not bytes.",
        ),
    ]


def _examine_migrations(sizes, arguments, yours) -> tuple[str, str] | None:
    right = migrations(**arguments)
    if not isinstance(yours, (tuple, list)) or len(yours) != 3:
        return (
            f"migrations returned {str(yours)[:40]}",
            "Return three numbers: pages to the GPU, pages to the host, faults.",
        )
    if tuple(yours) == right:
        return None
    hint = next((text for wrong, text in _migration_mistakes(**arguments) if wrong == tuple(yours) != right), None)
    return f"{tuple(yours)}, expected {right}: pages to the GPU, pages to the host, faults", hint or (
        "All pages start on the host. For each page of each access: is it on this side? If not, it moves."
    )


register(
    PlainExercise(
        id=f"{UNIT}/migrations",
        title="Pages of unified memory",
        entry="migrations",
        points=Points(correct=1),
        make=_migration_arguments,
        examine=_examine_migrations,
        cases=tuple(
            Case(f"{name}, pages of {page // _K} KB", {"script": k, "seed": 0, "page": page})
            for k, (name, _) in enumerate(SCRIPTS)
            for page in ((4096,) if k != 4 else (4096, 64 * _K))
        ),
        draw=lambda rng: {"script": 0, "seed": rng.randrange(1, 10**6), "page": rng.choice([4096, 16 * _K, 64 * _K])},
    )
)
