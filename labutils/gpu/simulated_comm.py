"""Ranks in one process: a function runs once per rank, each in a thread, over simulated links.

One thread runs at a time, so a run is the same every time. `SimulatedComm` has the methods of
`lessons.rank_process.DistributedComm`; `run` returns the calls of every rank as data, for `links.simulate`.

Until a receive is complete, its buffer holds `POISON`: a sum that contains it was computed too early.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from .links import GBS, LATENCY_US, BadLog, Call, Mismatch, Report, read, simulate

POISON = -(10**15)
"""Content of a buffer whose data has not arrived: far from any sum of the exercises' inputs."""


class _Stopped(BaseException):
    """Ends a rank's thread after the run is over."""


class Exchange:
    """A send and a receive in flight: `wait` returns when both are complete."""

    def __init__(self, comm: SimulatedComm, call: Call, buffer: torch.Tensor, sent: torch.Tensor):
        self._comm, self._call, self._buffer, self._sent = comm, call, buffer, sent
        self._complete = False

    def wait(self) -> None:
        if self._complete:
            return
        if self._comm.values(self._sent) != self._call.values:
            raise RuntimeError("a tensor was changed while exchange() was sending it: call wait() first")
        self._comm.post(Call("wait", number=self._call.number))
        self._comm.fill(self._buffer, self._call.arrived)
        self._complete = True


class SimulatedComm:
    """Communication of one rank. Tensors are sent as they are when a call is made."""

    def __init__(self, rank: int, world: int, post: Callable[[Call], None]):
        self.rank, self.world, self.post = rank, world, post
        self._exchanges = 0

    def send(self, tensor: torch.Tensor, to: int) -> None:
        """Return when rank `to` has received the tensor."""
        self.post(Call("send", to=int(to), values=self.values(tensor)))

    def recv(self, buffer: torch.Tensor, source: int) -> None:
        """Overwrite the buffer with what rank `source` sends, and return."""
        call = Call("recv", source=int(source), count=_tensor(buffer, "recv").numel())
        self.post(call)
        self.fill(buffer, call.arrived)

    def exchange(self, tensor: torch.Tensor, to: int, buffer: torch.Tensor, source: int) -> Exchange:
        """Start to send the tensor to rank `to` and to receive from `source` into the buffer; return at once."""
        count = _tensor(buffer, "exchange").numel()
        call = Call("exchange", int(to), self.values(tensor), int(source), count, self._exchanges)
        self._exchanges += 1
        self.fill(buffer, [POISON] * count)
        self.post(call)
        return Exchange(self, call, buffer, tensor)

    def all_reduce(self, tensor: torch.Tensor) -> None:
        """Replace the tensor by its sum over all ranks, on all ranks."""
        call = Call("all_reduce", values=self.values(tensor))
        self.post(call)
        self.fill(tensor, call.arrived)

    def all_gather(self, tensor: torch.Tensor) -> list[torch.Tensor]:
        """The tensors of all ranks, in the order of the ranks."""
        call = Call("all_gather", values=self.values(tensor))
        self.post(call)
        pieces = torch.tensor(call.arrived, dtype=tensor.dtype).reshape(self.world, *tensor.shape)
        return list(pieces.unbind(0))

    def values(self, tensor: torch.Tensor) -> list:
        return _tensor(tensor, "send").flatten().tolist()

    def fill(self, buffer: torch.Tensor, values: list) -> None:
        buffer.copy_(torch.tensor(values, dtype=buffer.dtype).reshape(buffer.shape))


def _tensor(value, call: str) -> torch.Tensor:
    if not isinstance(value, torch.Tensor):
        raise TypeError(f"{call}() needs a tensor, not {type(value).__name__}")
    return value


class _Thread:
    """A rank as an iterator of calls: resumed, its thread runs until its next call or its end."""

    def __init__(self, work: Callable[[Callable[[Call], None]], Any]):
        self._work, self._go, self._paused = work, threading.Semaphore(0), threading.Semaphore(0)
        self._call: Call | None = None
        self._over = False
        self.result: Any = None
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        try:
            self._go.acquire()
            if not self._over:
                self.result = self._work(self._post)
        except _Stopped:
            pass
        except BaseException as e:  # it is raised again where `run` was called
            self.error = e
        self._call = None
        self._paused.release()

    def _post(self, call: Call) -> None:
        self._call = call
        self._paused.release()
        self._go.acquire()
        if self._over:
            raise _Stopped

    def calls(self) -> Iterator[Call]:
        self._thread.start()
        while True:
            self._go.release()
            while not self._paused.acquire(timeout=0.1):
                pass  # so that a time limit's signal, which only the main thread handles, is not kept waiting
            if self.error is not None:
                raise self.error
            if self._call is None:
                return
            yield self._call

    def stop(self) -> None:
        if self._thread.is_alive():
            self._over = True
            self._go.release()
            self._thread.join(1.0)


def run(function: Callable[[int, SimulatedComm], Any], world: int) -> dict:
    """Call `function(rank, comm)` on every rank. What happened, as data:

    {"log": calls of each rank, "results": what each rank returned, or None if it never did}
    or {"mismatch": [symptom, advice]} where two calls do not fit.
    """
    threads = [
        _Thread(lambda post, rank=rank: function(rank, SimulatedComm(rank, world, post))) for rank in range(world)
    ]
    calls: list[list[Call]] = [[] for _ in threads]

    def kept(rank: int) -> Iterator[Call]:
        for call in threads[rank].calls():
            calls[rank].append(call)
            yield call

    try:
        report = simulate([kept(rank) for rank in range(world)])
    except Mismatch as e:
        return {"mismatch": [e.symptom, e.advice]}
    finally:
        for thread in threads:
            thread.stop()
    return {
        "log": [[c.to_log() for c in own] for own in calls],
        "results": [None if rank in report.stuck else t.result for rank, t in enumerate(threads)],
    }


def replay(outcome, gbs: float = GBS, latency_us: float = LATENCY_US) -> Report:
    """The report of a log that `run` returned. Raises BadLog, Mismatch."""
    if not isinstance(outcome, dict) or not ("mismatch" in outcome or {"log", "results"} <= set(outcome)):
        raise BadLog(f"it is {type(outcome).__name__}, not what the given code returns")
    if "mismatch" in outcome:
        symptom, advice = _two(outcome["mismatch"])
        raise Mismatch(symptom, advice)
    return simulate(read(outcome["log"]), gbs, latency_us)


def _two(texts) -> Sequence[str]:
    if not isinstance(texts, (list, tuple)) or len(texts) != 2 or not all(isinstance(t, str) for t in texts):
        raise BadLog("its mismatch is not two sentences")
    return texts
