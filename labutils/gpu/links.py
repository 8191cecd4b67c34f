"""Messages between ranks, as data: what each of several GPUs sends and receives, matched, timed and counted.

A rank's program is an iterator of calls. `simulate` resumes each rank until it has to wait, matches the k-th message
that rank a sends to rank b with the k-th that b receives from a, and finds a deadlock as a cycle of ranks that wait for
each other. It serves twice: `simulated_comm` runs a learner's function on it and writes a log of calls, and a checker
that never ran that function replays the log.

A call is a list, [verb, to, values, source, count, number]:

    ["send", to, values, -1, 0, -1]                returns when the receiver has the values
    ["recv", -1, [], source, count, -1]            returns when the values are here
    ["exchange", to, values, source, count, k]     starts both, returns at once; exchange k of this rank
    ["wait", -1, [], -1, 0, k]                     returns when both messages of exchange k are complete
    ["all_reduce", -1, values, -1, 0, -1]          the sum over all ranks, on all ranks
    ["all_gather", -1, values, -1, 0, -1]          the values of all ranks, on all ranks

A message takes latency + bytes / bandwidth and has its link, which is one direction between two ranks, to itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

VERBS = ("send", "recv", "exchange", "wait", "all_reduce", "all_gather")
COLLECTIVES = ("all_reduce", "all_gather")
MOST_CALLS = 400
BYTES = 4
"""Of an element: fp32."""
GBS, LATENCY_US = 100.0, 1.0
"""One direction of a simulated link."""


class BadLog(ValueError):
    """What is wrong with a log, in a sentence for its author."""


class Mismatch(Exception):
    """Two calls that meet do not fit: `symptom` and `advice`."""

    def __init__(self, symptom: str, advice: str):
        super().__init__(symptom)
        self.symptom, self.advice = symptom, advice


@dataclass
class Call:
    """One call of a rank. `arrived` is what it received, once complete."""

    verb: str
    to: int = -1
    values: list = field(default_factory=list)
    source: int = -1
    count: int = 0
    number: int = -1
    arrived: list | None = None
    start: float = 0.0
    end: float = 0.0
    sent: bool = False

    def to_log(self) -> list:
        return [self.verb, self.to, list(self.values), self.source, self.count, self.number]

    @property
    def pending(self) -> bool:
        """Is one of its messages not complete yet?"""
        if self.verb in COLLECTIVES:
            return self.arrived is None
        return (self.to >= 0 and not self.sent) or (self.source >= 0 and self.arrived is None)


@dataclass(frozen=True)
class Message:
    """One transfer over the link from `source` to `to`; times in µs."""

    source: int
    to: int
    count: int
    start: float
    end: float


@dataclass
class Report:
    """What became of the programs. `stuck` names for each rank that cannot go on the rank it waits for."""

    calls: list[list[Call]]
    messages: list[Message] = field(default_factory=list)
    stuck: dict[int, int] = field(default_factory=dict)
    finish: float = 0.0

    def sent(self, rank: int) -> list[Message]:
        return [m for m in self.messages if m.source == rank]

    def cycle(self) -> list[int]:
        """Ranks that wait for each other in a circle, from the smallest; empty if there is none."""
        for first in sorted(self.stuck):
            way = [first]
            while (after := self.stuck.get(way[-1])) is not None and after not in way:
                way.append(after)
            if after == first:
                return way
        return []

    def deadlock(self) -> tuple[str, str] | None:
        """The symptom of a run that never ends, and what each rank waits in; None for a run that ended."""
        if not self.stuck:
            return None
        if circle := self.cycle():
            shown = " → ".join(map(str, [*circle, circle[0]]))
            where = ", ".join(f"rank {r} in {self.blocked(r)}" for r in circle[:3])
            return f"deadlock: ranks {shown} wait for each other", f"They wait here: {where}."
        rank = next((r for r in sorted(self.stuck) if self.stuck[r] not in self.stuck), min(self.stuck))
        return (
            f"rank {rank} waits forever in {self.blocked(rank)}: rank {self.stuck[rank]} has returned",
            "Each send needs a receive on the other rank, and each collective a call on every rank.",
        )

    def blocked(self, rank: int) -> str:
        """The call in which a rank waits, as a person would write it."""
        call = self.calls[rank][-1]
        if call.verb == "wait":
            call = next(c for c in self.calls[rank] if c.verb == "exchange" and c.number == call.number)
            return f"wait() of exchange({call.to}, {call.source})"
        peer = {"send": f"to={call.to}", "recv": f"source={call.source}"}.get(call.verb, "")
        return f"{call.verb}({peer})"


def simulate(
    programs: Sequence[Iterable[Call]], gbs: float = GBS, latency_us: float = LATENCY_US, item: int = BYTES
) -> Report:
    """Run the ranks' programs until all have ended or nobody can go on. Raises BadLog and Mismatch."""
    return _Network([iter(p) for p in programs], gbs, latency_us, item).run()


