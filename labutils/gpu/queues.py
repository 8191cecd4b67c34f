"""Streams, events, copies and graphs as data: a plan, which is what a host would call, in order.

`QueueRecorder` has the methods of `labutils.gpu.cuda_queues.CudaQueues`, but writes each call down. The list can be
simulated (`queue_times`) and checked for missing waits (`queue_order`) elsewhere, by somebody who did not run the code
that made it. One operation is a list:

    ["pin"]                                 host memory is page-locked from now on
    ["copy_in", piece, slot, stream]        host → input buffer of the slot
    ["kernel", piece, slot, stream]         input buffer → output buffer of the slot; slot -1: no buffers
    ["copy_out", piece, slot, stream]       output buffer of the slot → host
    ["record", event, stream]               the event comes by when everything before it in the stream is done
    ["wait", stream, event]                 what follows in the stream begins after the event
    ["synchronize"]                         the host waits for everything it has queued
    ["capture", stream], ["end", graph]     between the two, calls are put into a graph and not run
    ["replay", graph, stream]               one call queues the whole graph
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

SHAPE = {
    "pin": (),
    "copy_in": ("piece", "slot", "stream"),
    "kernel": ("piece", "slot", "stream"),
    "copy_out": ("piece", "slot", "stream"),
    "record": ("event", "stream"),
    "wait": ("stream", "event"),
    "synchronize": (),
    "capture": ("stream",),
    "end": ("graph",),
    "replay": ("graph", "stream"),
}
"""Operations, with the names of the numbers that follow."""

WORK = ("copy_in", "kernel", "copy_out")
MOST_OPERATIONS = 4000


class BadPlan(ValueError):
    """What is wrong with a plan, in a sentence for its author."""


@dataclass(frozen=True)
class Stream:
    """A queue of work: what is queued in one stream runs in this order."""

    number: int


@dataclass(frozen=True)
class Event:
    """A point in a stream that others can wait for."""

    number: int


@dataclass(frozen=True)
class Graph:
    """A captured sequence of calls."""

    number: int


@dataclass
class QueueRecorder:
    """Records the calls. `plan` is the list of operations so far."""

    plan: list[list] = field(default_factory=list)
    _streams: int = 0
    _events: int = 0
    _graphs: int = 0

    def stream(self) -> Stream:
        """A new stream. Streams are independent of each other until one waits for an event of another."""
        self._streams += 1
        return Stream(self._streams - 1)

    def pin(self) -> None:
        """Page-lock host memory. Without it, a copy blocks the host until it is done."""
        self._add("pin")

    def copy_in(self, piece: int, slot: int, stream: Stream) -> None:
        """Queue the copy of a piece from the host into the slot's input buffer."""
        self._add("copy_in", piece, slot, _number(stream, Stream, "copy_in"))

    def kernel(self, piece: int, slot: int, stream: Stream) -> None:
        """Queue the kernel: it reads the slot's input buffer and writes its output buffer."""
        self._add("kernel", piece, slot, _number(stream, Stream, "kernel"))

    def copy_out(self, piece: int, slot: int, stream: Stream) -> None:
        """Queue the copy of a piece's result from the slot's output buffer to the host."""
        self._add("copy_out", piece, slot, _number(stream, Stream, "copy_out"))

    def record(self, stream: Stream) -> Event:
        """A new event after everything that is in the stream now."""
        self._add("record", self._events, _number(stream, Stream, "record"))
        self._events += 1
        return Event(self._events - 1)

    def wait(self, stream: Stream, event: Event) -> None:
        """Work queued in the stream from now on starts after the event. The host does not wait."""
        self._add("wait", _number(stream, Stream, "wait"), _number(event, Event, "wait"))

    def synchronize(self) -> None:
        """The host waits until everything queued is done."""
        self._add("synchronize")

    def capture(self, stream: Stream) -> None:
        """Record the following calls into a graph."""
        self._add("capture", _number(stream, Stream, "capture"))

    def end(self) -> Graph:
        """The graph of the calls since `capture`."""
        self._add("end", self._graphs)
        self._graphs += 1
        return Graph(self._graphs - 1)

    def replay(self, graph: Graph, stream: Stream) -> None:
        """Queue all of a graph with one call."""
        self._add("replay", _number(graph, Graph, "replay"), _number(stream, Stream, "replay"))

    def _add(self, *operation) -> None:
        if len(self.plan) >= MOST_OPERATIONS:
            raise BadPlan(f"more than {MOST_OPERATIONS} operations: does a loop never end?")
        self.plan.append(list(operation))


def _number(value, kind: type, call: str) -> int:
    if not isinstance(value, kind):
        name = kind.__name__.lower()
        raise TypeError(f"{call}() needs {_article(name)} here, not {_article(type(value).__name__)}")
    return value.number


def _article(name: str) -> str:
    return f"an {name}" if name[0].lower() in "aeio" else f"a {name}"


def read(plan, slots: int = 2) -> list[tuple]:
    """The plan as tuples, if it is one. Raises BadPlan with a sentence that names the invalid operation."""
    if not isinstance(plan, (list, tuple)):
        raise BadPlan(f"a plan is a list of operations, not {_article(type(plan).__name__)}")
    if len(plan) > MOST_OPERATIONS:
        raise BadPlan(f"the plan has more than {MOST_OPERATIONS} operations")
    found, capturing = [], False
    events: set[int] = set()
    graphs: set[int] = set()
    for index, operation in enumerate(plan):
        verb, numbers = _parts(index, operation)
        problem = _misplaced(verb, numbers, capturing, events, graphs)
        if problem is None and verb in WORK and not -(verb == "kernel") <= numbers["slot"] < slots:
            problem = f"there is no slot {numbers['slot']}: slots are 0 to {slots - 1}"
        if problem:
            raise BadPlan(f"operation {index}, {verb}: {problem}")
        if verb == "record":
            events.add(numbers["event"])
        elif verb == "end":
            graphs.add(numbers["graph"])
        capturing = verb == "capture" or (capturing and verb != "end")
        found.append((verb, *numbers.values()))
    if capturing:
        raise BadPlan("the capture is never ended")
    return found


def _parts(index: int, operation) -> tuple[str, dict[str, int]]:
    if not isinstance(operation, (list, tuple)) or not operation or operation[0] not in tuple(SHAPE):
        raise BadPlan(f"operation {index} is {str(operation)[:60]}, which is none of {', '.join(SHAPE)}")
    verb, names = operation[0], SHAPE[operation[0]]
    if len(operation) != 1 + len(names) or not all(type(v) is int and -1 <= v < 10**6 for v in operation[1:]):
        raise BadPlan(f"operation {index}, {verb}, needs {', '.join(names) or 'nothing'} as whole numbers")
    return verb, dict(zip(names, operation[1:], strict=True))


def _misplaced(verb: str, numbers: dict, capturing: bool, events: set[int], graphs: set[int]) -> str | None:
    if capturing and verb in ("synchronize", "pin", "capture", "replay"):
        return "not while a graph is captured: that would have to happen now, and nothing runs now"
    if verb == "end" and not capturing:
        return "nothing is being captured"
    if verb == "wait" and numbers["event"] not in events:
        return f"event {numbers['event']} has not been recorded"
    if verb == "record" and numbers["event"] in events:
        return f"event {numbers['event']} was recorded before"
    if verb == "replay" and numbers["graph"] not in graphs:
        return f"there is no graph {numbers['graph']}"
    return None


def pieces_of(plan: Sequence[tuple], verb: str) -> list[int]:
    """The pieces that a kind of work is queued for, in order."""
    return [operation[1] for operation in plan if operation[0] == verb]
