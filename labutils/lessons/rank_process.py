"""One rank as a process: `python -m labutils.lessons.rank_process FOLDER RANK WORLD BACKEND`.

FOLDER holds `job.json`: a task of `TASKS`, its arguments, and the learner's functions as text (`backends.extract`). The
rank writes what its task returns to `RANK.json`. `DistributedComm` has the methods of `SimulatedComm` in
`gpu.simulated_comm`.
"""

from __future__ import annotations

import datetime
import json
import math
import os
import signal
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
import torch.distributed as dist

from labutils.backends import extract


class Exchange:
    """A send and a receive in flight."""

    def __init__(self, works: list):
        self._works = works

    def wait(self) -> None:
        for work in self._works:
            work.wait()


class DistributedComm:
    """Communication of this process with the other ranks, through `torch.distributed`."""

    def send(self, tensor: torch.Tensor, to: int) -> None:
        dist.send(tensor.contiguous(), to)

    def recv(self, buffer: torch.Tensor, source: int) -> None:
        dist.recv(buffer, source)

    def exchange(self, tensor: torch.Tensor, to: int, buffer: torch.Tensor, source: int) -> Exchange:
        pair = [dist.P2POp(dist.isend, tensor.contiguous(), to), dist.P2POp(dist.irecv, buffer, source)]
        return Exchange(dist.batch_isend_irecv(pair))

    def all_reduce(self, tensor: torch.Tensor) -> None:
        dist.all_reduce(tensor)

    def all_gather(self, tensor: torch.Tensor) -> list[torch.Tensor]:
        pieces = [torch.empty_like(tensor) for _ in range(dist.get_world_size())]
        dist.all_gather(pieces, tensor.contiguous())
        return pieces


class AloneComm:
    """Communication of a single rank: nothing to do."""

    def all_reduce(self, tensor: torch.Tensor) -> None:
        pass

    def all_gather(self, tensor: torch.Tensor) -> list[torch.Tensor]:
        return [tensor]


def _device() -> str:
    return "cuda" if dist.get_backend() == "nccl" else "cpu"


def _finish() -> None:
    if _device() == "cuda":
        torch.cuda.synchronize()


def _us(call: Callable[[], object], times: int) -> float:
    """Median µs of a call that all ranks make together. The slowest rank counts."""
    found = []
    for k in range(times + 2):
        dist.barrier()
        _finish()
        begin = time.perf_counter()
        call()
        _finish()
        if k >= 2:
            found.append(1e6 * (time.perf_counter() - begin))
    slowest = torch.tensor(statistics.median(found), device=_device())
    dist.all_reduce(slowest, dist.ReduceOp.MAX)
    return float(slowest)


# --- tasks ---------------------------------------------------------------------------------------------------------


def link(rank: int, world: int, comm: DistributedComm, large: int) -> tuple[float, float]:
    """(µs of an exchange of 4 bytes, GB/s of one direction in one of `large` bytes) with both neighbors, eight in a
    row."""
    to, source, times = (rank + 1) % world, (rank - 1) % world, []
    for count in (1, large // 4):
        x, buffer = torch.ones(count, device=_device()), torch.empty(count, device=_device())

        def eight(x=x, buffer=buffer):
            for _ in range(8):
                comm.exchange(x, to, buffer, source).wait()

        times.append(_us(eight, 7) / 8)
    return times[0], large / max(times[1] - times[0], 1e-3) / 1e3


def all_reduces(rank: int, world: int, functions: dict, sizes: list[int]) -> dict:
    """µs of the learner's all-reduce and of the library's over buffers of these bytes, and whether results are equal.

    The inputs are whole numbers, so that every order of the additions gives the same bits.
    """
    comm, ring = DistributedComm(), functions["ring_all_reduce"]
    latency, gbs = link(rank, world, comm, max(sizes))
    rows = []
    for size in sizes:
        count = size // 4
        x = (torch.arange(count, device=_device()) % 1000 + rank).float()
        expected = world * (torch.arange(count, device=_device()) % 1000).float() + world * (world - 1) // 2
        ring(rank, world, mine := x.clone(), comm)
        _finish()
        right = torch.tensor(float(torch.equal(mine, expected)), device=_device())
        dist.all_reduce(right, dist.ReduceOp.MIN)
        times = 5 if size > 1 << 22 else 15
        row = {"bytes": size, "right": bool(right)}
        row["ring_us"] = _us(lambda x=mine: ring(rank, world, x.zero_(), comm), times)
        row["library_us"] = _us(lambda x=mine: dist.all_reduce(x.zero_()), times)
        rows.append(row)
    return {"latency_us": latency, "gbs": gbs, "rows": rows}


def mlp_step(rank: int, world: int, functions: dict, tokens: int, width: int, hidden: int) -> dict:
    """ms of forward and backward of the split MLP and of the whole one on one rank, and the largest difference."""
    g = torch.Generator().manual_seed(1)
    shapes = ((width, hidden), (hidden,), (hidden, width), (width,), (tokens, width), (tokens, width))
    *whole, x, dy = (torch.randn(shape, generator=g).to(_device()) for shape in shapes)
    for w in (whole[0], whole[2]):
        w /= w.shape[0] ** 0.5
    forward, backward, shard = (functions[name] for name in ("mlp", "mlp_backward", "shard"))

    def step(part, comm):
        return forward(x, part, comm), backward(x, part, dy, comm)[0]

    mine = [piece.contiguous() for piece in shard(*whole, rank, world)]
    alone = [piece.contiguous() for piece in shard(*whole, 0, 1)]
    found, expected = step(mine, DistributedComm()), step(alone, AloneComm())
    error = max(float((a - b).abs().max() / b.abs().max()) for a, b in zip(found, expected, strict=True))
    comm, reduced = DistributedComm(), torch.empty(tokens, width, device=_device())
    return {
        "error": error,
        "split_ms": _us(lambda: step(mine, comm), 7) / 1e3,
        "whole_ms": _us(lambda: step(alone, AloneComm()), 7) / 1e3,
        "all_reduces_ms": 2 * _us(lambda: comm.all_reduce(reduced.zero_()), 7) / 1e3,
    }


TASKS = {"all_reduces": all_reduces, "mlp_step": mlp_step}


def main(folder: Path, rank: int, world: int, backend: str) -> None:
    job = json.loads((folder / "job.json").read_text())
    signal.alarm(math.ceil(job["seconds"]) + 5)  # ends this process even if the notebook that started it is gone
    torch.set_num_threads(max(1, (os.cpu_count() or 1) // world))
    own = {}
    if backend == "nccl":
        torch.cuda.set_device(rank)
        own["device_id"] = torch.device("cuda", rank)  # or barriers would guess the rank's GPU
    limit = datetime.timedelta(seconds=job["seconds"])
    meeting = f"file://{folder / 'meeting'}"
    dist.init_process_group(backend, init_method=meeting, rank=rank, world_size=world, timeout=limit, **own)
    functions = {}
    for name, (defined, parts) in job["functions"].items():
        functions[name] = extract.load([extract.Part(*p) for p in parts], f"learner_{name}")[defined]
    found = TASKS[job["task"]](rank, world, functions, **job["arguments"])
    (folder / f"{rank}.json").write_text(json.dumps(found))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
