"""Launches, graphs and copies of unit 21: what its models predict, and what the GPU takes.

python -m bench.launch [--json FILE]

Host costs; 100 kernels of about 2 µs eager and as a graph; ten of the plans in bench/plans.toml; a pipeline of 32
pieces beside the bound of its busiest engine; a step eager, as a graph and compiled; unified memory.
"""

from __future__ import annotations

import argparse
import json
import sys
import tomllib
from dataclasses import asdict
from pathlib import Path

from bench.common import solution
from bench.machine import present, versions
from labutils.exercises.launch_plans import plain_step
from labutils.gpu.queue_times import Costs, Work, simulate

UNIT = "21_launch_overhead"
ELEMENTS = 1 << 22
"""Floats of a piece: 16 MB."""
KERNEL_US = 400.0
PIECES = 32
WORDS = {"in": "copy_in", "k": "kernel", "out": "copy_out", "rec": "record", "sync": "synchronize"}


def plans() -> list[dict]:
    """The plans of bench/plans.toml: name, operations, `work`, `costs`, finish (µs), gpu."""
    found = []
    for entry in tomllib.loads(Path(__file__).with_name("plans.toml").read_text(encoding="utf-8"))["plan"]:
        work = Work(entry.get("copy_in", 100), entry.get("kernel", 200), entry.get("copy_out", 50))
        operations = parse(entry["plan"])
        more = {"operations": operations, "work": work, "costs": Costs(**entry.get("costs", {}))}
        found.append({"gpu": False} | entry | more)
    return found


def parse(text: str) -> list[list]:
    """A plan's operations from the notation of bench/plans.toml."""
    operations = []
    for part in filter(None, (p.split() for p in text.split(";"))):
        numbers = [int(word.removeprefix("@")) for word in part[1:]]
        operations.append([WORDS.get(part[0], part[0]), *numbers])
    return operations


# --- measurements --------------------------------------------------------------------------------------------------


def measure() -> dict:
    from labutils.lessons import cuda_queues, launches

    unit = solution(UNIT)
    costs = cuda_queues.costs()
    print("host, µs:", ", ".join(f"{name} {value:.2f}" for name, value in asdict(costs).items()))
    found = {"costs": asdict(costs), "hundred": launches.hundred_us(unit.finish_times, unit.chain)}
    for name, us in found["hundred"].items():
        print(f"  {name:18} {us:8.2f} µs")
    for way in ("eager", "graph"):
        times = found["hundred"]
        print(f"  {way}: predicted / measured {times[f'{way}, predicted'] / times[f'{way}, measured']:.3f}")
    found["plans"] = measure_plans(costs)
    found["pipeline"] = measure_pipeline(unit, costs)
    found["step"] = measure_step(unit)
    try:
        found["managed"] = launches.managed_ms()
        print("managed memory, ms:", found["managed"])
    except (ImportError, RuntimeError) as e:
        print(f"managed memory: {e}")
    return found


def measure_plans(costs: Costs) -> list[dict]:
    """Ten plans: the time that the simulation gives with times measured one by one, and the time of the whole."""
    from labutils.lessons import cuda_queues

    steps = cuda_queues.steps_for(KERNEL_US, ELEMENTS)
    machine = cuda_queues.CudaQueues(3, ELEMENTS, steps)
    work = cuda_queues.work(machine)
    idle = _latency(costs)
    print(
        f"a piece, µs: copy in {work.copy_in:.0f}, kernel {work.kernel[0]:.0f}, copy out {work.copy_out:.0f}; ", end=""
    )
    print(f"beginning and waking up {idle:.0f}")
    rows = []
    for plan in plans():
        if not plan["gpu"]:
            continue
        predicted = simulate(plan["operations"], work, costs).finish + idle
        measured = 1e6 * cuda_queues.plan_seconds(plan["operations"], machine, 31)
        rows.append({"name": plan["name"], "predicted_us": predicted, "measured_us": measured})
        print(f"  {plan['name']:34} {predicted:8.0f} {measured:8.0f} µs   {predicted / measured:.3f}", flush=True)
    return rows


