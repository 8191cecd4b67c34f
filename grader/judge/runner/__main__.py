"""`python -m grader.judge.runner GPU MEMORY`: jobs as lines of JSON on standard input, answers on standard output.

The first line holds the helpers' machine code: it makes the context. A job is {"kind": "run"} with cases to run once or
twice, or {"kind": "race"} with two competitors; after each batch of a race the judge answers "more" or "stop". Arrays
lie in the shared memory MEMORY (the number of an open file), of which each line says the "size". After a kernel that
crashed or never ended the process says so and ends: its context is lost.
"""

from __future__ import annotations

import json
import mmap
import os
import random
import sys
from typing import NoReturn

from grader.judge.runner.clock import Race
from grader.judge.runner.driver import Buffer, Device, DriverError, Stuck, begin
from grader.judge.runner.helpers import Helpers
from grader.judge.runner.kernels import LoadedKernel, Replay

HARMLESS = ("CUDA_ERROR_OUT_OF_MEMORY", "CUDA_ERROR_INVALID_VALUE", "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES")
"""Refusals after which the context can still be used."""

_answers = None
"""What standard output was in the beginning: a kernel's printf writes there too, and what it writes is no answer."""


def own_answers() -> None:
    """Keep the way to the judge for `say` alone; whatever else is written to standard output goes nowhere."""
    global _answers
    _answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def say(**reply) -> None:
    _answers.write(json.dumps(reply) + "\n")


def lost(kind: str, why: str) -> NoReturn:
    """The context is of no more use: say so and leave, without waiting for the GPU."""
    say(lost=kind, why=why)
    _answers.flush()
    os._exit(3)


def run_case(
    device: Device, helpers: Helpers, kernels: list[LoadedKernel], case: dict, memory: memoryview, limit: float
):
    """One case: launch, copy back what it left; a second time if asked, to see whether the bits are the same."""
    arrays = {}
    for number, a in enumerate(case["arguments"]):
        if "number" not in a:
            arrays[number] = Buffer(device, a["bytes"])
            arrays[number].write(memory[a["at"] : a["at"] + a["bytes"]])
    outputs = [n for n, a in enumerate(case["arguments"]) if a.get("output")]
    before = {n: bytes(_of(case, n, memory)) for n in outputs}
    replay = Replay(device, case["plan"], kernels, arrays, helpers, {k: case["turn"] for k in range(64)})
    unstable = False
    try:
        replay.poison(random.SystemRandom().getrandbits(32))
        replay.run()
        device.wait(limit)
        for number, b in arrays.items():
            b.read(_of(case, number, memory))
        if case["twice"]:
            for n in outputs:
                arrays[n].write(memoryview(bytearray(before[n])))
            for kernel in replay.used():
                if kernel.has_state:
                    kernel.load()
            replay.poison(random.SystemRandom().getrandbits(32))
            replay.run()
            device.wait(limit)
            for n in outputs:
                again = bytearray(case["arguments"][n]["bytes"])
                arrays[n].read(memoryview(again))
                unstable = unstable or again != bytes(_of(case, n, memory))
    finally:
        for b in arrays.values():
            b.free()
        replay.free()
    return unstable


def _of(case: dict, number: int, memory: memoryview) -> memoryview:
    a = case["arguments"][number]
    return memory[a["at"] : a["at"] + a["bytes"]]


def run(device: Device, helpers: Helpers, job: dict, memory: memoryview) -> None:
    kernels = [LoadedKernel(device, k) for k in job["kernels"]]
    for number, case in enumerate(job["cases"]):
        try:
            unstable = run_case(device, helpers, kernels, case, memory, job["time_limit"])
            say(case=number, unstable=unstable)
        except Stuck:
            lost("timeout", "the kernel did not come to an end")
        except DriverError as e:
            if e.name.startswith("CUDA_ERROR_") and e.name not in (
                "CUDA_ERROR_OUT_OF_MEMORY",
                "CUDA_ERROR_INVALID_VALUE",
            ):
                lost("died", f"the GPU stopped the kernel: {e}")
            say(case=number, refused=f"the GPU does not take this launch: {e}")
    say(done=True)


def race(device: Device, helpers: Helpers, job: dict, memory: memoryview) -> None:
    try:
        race = Race(device, helpers, job, memory)
        race.warm_up()
        for seconds in race.batches():
            say(seconds=seconds)
            if sys.stdin.readline().strip() != "more":
                break
        say(**race.outcome(memory), done=True)
        race.free()
    except Stuck:
        lost("timeout", "a timed kernel did not come to an end")
    except DriverError as e:
        lost("died", f"the GPU stopped a timed kernel: {e}")


def mapped(file: int, size: int) -> memoryview:
    """The shared memory, with a page behind every address: the faults of a gigabyte of outputs take a quarter of a
    second, and what is mapped when the runner begins costs the GPU none of it."""
    return memoryview(mmap.mmap(file, size, flags=mmap.MAP_SHARED | mmap.MAP_POPULATE))


def main() -> None:
    own_answers()
    begin()
    say(ready=True)
    if not (line := sys.stdin.readline()):  # nothing came as far as the GPU
        return
    first, device = json.loads(line), Device(int(sys.argv[1]))
    helpers = Helpers(device, first["helpers"])
    size, memory = first["size"], mapped(int(sys.argv[2]), first["size"])
    for line in sys.stdin:
        job = json.loads(line)
        if job["size"] != size:
            size, memory = job["size"], mapped(int(sys.argv[2]), job["size"])
        (race if job["kind"] == "race" else run)(device, helpers, job, memory)


if __name__ == "__main__":
    main()
