"""Ranks as processes in unit 23: NCCL where there are two GPUs or more, else gloo on the CPU.

from labutils import distributed
distributed.race(ring_all_reduce, all_reduce_us)      your ring, the library's all-reduce and your prediction
distributed.mlp_step(shard, mlp, mlp_backward)        a step of the split MLP beside the whole one

Ranks are processes with a time limit: one that hangs or fails is ended with the others, and a sentence says so.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from .. import environment
from ..backends import extract

__all__ = ["RanksFailed", "mlp_step", "race", "run"]

SECONDS = 90.0
"""Time limit of a run, with the start of the processes: importing PyTorch takes a few seconds."""


class RanksFailed(RuntimeError):
    """A rank failed or hung; the message says which."""


def backend_and_world() -> tuple[str, int]:
    """("nccl", GPUs up to 8), or ("gloo", 2 to 4 processes)."""
    import torch

    if (gpus := torch.cuda.device_count()) >= 2 and torch.distributed.is_nccl_available():
        return "nccl", min(gpus, 8)
    return "gloo", max(2, min(4, os.cpu_count() or 1))


def run(
    task: str, functions: Mapping[str, Callable], arguments: Mapping, backend: str, world: int, seconds: float = SECONDS
) -> list[dict]:
    """What a task of `rank_process` returns on each rank. Raises RanksFailed."""
    try:
        texts = {
            name: [extract.plain_function(fn).__name__, extract.module_parts(fn)] for name, fn in functions.items()
        }
    except extract.NotExtractable as e:
        raise RanksFailed(str(e)) from None
    job = {"task": task, "functions": texts, "arguments": dict(arguments), "seconds": seconds}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "job.json").write_text(json.dumps(job))
        processes = [_started(folder, rank, world, backend) for rank in range(world)]
        try:
            _wait(processes, folder, seconds)
        finally:
            for process in processes:
                process.kill()
                process.wait()
        return [json.loads((folder / f"{rank}.json").read_text()) for rank in range(world)]


def _started(folder: Path, rank: int, world: int, backend: str) -> subprocess.Popen:
    package = str(Path(__file__).parents[2])
    variables = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, [package, os.environ.get("PYTHONPATH")]))}
    if backend == "gloo":
        variables.setdefault("GLOO_SOCKET_IFNAME", "lo")  # all ranks are here, so no other network is needed
    command = [sys.executable, "-m", "labutils.lessons.rank_process", str(folder), str(rank), str(world), backend]
    with (folder / f"{rank}.txt").open("wb") as output:
        return subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, env=variables, cwd=folder)


def _wait(processes: list[subprocess.Popen], folder: Path, seconds: float) -> None:
    """Until all have ended well. Raises RanksFailed when one fails, or when time is up."""
    end = time.monotonic() + seconds
    while True:
        codes = [process.poll() for process in processes]
        if failed := [rank for rank, code in enumerate(codes) if code]:
            outputs = {rank: folder / f"{rank}.txt" for rank in failed}
            first = min(failed, key=lambda rank: outputs[rank].stat().st_mtime)  # others may fail because of it
            raise RanksFailed(f"rank {first} failed: {_last_line(outputs[first])}")
        if all(code == 0 for code in codes):
            return
        if time.monotonic() > end:
            open_ = [str(rank) for rank, code in enumerate(codes) if code is None]
            ranks = f"rank{'s' * (len(open_) > 1)} {', '.join(open_)}"
            raise RanksFailed(f"{ranks} did not return within {seconds:g} s: does each send meet a receive?")
        time.sleep(0.05)


def _last_line(path: Path) -> str:
    lines = [line.strip() for line in path.read_text(errors="replace").splitlines() if line.strip()]
    errors = [line for line in lines if re.match(r"(\[rank\d+\]: )?[\w.]*(Error|Exception)\b", line)]
    return re.sub(r"^\[rank\d+\]: ", "", (errors or lines or ["it printed nothing"])[-1])[:300]


# --- unit 23 -------------------------------------------------------------------------------------------------------


def sizes_for(backend: str) -> list[int]:
    """Bytes of the buffers that are timed."""
    return [1 << k for k in ((12, 16, 20, 24, 28) if backend == "nccl" else (12, 16, 20, 24))]


def race_us(ring_all_reduce: Callable, all_reduce_us: Callable, backend: str, world: int) -> dict:
    """The link's latency and bandwidth, and for each size µs of ring and library beside the predicted ring."""
    functions = {"ring_all_reduce": ring_all_reduce}
    found = run("all_reduces", functions, {"sizes": sizes_for(backend)}, backend, world)[0]
    for row in found["rows"]:
        row["predicted_us"] = all_reduce_us(row["bytes"], world, 2 * found["gbs"], found["latency_us"])[0]
    return {"backend": backend, "world": world} | found


def race(ring_all_reduce: Callable, all_reduce_us: Callable) -> None:
    """Your all-reduce and the library's in processes, beside the prediction for this machine's links."""
    if environment.grading_in_progress():
        return
    backend, world = backend_and_world()
    try:
        found = race_us(ring_all_reduce, all_reduce_us, backend, world)
    except RanksFailed as e:
        print(f"No times: {e}")
        return
    where = "GPUs" if backend == "nccl" else "processes on this CPU"
    print(f"{world} {where}, {backend}: {found['latency_us']:.0f} µs and {found['gbs']:.3g} GB/s for an exchange")
    print(f"{'bytes':>12} {'predicted':>12} {'your ring':>12} {'library':>12}   bus bandwidth of your ring")
    for row in found["rows"]:
        bus = 2 * (world - 1) / world * row["bytes"] / row["ring_us"] / 1e3
        times = " ".join(f"{row[name]:9.0f} µs" for name in ("predicted_us", "ring_us", "library_us"))
        print(f"{row['bytes']:12,} {times}   {bus:.3g} GB/s{'' if row['right'] else '   WRONG RESULT'}")


def mlp_figures(shard: Callable, mlp: Callable, mlp_backward: Callable, backend: str, world: int) -> dict:
    """ms of a step of the split MLP and of the whole one, and their largest relative difference."""
    functions = {"shard": shard, "mlp": mlp, "mlp_backward": mlp_backward}
    tokens, width = (4096, 4096) if backend == "nccl" else (256, 512)
    arguments = {"tokens": tokens, "width": width, "hidden": 4 * width}
    found = run("mlp_step", functions, arguments, backend, world)
    return {"backend": backend, "world": world} | arguments | found[0] | {"error": max(f["error"] for f in found)}


def mlp_step(shard: Callable, mlp: Callable, mlp_backward: Callable) -> None:
    """A step of the split MLP in processes, beside the whole MLP in one process."""
    if environment.grading_in_progress():
        return
    backend, world = backend_and_world()
    world = 2 if backend == "gloo" else 1 << (world.bit_length() - 1)  # width and hidden must be divisible
    try:
        found = mlp_figures(shard, mlp, mlp_backward, backend, world)
    except RanksFailed as e:
        print(f"No times: {e}")
        return
    print(f"{found['tokens']} tokens, width {found['width']}, hidden {found['hidden']}; {world} ranks, {backend}")
    print(f"  whole, on one rank    {found['whole_ms']:9.2f} ms")
    reduces = f"of which two all-reduces {found['all_reduces_ms']:.2f}"
    print(f"  split                 {found['split_ms']:9.2f} ms, {reduces}")
    print(f"  largest difference    {found['error']:.1e} of the largest element")