class _Network:
    def __init__(self, programs: list[Iterator[Call]], gbs: float, latency_us: float, item: int):
        self.programs, self.world = programs, len(programs)
        self.us = lambda count: latency_us + count * item / (gbs * 1e3)
        self.report = Report([[] for _ in programs])
        self.clock = [0.0] * self.world
        self.ended = [False] * self.world
        self.free: dict[tuple[int, int], float] = {}
        self.sends: dict[tuple[int, int], list[Call]] = {}
        self.receives: dict[tuple[int, int], list[Call]] = {}

    def run(self) -> Report:
        moving = True
        while moving:
            moving = False
            for rank in range(self.world):
                while not self.ended[rank] and self.waits_for(rank) is None:
                    moving = True
                    self.resume(rank)
        self.report.stuck = {r: self.waits_for(r) for r in range(self.world) if not self.ended[r]}
        self.report.finish = max(self.clock, default=0.0)
        return self.report

    def resume(self, rank: int) -> None:
        if (call := next(self.programs[rank], None)) is None:
            self.ended[rank] = True
            return
        if len(self.report.calls[rank]) >= MOST_CALLS:
            raise BadLog(f"rank {rank} makes more than {MOST_CALLS} calls: does a loop never end?")
        self.report.calls[rank].append(call)
        call.start = self.clock[rank]
        self.validate(rank, call)
        if call.to >= 0:
            self.sends.setdefault((rank, call.to), []).append(call)
            self.match(rank, call.to)
        if call.source >= 0:
            self.receives.setdefault((call.source, rank), []).append(call)
            self.match(call.source, rank)
        if call.verb in COLLECTIVES:
            self.collect()

    def validate(self, rank: int, call: Call) -> None:
        for name, peer in (("to", call.to), ("source", call.source)):
            if peer == -1:
                continue
            if not 0 <= peer < self.world:
                raise Mismatch(
                    f"rank {rank} calls {call.verb} with {name}={peer}: ranks are 0 to {self.world - 1}",
                    "Ranks form a ring: take neighbors modulo world.",
                )
            if peer == rank:
                raise Mismatch(f"rank {rank} calls {call.verb} with itself", "Send to a neighbor: rank ± 1.")

    def match(self, source: int, to: int) -> None:
        """Transfer what both ends have asked for, in order."""
        sends, receives = self.sends.get((source, to), []), self.receives.get((source, to), [])
        while sends and receives:
            send, receive = sends.pop(0), receives.pop(0)
            if len(send.values) != receive.count:
                raise Mismatch(
                    f"rank {source} sends {len(send.values)} elements to rank {to}, which receives {receive.count}",
                    "Both must name the same chunk: which chunk does the previous rank send in this step?",
                )
            start = max(send.start, receive.start, self.free.get((source, to), 0.0))
            end = start + self.us(receive.count)
            self.free[source, to] = end
            send.sent, receive.arrived = True, list(send.values)
            send.end, receive.end = max(send.end, end), max(receive.end, end)
            self.report.messages.append(Message(source, to, receive.count, start, end))

    def collect(self) -> None:
        """Complete a collective as soon as every rank has called it."""
        last = [calls[-1] if calls else None for calls in self.report.calls]
        if not all(c is not None and c.verb in COLLECTIVES and c.arrived is None for c in last):
            return
        if len({(c.verb, len(c.values)) for c in last}) > 1:
            shown = ", ".join(f"rank {r}: {c.verb} of {len(c.values)} elements" for r, c in enumerate(last[:3]))
            raise Mismatch(f"the ranks meet in different collectives ({shown})", "All ranks make the same calls.")
        p, n, start = self.world, len(last[0].values), max(c.start for c in last)
        steps = {"all_reduce": 2 * (p - 1), "all_gather": p - 1}[last[0].verb]
        count = -(-n // p) if last[0].verb == "all_reduce" else n
        for call in last:
            columns = zip(*(c.values for c in last), strict=True)
            reduced = last[0].verb == "all_reduce"
            call.arrived = [sum(v) for v in columns] if reduced else [v for c in last for v in c.values]
            call.end = start + steps * self.us(count)

    def waits_for(self, rank: int) -> int | None:
        """The rank that this one waits for, or None if it can go on; moves its clock to the end of a completed call."""
        if not self.report.calls[rank]:
            return None
        call = self.report.calls[rank][-1]
        if call.verb == "exchange":
            return None
        if call.verb == "wait":
            call = next((c for c in self.report.calls[rank] if c.verb == "exchange" and c.number == call.number), None)
            if call is None:
                raise BadLog(f"rank {rank} waits for an exchange that it did not start")
        if not call.pending:
            self.clock[rank] = max(self.clock[rank], call.end)
            return None
        if call.verb in COLLECTIVES:
            return next(r for r in range(self.world) if r != rank and not self._collecting(r))
        return call.to if call.to >= 0 and not call.sent else call.source

    def _collecting(self, rank: int) -> bool:
        calls = self.report.calls[rank]
        return bool(calls) and calls[-1].verb in COLLECTIVES and calls[-1].arrived is None


def read(log) -> list[list[Call]]:
    """The calls of each rank from their logs; values are whole numbers. Raises BadLog."""
    if not isinstance(log, (list, tuple)) or not all(isinstance(calls, (list, tuple)) for calls in log):
        raise BadLog("a log is a list of calls for each rank")
    return [[_call(c) for c in calls] for calls in log]


def _call(entry) -> Call:
    if not isinstance(entry, (list, tuple)) or len(entry) != 6 or entry[0] not in VERBS:
        raise BadLog(f"{str(entry)[:60]} is no call")
    verb, to, values, source, count, number = entry
    whole = all(type(v) is int for v in (to, source, count, number)) and count >= 0
    if not whole or not isinstance(values, (list, tuple)) or not all(type(v) is int for v in values):
        raise BadLog(f"{str(entry)[:60]} is no call")
    if (to == -1) == (verb in ("send", "exchange")) or (source == -1) == (verb in ("recv", "exchange")):
        raise BadLog(f"{verb} with to={to}, source={source} is no call")
    return Call(verb, to, list(values), source, count, number)