def _latency(costs: Costs) -> float:
    """µs that a plan takes beyond its model: until an idle GPU begins, and until the host notices the end."""
    from labutils.lessons import cuda_queues

    machine = cuda_queues.CudaQueues(1, 256, 1)
    plan = parse("k 0 0 @0; sync")
    alone = cuda_queues.work(machine).kernel[0]
    return 1e6 * cuda_queues.plan_seconds(plan, machine) - simulate(plan, Work(kernel=alone), costs).finish


def measure_pipeline(unit, costs: Costs) -> dict:
    """A long pipeline whose kernel is as long as a copy, predicted and measured: with three streams, with one stream,
    and without copies out.

    The bound is the time of the busiest engine while all work. Copies of both directions share the link, so a copy in
    and a copy out at the same time take longer than one of them.
    """
    from labutils.lessons import cuda_queues

    machine = cuda_queues.CudaQueues(2, ELEMENTS, 1)
    copy = cuda_queues.work(machine).copy_in
    machine = cuda_queues.CudaQueues(PIECES, ELEMENTS, cuda_queues.steps_for(copy, ELEMENTS))
    work, both = cuda_queues.work(machine), _both_ways(machine)
    each = work.copy_in, work.kernel[0], work.copy_out
    together = Work(max(both, each[0]), work.kernel, max(both, each[2]))
    plan = unit.pipeline_plan(PIECES)
    ways = {  # plan, times of its work, bound of a piece
        "three streams": (plan, together, max(both, each[1])),
        "copies in and kernels": ([o for o in plan if o[0] != "copy_out"], work, max(each[:2])),
        "one stream": (parse(_serial(PIECES)), work, sum(each)),
    }
    found = {"alone": each, "both directions": both}
    for name, (operations, times, bound) in ways.items():
        predicted = simulate(operations, times, costs).finish
        measured = 1e6 * cuda_queues.plan_seconds(operations, machine, 9)
        wrong = machine.wrong() if name != "copies in and kernels" else []
        found[name] = {"predicted_us": predicted, "measured_us": measured, "wrong": wrong}
        found[name]["share_of_bound"] = PIECES * bound / measured
        print(f"  {name:34} {predicted:8.0f} {measured:8.0f} µs   {predicted / measured:.3f}; wrong: {wrong}; ", end="")
        print(f"{PIECES * bound / measured:.3f} of the bound, {PIECES * bound:.0f} µs")
    return found


def _serial(pieces: int) -> str:
    return (
        "pin; "
        + "; ".join(f"in {p} {p % 2} @0; k {p} {p % 2} @0; out {p} {p % 2} @0" for p in range(pieces))
        + "; sync"
    )


def _both_ways(machine) -> float:
    """µs of a copy in and a copy out that run at the same time, for each pair: they share the link and the memories."""
    from labutils.lessons import cuda_queues

    count = 8
    plan = "pin; " + "; ".join(f"in {k} 0 @0; out {k} 1 @1" for k in range(count)) + "; sync"
    return 1e6 * cuda_queues.plan_seconds(parse(plan), machine) / count


def measure_step(unit) -> dict | None:
    """µs a step: as it was, repaired, as a graph, and compiled."""
    import torch

    from labutils.lessons import graphs

    found = graphs.race(unit.wobbly, unit.steady)
    x, weight, running, _ = graphs._arguments(64, 256).values()
    try:
        compiled = torch.compile(plain_step, mode="reduce-overhead")  # a step in place is left out of graphs
        with torch.no_grad():
            for _ in range(3):
                compiled(x, weight, running)
            found["torch.compile, reduce-overhead"] = graphs._us(lambda: compiled(x, weight, running))
        print(f"  torch.compile, reduce-overhead {found['torch.compile, reduce-overhead']:.1f} µs")
    except Exception as e:  # a compiler that fails is a finding
        print(f"  torch.compile: {type(e).__name__}: {str(e)[:100]}")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.launch", description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, help="also write the figures here")
    arguments = parser.parse_args()
    if not present():
        return 0
    found = measure()
    if arguments.json:
        arguments.json.write_text(json.dumps({"versions": versions(), **found}, indent=1), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
