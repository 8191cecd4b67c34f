"""Unit 21's machine on a real GPU: the methods of `QueueRecorder`, each of which makes the call."""

from __future__ import annotations

import functools
import statistics
import time
from collections.abc import Callable, Sequence

from .. import cuda
from ..cuda.signature import convert
from ..gpu import device
from ..gpu.queue_times import ENGINES, Costs, Span, Work
from ..gpu.queues import WORK

ITERATE = """
extern "C" __global__ void iterate(const float* x, float* y, int n, int steps) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float v = x[i];
    for (int k = 0; k < steps; ++k) v = fmaf(v, 0.999f, 0.5f);
    y[i] = v;
}
"""
"""`steps` iterations per element: a kernel that fills the GPU and runs as long as you choose."""


class _Iterate:
    """Launches `iterate` with arguments that are already converted: only the driver's call."""

    def __init__(self, elements: int):
        from cuda.bindings import driver

        self._driver, self.elements, self.blocks = driver, elements, -(-elements // 256)
        self._kernel = cuda.compile(ITERATE, "iterate")
        self._function = cuda.kernel._function(self._kernel, device.current().sm)

    def prepared(self, x, y, steps: int) -> Callable[[int], None]:
        """A function that launches y = iterate(x) in the stream with this handle."""
        converted = convert(self._kernel.signature, (x, y, self.elements, steps), "cuda")
        arguments = tuple(v for v, _ in converted), tuple(t for _, t in converted)
        launch, function, blocks = self._driver.cuLaunchKernel, self._function, self.blocks
        return lambda stream: launch(function, blocks, 1, 1, 256, 1, 1, 0, stream, arguments, 0)


class CudaQueues:
    """Pieces of `elements` floats through two slots on this GPU. `steps` is the kernel's work for an element,
    a number or one for each piece. `timed`: events around each piece of work, read by `spans`."""

    def __init__(self, pieces: int, elements: int, steps: int | Sequence[int], slots: int = 2, timed: bool = False):
        import torch

        self._torch, self.elements, self.timed = torch, elements, timed
        self.steps = list(steps) if isinstance(steps, Sequence) else [steps] * pieces
        self.inputs = [torch.randn(elements) for _ in range(pieces)]
        self.outputs = [torch.empty(elements) for _ in range(pieces)]
        self._x, self._y = ([torch.zeros(elements, device="cuda") for _ in range(slots)] for _ in range(2))
        self._pinned_in = [x.pin_memory() for x in self.inputs]
        self._pinned_out = [torch.empty(elements, pin_memory=True) for _ in range(pieces)]
        self._marks: list[tuple] = []
        self._calls: list[tuple] = []
        self._capturing = None
        self._iterate = _Iterate(elements)
        self._launches = {
            (slot, many): self._iterate.prepared(x, y, many)
            for slot, (x, y) in enumerate(zip(self._x, self._y, strict=True))
            for many in set(self.steps)
        }
        self._pool: list = []
        self._begin = torch.cuda.Event(enable_timing=True)
        torch.cuda.synchronize()
        self.restart()

    def restart(self) -> None:
        """Clear the timings and start the clock; the GPU is idle now."""
        self._marks.clear()
        self._calls.clear()
        while self.timed and len(self._pool) < 6 * len(self.inputs):
            self._pool.append(self._torch.cuda.Event(enable_timing=True))
            self._pool[-1].record()  # makes it
        self._torch.cuda.synchronize()
        self._begin.record()
        self._begin.synchronize()
        self.began = time.perf_counter()

    def stream(self):
        return self._torch.cuda.Stream()

    def pin(self) -> None:
        """Use copies of the host's arrays in pinned memory; they were made before the clock started."""
        self.inputs, self.outputs = self._pinned_in, self._pinned_out

    def copy_in(self, piece: int, slot: int, stream) -> None:
        x = self._x[slot]
        self._work("copy_in", piece, slot, stream, lambda: x.copy_(self.inputs[piece], non_blocking=True))

    def kernel(self, piece: int, slot: int, stream) -> None:
        launch, handle = self._launches[slot, self.steps[piece]], stream.cuda_stream
        self._work("kernel", piece, slot, stream, lambda: launch(handle))

    def copy_out(self, piece: int, slot: int, stream) -> None:
        y = self._y[slot]
        self._work("copy_out", piece, slot, stream, lambda: self.outputs[piece].copy_(y, non_blocking=True))

    def record(self, stream):
        event = self._torch.cuda.Event()
        event.record(stream)
        return event

    def wait(self, stream, event) -> None:
        stream.wait_event(event)

    def synchronize(self) -> None:
        self._torch.cuda.synchronize()

    def capture(self, stream) -> None:
        graph = self._torch.cuda.CUDAGraph()
        within = self._torch.cuda.stream(stream)
        within.__enter__()
        graph.capture_begin(capture_error_mode="thread_local")
        self._capturing = graph, within

    def end(self):
        (graph, within), self._capturing = self._capturing, None
        graph.capture_end()
        within.__exit__(None, None, None)
        return graph

    def replay(self, graph, stream) -> None:
        with self._torch.cuda.stream(stream):
            graph.replay()

    def _work(self, verb: str, piece: int, slot: int, stream, call: Callable) -> None:
        timed = self.timed and self._capturing is None
        called = time.perf_counter()
        with self._torch.cuda.stream(stream):
            if timed:
                begin, end = self._pool.pop(), self._pool.pop()
                begin.record()
            call()
            if timed:
                end.record()
                self._marks.append((begin, end, verb, piece, slot))
        self._calls.append((called, time.perf_counter(), verb, piece))

    def spans(self) -> list[Span]:
        """Spans of all work, in µs from `restart`, after everything is done."""
        found = [
            Span(1e3 * self._begin.elapsed_time(b), 1e3 * self._begin.elapsed_time(e), ENGINES[verb], 0, verb, p, slot)
            for b, e, verb, p, slot in self._marks
        ]
        host = [
            Span(1e6 * (a - self.began), 1e6 * (b - self.began), "host", 0, verb, p) for a, b, verb, p in self._calls
        ]
        return sorted([*found, *host], key=lambda s: s.start)

    def expected(self, piece: int):
        """The piece's result, computed on the default stream."""
        x = self.inputs[piece].cuda()
        y = self._torch.empty_like(x)
        self._iterate.prepared(x, y, self.steps[piece])(self._torch.cuda.current_stream().cuda_stream)
        return y.cpu()

    def wrong(self) -> list[int]:
        """Pieces whose results are not bit for bit what the kernel alone computes."""
        return [k for k, y in enumerate(self.outputs) if not self._torch.equal(y, self.expected(k))]


def perform(plan: Sequence[Sequence], machine: CudaQueues) -> None:
    """Make the calls of a recorded plan; its graphs are captured beforehand."""
    _perform(plan, machine, *_prepare(plan, machine))


def _prepare(plan, machine) -> tuple[dict, dict]:
    """Streams and captured graphs of a plan: made before the clock starts."""
    streams = {operation[-1]: None for operation in plan if operation[0] in (*WORK, "record", "capture", "replay")}
    streams |= {operation[1]: None for operation in plan if operation[0] == "wait"}
    streams = {number: machine.stream() for number in streams}
    if any(operation[0] == "pin" for operation in plan):
        machine.pin()
    graphs, events, capturing = {}, {}, False
    for operation in plan:
        if operation[0] == "capture":
            machine.capture(streams[operation[1]])
            capturing = True
        elif operation[0] == "end":
            graphs[operation[1]], capturing = machine.end(), False
        elif capturing:
            _one(operation, machine, streams, graphs, events)
    return streams, graphs


def _one(operation, machine, streams, graphs, events) -> None:
    verb, *numbers = operation
    if verb in WORK:
        getattr(machine, verb)(numbers[0], max(numbers[1], 0), streams[numbers[2]])
    elif verb == "record":
        events[numbers[0]] = machine.record(streams[numbers[1]])
    elif verb == "wait":
        machine.wait(streams[numbers[0]], events[numbers[1]])
    elif verb == "synchronize":
        machine.synchronize()
    elif verb == "replay":
        machine.replay(graphs[numbers[0]], streams[numbers[1]])


def _perform(plan, machine, streams, graphs) -> None:
    events, capturing = {}, False
    for operation in plan:
        if operation[0] in ("capture", "end"):
            capturing = operation[0] == "capture"
        elif not capturing:
            _one(operation, machine, streams, graphs, events)


def plan_seconds(plan, machine: CudaQueues, times: int = 15) -> float:
    """Median seconds from the first call until host and GPU are done, on an idle GPU."""
    streams, graphs = _prepare(plan, machine)
    taken = []
    for k in range(times + 3):
        machine.restart()
        begin = time.perf_counter()
        _perform(plan, machine, streams, graphs)
        machine.synchronize()
        if k >= 3:
            taken.append(time.perf_counter() - begin)
    return statistics.median(taken)


# --- calibration -----------------------------------------------------------------------------------------------------


def _host_us(call: Callable[[], object], count: int = 200) -> float:
    """Median host time of a call in µs, with a short GPU queue."""
    import torch

    taken = []
    for k in range(count):
        if k % 20 == 0:
            torch.cuda.synchronize()
        begin = time.perf_counter()
        call()
        taken.append(time.perf_counter() - begin)
    torch.cuda.synchronize()
    return 1e6 * statistics.median(taken[10:])


def costs() -> Costs:
    """Host time of the calls on this machine, in µs; a graph's replay, and the minimum time of its nodes."""
    import torch

    machine = CudaQueues(1, 256, 1)
    machine.pin()
    stream = machine.stream()
    event = machine.record(stream)

    def graph_of(count: int):
        machine.capture(stream)
        for _ in range(count):
            machine.kernel(0, 0, stream)
        return machine.end()

    def seconds(graph) -> float:
        return statistics.median(_timed(lambda: machine.replay(graph, stream), machine) for _ in range(20))

    few, many = graph_of(100), graph_of(1100)
    seconds(few), seconds(many)
    short, long = seconds(few), seconds(many)
    node = 1e6 * (long - short) / 1000
    pageable = CudaQueues(1, 1 << 21, 1)
    slow = _host_us(lambda: pageable.copy_in(0, 0, stream), 40)
    pageable.pin()
    fast = 1e6 * statistics.median(_timed(lambda: pageable.copy_in(0, 0, stream), pageable) for _ in range(20))
    torch.cuda.synchronize()
    return Costs(
        launch=_host_us(lambda: machine.kernel(0, 0, stream)),
        copy=_host_us(lambda: machine.copy_in(0, 0, stream)),
        record=_host_us(lambda: machine.record(stream)),
        wait=_host_us(lambda: machine.wait(stream, event)),
        replay=max(1e6 * short - 100 * node, 1.0),
        node=node,
        pageable=slow / fast,
    )


def _timed(call: Callable, machine: CudaQueues) -> float:
    """Seconds of one call on an idle GPU, until it is done."""
    machine.synchronize()
    begin = time.perf_counter()
    call()
    machine.synchronize()
    return time.perf_counter() - begin


def work(machine: CudaQueues) -> Work:
    """µs of a copy in, of each piece's kernel and of a copy out, each alone, in a queue that is not empty."""
    import torch

    machine.pin()
    stream = machine.stream()

    def each(call: Callable, count: int = 8) -> float:
        found = []
        for _ in range(5):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            torch.cuda.synchronize()
            with torch.cuda.stream(stream):
                torch.cuda._sleep(2_000_000)  # a millisecond, in which the host queues the rest
                begin.record()
                for _ in range(count):
                    call()
                end.record()
            torch.cuda.synchronize()
            found.append(1e3 * begin.elapsed_time(end) / count)
        return statistics.median(found)

    by_steps = {}
    for piece, steps in enumerate(machine.steps):
        if steps not in by_steps:
            by_steps[steps] = each(functools.partial(machine.kernel, piece, 0, stream))
    return Work(
        each(lambda: machine.copy_in(0, 0, stream)),
        [by_steps[s] for s in machine.steps],
        each(lambda: machine.copy_out(0, 0, stream)),
    )


def steps_for(us: float, elements: int) -> int:
    """Steps for which the kernel takes about this many µs."""
    probe = CudaQueues(2, elements, [1000, 5000])
    low, high = work(probe).kernel
    return max(1, round(1000 + 4000 * (us - low) / (high - low)))
