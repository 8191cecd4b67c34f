"""When the operations of a plan run: a discrete-event simulation of a host, streams, and three engines.

What the model knows, and CUDA's programming guide says (sections on asynchronous concurrent execution):

- The host makes one call after another; each costs it time. A call queues work and returns, but a copy from or to
  pageable memory returns when it is done, and takes longer, since it is staged through pinned memory.
- A stream works in order. A wait in it holds back what follows until the event has come by.
- One engine copies in, one copies out, one runs kernels: one operation at a time each. Of operations that could begin,
  the one that was ready first does. (Small kernels can share a GPU; these fill it.)
- A replay queues the nodes of a graph with one call. A node takes its kernel's time, at least `node`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from .queues import WORK, read

ENGINES = {"copy_in": "copy in", "kernel": "compute", "copy_out": "copy out"}


@dataclass(frozen=True)
class Costs:
    """Times in µs: what a call costs the host, and `node`, the least time of a kernel in a graph. `pageable` is how
    many times longer a copy takes from pageable memory."""

    launch: float = 5.0
    copy: float = 5.0
    record: float = 1.0
    wait: float = 1.0
    replay: float = 10.0
    node: float = 1.0
    pageable: float = 2.0

    def of(self, verb: str) -> float:
        called = {"kernel": "launch", "copy_in": "copy", "copy_out": "copy"}.get(verb, verb)
        return getattr(self, called) if called in ("launch", "copy", "record", "wait", "replay") else 0.0


@dataclass(frozen=True)
class Work:
    """µs that each kind of work takes an engine: a number, or one for each piece."""

    copy_in: float | Sequence[float] = 0.0
    kernel: float | Sequence[float] = 0.0
    copy_out: float | Sequence[float] = 0.0

    def of(self, verb: str, piece: int) -> float:
        times = getattr(self, verb)
        if isinstance(times, Sequence):
            return float(times[piece]) if 0 <= piece < len(times) else 0.0
        return float(times)


@dataclass(frozen=True)
class Span:
    """One stay on an engine, or one call of the host (`engine` "host"): µs from the beginning."""

    start: float
    end: float
    engine: str
    stream: int
    verb: str
    piece: int = -1
    slot: int = -1


@dataclass
class Task:
    """An operation in a stream. `after` are the numbers of tasks that must be done first."""

    number: int
    verb: str
    piece: int
    slot: int
    stream: object
    issued: float
    after: list[int]
    duration: float
    call: int = -1
    blocking: bool = False
    ready: float = 0.0
    start: float = 0.0
    end: float | None = None

    @property
    def engine(self) -> str | None:
        return ENGINES.get(self.verb)


@dataclass
class Timeline:
    """What happened: spans of engines and host, the tasks, and `finish`, when host and engines are done (µs)."""

    spans: list[Span]
    tasks: list[Task]
    finish: float

    def on(self, engine: str) -> list[Span]:
        return [s for s in self.spans if s.engine == engine]

    def busy(self, engine: str) -> float:
        """µs in which the engine works."""
        return sum(s.end - s.start for s in self.on(engine))


@dataclass
class _Simulation:
    work: Work
    costs: Costs
    tasks: list[Task] = field(default_factory=list)
    spans: list[Span] = field(default_factory=list)
    last: dict = field(default_factory=dict)
    """Number of the last task in each stream."""
    pending: dict = field(default_factory=dict)
    """Tasks of each stream that are not done, in order."""
    events: dict = field(default_factory=dict)
    graphs: dict = field(default_factory=dict)
    free: dict = field(default_factory=dict)
    host: float = 0.0
    pinned: bool = False
    waiting: list[int] = field(default_factory=list)
    """Tasks that the host waits for."""

    def add(self, verb: str, stream, piece=-1, slot=-1, duration=0.0, after=(), call=-1) -> Task:
        before = [self.last[stream]] if stream in self.last else []
        task = Task(len(self.tasks), verb, piece, slot, stream, self.host, [*before, *after], duration, call)
        self.tasks.append(task)
        self.last[stream] = task.number
        self.pending.setdefault(stream, deque()).append(task)
        return task

    def call(self, index: int, operation: tuple) -> None:
        """The host makes a call of the plan: it takes time, then the work is queued."""
        verb, *numbers = operation
        begin, self.host = self.host, self.host + self.costs.of(verb)
        if self.host > begin:
            stream = numbers[0] if verb == "wait" else numbers[-1]
            piece = numbers[0] if verb in WORK else -1
            self.spans.append(Span(begin, self.host, "host", stream, verb, piece))
        if verb == "pin":
            self.pinned = True
        elif verb == "synchronize":
            self.waiting = [t.number for t in self.tasks]
        elif verb == "replay":
            self.replay(index, self.graphs[numbers[0]], numbers[1])
        else:
            self.queue(index, operation, lambda stream: stream)

    def queue(self, index: int, operation: tuple, rename, in_graph: bool = False, root: tuple = ()) -> None:
        """Put one operation into its stream. `rename` gives a graph streams of its own, which begin after `root`."""
        verb, *numbers = operation
        if verb == "record":
            self.events[numbers[0]] = self.add("record", rename(numbers[1]), after=root, call=index).number
        elif verb == "wait":
            after = [*root, *([self.events[numbers[1]]] if numbers[1] in self.events else [])]
            self.add("wait", rename(numbers[0]), after=after, call=index)
        else:
            piece, slot, stream = numbers
            duration = self.work.of(verb, piece)
            if in_graph and verb == "kernel":
                duration = max(duration, self.costs.node)
            pageable = verb != "kernel" and not self.pinned
            task = self.add(verb, rename(stream), piece, slot, duration, root, index)
            if pageable:
                task.duration *= self.costs.pageable
                if not in_graph:
                    task.blocking, self.waiting = True, [task.number]

    def replay(self, index: int, graph: list[tuple], stream: int) -> None:
        begin = self.add("replay", stream, call=index).number
        for operation in graph:
            self.queue(index, operation, lambda s: ("graph", begin, s), True, (begin,))
        ends = [number for s, number in self.last.items() if isinstance(s, tuple) and s[1] == begin]
        self.add("joined", stream, after=ends, call=index)

    def next_task(self) -> Task | None:
        """The task that begins next, of those queued so far."""
        best = None
        for queue in self.pending.values():
            if not queue or any(self.tasks[k].end is None for k in queue[0].after):
                continue
            task = queue[0]
            task.ready = max([task.issued, *(self.tasks[k].end for k in task.after)])
            task.start = max(task.ready, self.free.get(task.engine, 0.0)) if task.engine else task.ready
            key = (task.start, task.ready, task.number)
            if best is None or key < (best.start, best.ready, best.number):
                best = task
        return best

    def run(self, task: Task) -> None:
        task.end = task.start + task.duration
        self.pending[task.stream].popleft()
        if task.engine:
            self.free[task.engine] = task.end
            stream = task.stream if isinstance(task.stream, int) else task.stream[-1]
            self.spans.append(Span(task.start, task.end, task.engine, stream, task.verb, task.piece, task.slot))


def simulate(plan, work: Work, costs: Costs | None = None, slots: int = 2) -> Timeline:
    """When the operations of a plan begin and end. Raises BadPlan. Capturing a graph costs nothing: it happens once,
    before the clock starts."""
    machine = _Simulation(work, costs or Costs())
    calls, done = _without_captures(machine, read(plan, slots)), 0
    while True:
        if machine.waiting and all(machine.tasks[k].end is not None for k in machine.waiting):
            machine.host = max([machine.host, *(machine.tasks[k].end for k in machine.waiting)])
            machine.waiting = []
        task = machine.next_task()
        can_call = done < len(calls) and not machine.waiting
        if can_call and (task is None or machine.host + machine.costs.of(calls[done][1][0]) <= task.start):
            machine.call(*calls[done])
            done += 1
        elif task is not None:
            machine.run(task)
        elif not can_call:
            break
    finish = max([machine.host, *(t.end for t in machine.tasks)])
    return Timeline(sorted(machine.spans, key=lambda s: (s.start, s.end)), machine.tasks, finish)


def _without_captures(machine: _Simulation, plan: list[tuple]) -> list[tuple[int, tuple]]:
    """The numbered calls that are made while the clock runs; what is captured goes into the machine's graphs."""
    calls, graph = [], None
    for index, operation in enumerate(plan):
        if operation[0] == "capture":
            graph = []
        elif operation[0] == "end":
            machine.graphs[operation[1]], graph = graph, None
        elif graph is not None:
            graph.append(operation)
        else:
            calls.append((index, operation))
    return calls
