"""Recording memory accesses: which element was touched by which program, and what is wrong with that.

The recorder knows every array of a launch with its guards. A backend that can see addresses (Triton's interpreter, the
CUDA C++ emulator) calls `load`, `store` and `atomic`; the recorder answers which lanes may go ahead, so that a wild
access never happens, and keeps findings (out of bounds, races between programs) and counts (bytes, requests).

Races are found as in FastTrack (Flanagan and Freund, PLDI 2009), see vector_clock.py: each element remembers the epochs
of its last store and load, each program has a vector clock, and atomics on one address order programs, as far as their
semantics say ("relaxed" orders nothing). There are eight differences. An atomic that changes nothing may see the value
from before a change that nothing orders before it; the first of each program does, and acquires nothing then
(`may_miss`). One that changes something may come before such a change (atomics.py, `overtaken`). An element keeps one
epoch of a load, or the mark MANY when loads of several programs are not ordered: any later store then counts as a race,
where FastTrack would keep a vector clock. A store of the bits that are there already is no conflict. Lanes of one store
that write different bits to one place are (`disagree`). And of the atomics on an element all that nothing orders are
kept: a plain load must come after each. And what all threads of a program write, more than one element at once, has
epochs of its own: an atomic on one variable is executed by one thread, and releases them only if the threads have met
since (`meet`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import asdict, dataclass, field

import numpy as np

from ..gpu.device import SECTOR
from .vector_clock import Epoch, VectorClock

NOBODY, MANY = -1, -2
"""In place of the number of an epoch: no access yet, and loads by programs that are not ordered."""
MAX_FINDINGS = 8
ALL_THREADS = 1 << 30
"""Added to a program ID, for the epochs of what all its threads write. They count how often the threads have met."""
MOST_UPDATES = 32
"""Unordered atomics on one element that are remembered: the latest."""


@dataclass(frozen=True)
class AccessFinding:
    """Something wrong with an access: what, on which array at which element, by which program, on which line."""

    kind: str
    access: str
    array: str
    index: int
    program: tuple[int, int, int]
    line: int | None
    source: str
    count: int
    past_end: bool = False
    lanes: bool = False
    """Do lanes of one store disagree, rather than programs?"""
    overflowed: bool = False
    """Would the element be inside if its offset had not overflowed 32 bits?"""

    def sentence(self) -> str:
        where = f" (line {self.line}: `{self.source}`)" if self.line else ""
        who = f"program {self.program[0] if not any(self.program[1:]) else self.program}"
        verb = {"load": "reads", "store": "writes", "atomic": "updates"}[self.access]
        if self.kind == "misaligned":
            return f"{who} {verb} more than one element from {self.array}[{self.index}] on, which is not aligned{where}"
        if self.overflowed:
            offsets = f"{self.index + 2**32}, becomes {self.index} in 32 bits"
            return f"{who} {verb} outside {self.array}: its offset, {offsets}{where}"
        if self.kind == "out-of-bounds":
            rest = f" and {self.count - 1} more elements" if self.count > 1 else ""
            return f"{who} {verb} {self.array}[{self.index}]{rest}, outside the array{where}"
        if self.lanes:
            return f"lanes of {who} write different values to {self.array}[{self.index}] in one store{where}"
        return f"{who} {verb} {self.array}[{self.index}], which another program wrote or reads too{where}"


@dataclass
class Tracked:
    """Shadow state of one array: the numbers of the epochs in which each element was written and read last."""

    name: str
    base: int
    itemsize: int
    inside: np.ndarray
    start: int
    scratch: bool = False
    writer: np.ndarray = field(init=False)
    reader: np.ndarray = field(init=False)
    updates: np.ndarray = field(init=False)
    """For each element, the number of a set of epochs: of the atomics that changed it, those that nothing orders."""
    wave: np.ndarray = field(init=False)
    """The last wave that read each sector."""

    def __post_init__(self):
        self.writer = np.full(self.inside.size, NOBODY, np.int32)
        self.reader = np.full(self.inside.size, NOBODY, np.int32)
        self.updates = np.full(self.inside.size, NOBODY, np.int32)
        self.wave = np.full((self.end - 1) // SECTOR - self.base // SECTOR + 1, NOBODY, np.int32)

    def forget(self) -> None:
        """A new launch: nobody has touched anything."""
        for owner in (self.writer, self.reader, self.updates, self.wave):
            owner.fill(NOBODY)

    def new_in_wave(self, sectors: np.ndarray, wave: int) -> int:
        """How many of these sectors are this array's and new to the wave."""
        first = self.base // SECTOR
        mine = sectors[(sectors >= first) & (sectors < first + self.wave.size)].astype(np.int64) - first
        new = int((self.wave[mine] != wave).sum())
        self.wave[mine] = wave
        return new

    @property
    def end(self) -> int:
        return self.base + self.inside.size * self.itemsize


@dataclass(frozen=True)
class Far:
    """An array as a kernel sees it whose slices, along its first axis, are `apart` times as far apart as in memory.

    Between them is nothing, so an array of a few kilobytes has the offsets of one of 2**32 elements. The kernel's
    addresses are in a room of their own, above all addresses that a process can have.
    """

    name: str
    itemsize: int
    first: int
    """Address of the first element in memory; for the kernel it is `room`."""
    begin: int
    end: int
    """Addresses of the storage around the array."""
    step: int
    """Bytes from slice to slice in memory."""
    apart: int
    room: int

    def holds(self, address: int) -> bool:
        return self.begin <= address < self.end

    def seen(self, address: int) -> int:
        """An address in memory as the kernel gets it."""
        return self.room + address - self.first

    def mine(self, addresses: np.ndarray) -> np.ndarray:
        return addresses >> np.uint64(ROOM) == self.room >> ROOM

    def in_memory(self, addresses: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Where the kernel's addresses are in memory, and which of them are anywhere at all."""
        offsets = (addresses - np.uint64(self.room)).astype(np.int64)
        slices, rest = np.divmod(offsets, self.step * self.apart)
        found = self.first + slices * self.step + rest
        return found.astype(np.uint64), (rest < self.end - self.first) & (self.begin <= found) & (found < self.end)


ROOM = 48
"""A room for an array has addresses of so many bits, and the array begins in its middle. A process has 47 bits."""


@dataclass
class Counts:
    """Totals of one or more launches. Bytes count active lanes; a sector is 32 aligned bytes, counted once for each
    load or store of a program that touches it. `wave_load_sectors` counts a sector once for each wave of `WAVE`
    neighboring programs that read it: what memory delivers if the L2 holds just what a wave reads."""

    launches: int = 0
    programs: int = 0
    loads: int = 0
    stores: int = 0
    atomics: int = 0
    load_bytes: int = 0
    store_bytes: int = 0
    global_load_sectors: int = 0
    global_store_sectors: int = 0
    global_atomic_sectors: int = 0
    wave_load_sectors: int = 0
    masked_lanes: int = 0
    repeated_stores: int = 0
    """Elements that a program stored after another one of the launch had, with nothing to order the two."""
    scratch_bytes: int = 0
    """The most memory of the launcher's own that one launch was given."""

    @property
    def bytes(self) -> int:
        return self.load_bytes + self.store_bytes

    def to_json(self) -> dict:
        return asdict(self)


@dataclass
class Change:
    """The latest change of a variable by an atomic: the bits before it, its epoch, how often each program has seen
    those bits since. `again` does the change once more, to any bits; None if the change used what it found, so that
    nothing may come between."""

    before: int
    epoch: int
    shown: dict[int, int] = field(default_factory=dict)
    again: Callable[[int], int] | None = None


FOLLOWED, LANES = 1 << 16, 64
"""Variables whose changes are kept, and lanes of one atomic that are looked at."""

ENOUGH = 1 << 30
"""In place of how often a program may see old bits: it has seen the new ones."""

WAVE = 16
"""Programs that are taken to run at the same time: few, so that the small cases of a check have many waves."""


def distinct(values: np.ndarray) -> np.ndarray:
    """`np.unique`; in a tenth of its time where the values are in order, as most accesses' addresses are."""
    values = values.ravel()
    later = values[1:]
    if (later < values[:-1]).any():
        return np.unique(values)
    return np.concatenate([values[:1], later[later != values[:-1]]])


class Recorder:
    """Findings, counts and (with `keep_events`) every access of the launches it watches."""

    thorough = True
    """Does it look for more than accesses outside of the arrays?"""

    def __init__(self, keep_events: bool = False, poisons: bool = True):
        self.poisons = poisons and self.thorough
        """Does what Triton leaves undefined hold anything? Else masked lanes of a load without `other` hold 0, as they
        do on NVIDIA's GPUs."""
        self.arrays: list[Tracked] = []
        self.far: list[Far] = []
        self.findings: list[AccessFinding] = []
        self.counts = Counts()
        self.events: list[tuple[str, str, int, np.ndarray, int]] | None = [] if keep_events else None
        self.grid = 0
        """Programs of the latest launch."""
        self._program = 0
        self._place = (0, 0, 0)
        self._epochs = [Epoch(0, 0)]
        """Shadow state holds their numbers in this list."""
        self._now = 0
        self._meetings: dict[int, int] = defaultdict(int)
        """For each program, how often its threads have met."""
        self._written: dict[int, int] = {}
        """For each program, the number of the epoch of what its threads have written since they met."""
        self._clocks: dict[int, VectorClock] = defaultdict(VectorClock)
        """For each program, what happened before its current epoch."""
        self._releases: dict[int, VectorClock] = defaultdict(VectorClock)
        """For each address of an atomic, what happened before an atomic that comes next."""
        self._changes: dict[int, Change] = {}
        """For each address of an atomic, its latest change."""
        self._atomics: dict[int, int] = defaultdict(int)
        """For each program, the atomics so far: the clock of its current epoch."""
        self._updates: dict[tuple[int, ...], int] = {}
        """The sets of epochs of unordered atomics, with their numbers."""
        self._update_sets: list[np.ndarray] = []
        """The same by number."""

    def track(self, name: str, base: int, itemsize: int, inside: np.ndarray, start: int = 0, scratch=False) -> None:
        """Watch the storage at address `base`; `inside` marks the elements that belong to the array.

        Scratch is watched for one launch only: afterwards its memory may be freed and given to something else.
        """
        self.arrays.append(Tracked(name, base, itemsize, np.asarray(inside), start, scratch))
        if scratch:
            given = sum(t.end - t.base for t in self.arrays if t.scratch)
            self.counts.scratch_bytes = max(self.counts.scratch_bytes, given)

    def spread(self, name: str, first: int, step: int, apart: int) -> None:
        """Let kernels see the slices of a tracked array, `step` bytes apart from address `first` on, `apart` times as
        far apart."""
        t = next(t for t in self.arrays if t.name == name)
        room = (2 * len(self.far) + 3) << (ROOM - 1)
        self.far.append(Far(name, t.itemsize, first, t.base, t.end, step, apart, room))

    def stretched(self, number: int) -> int:
        """A number that a kernel is launched with: the stride of a far array grows, all others stay."""
        return next((number * f.apart for f in self.far if number * f.itemsize == f.step), number)

    def seen(self, address: int) -> int:
        """An address that a kernel is launched with, as the kernel gets it."""
        return next((f.seen(address) for f in self.far if f.holds(address)), address)

    def in_memory(self, addresses: np.ndarray) -> np.ndarray:
        """Where a kernel's addresses are in memory. Those that are nowhere stay, and are outside of all arrays."""
        if not self.far or not (addresses >> np.uint64(ROOM)).any():
            return addresses
        found = addresses.copy()
        for f in self.far:
            mine = f.mine(addresses)
            at, there = f.in_memory(addresses[mine])
            found[mine] = np.where(there, at, addresses[mine])
        return found

    def knows(self, address: int) -> bool:
        return any(t.base <= address < t.end for t in self.arrays)

    def between(self, addresses: np.ndarray) -> list[Tracked]:
        """The arrays that some of these addresses may be in: most accesses are in one."""
        if not addresses.size:
            return []
        first, last = addresses.min(), addresses.max()
        return [t for t in self.arrays if t.base <= last and first < t.end]

    def launch(self) -> None:
        """A new launch: everything before it has finished."""
        self.counts.launches += 1
        self.arrays = [t for t in self.arrays if not t.scratch]
        for t in self.arrays:
            t.forget()
        self._epochs, self._now = [Epoch(0, 0)], 0
        for known in (self._clocks, self._releases, self._changes, self._atomics, self._updates, self._update_sets,
                      self._meetings, self._written):  # fmt: skip
            known.clear()

    def program(self, place: tuple[int, int, int], number: int) -> None:
        self.go_on(place, number)
        self.counts.programs += 1

    def go_on(self, place: tuple[int, int, int], number: int) -> None:
        """A program begins, or goes on after others ran while it waited."""
        self._place, self._program = place, number
        if self._epochs[self._now].program != number:
            self._begin(Epoch(number, self._atomics[number]))

    def _begin(self, epoch: Epoch) -> None:
        self._now = len(self._epochs)
        self._epochs.append(epoch)

    def meet(self) -> None:
        """The program's threads have met at a barrier, of its own or inside a reduction, say."""
        self._meetings[self._program] += 1
        self._written.pop(self._program, None)

    def _writing(self, elements: int) -> int:
        """The number of the epoch of a write of so many elements."""
        if elements <= 1:
            return self._now
        if self._program not in self._written:
            self._written[self._program] = len(self._epochs)
            self._epochs.append(Epoch(self._program + ALL_THREADS, self._meetings[self._program]))
        return self._written[self._program]

    def load(self, addresses: np.ndarray, mask: np.ndarray, itemsize: int, where, volatile=False) -> np.ndarray:
        """Lanes that may read. A volatile load is no race with an atomic; it orders nothing either."""
        touched: list[tuple[Tracked, np.ndarray]] = []
        ok = self._resolve("load", addresses, mask, itemsize, where, touched=touched)
        if self._updates and not volatile:
            for t, elements in touched:
                self._unordered_updates(t, elements, where)
        self.counts.loads += 1
        self.counts.load_bytes += int(ok.sum()) * itemsize
        sectors = self._sectors("load", addresses[ok], itemsize, ok.size, where)
        self.counts.global_load_sectors += sectors.size
        self.counts.wave_load_sectors += self._new_in_wave(sectors, touched)
        return ok

    def _sectors(self, access: str, addresses: np.ndarray, itemsize: int, lanes: int, where) -> np.ndarray:
        """The sectors that one access touches, in order. `addresses` are those of its active lanes, of `lanes`."""
        return distinct(addresses // np.uint64(SECTOR))

    def _new_in_wave(self, sectors: np.ndarray, touched: list[tuple[Tracked, np.ndarray]]) -> int:
        return sum(t.new_in_wave(sectors, self._program // WAVE) for t, _ in touched)

    def store(self, addresses, mask, itemsize: int, where, changes: np.ndarray | None = None) -> np.ndarray:
        """Lanes that may write. `changes` marks lanes whose value differs from what memory holds: writing the same
        bits twice is harmless."""
        ok = self._resolve("store", addresses, mask, itemsize, where, changes)
        self.counts.stores += 1
        self.counts.store_bytes += int(ok.sum()) * itemsize
        self.counts.global_store_sectors += self._sectors("store", addresses[ok], itemsize, ok.size, where).size
        return ok

    def disagree(self, addresses: np.ndarray, ok: np.ndarray, values: np.ndarray, where) -> None:
        """A race inside of one store: two lanes that are allowed to write have one address and different bits. The
        last lane wins here, any of them on a GPU."""
        at = addresses[ok]
        if (at[1:] > at[:-1]).all():
            return
        bits = np.ascontiguousarray(np.broadcast_to(values, addresses.shape)[ok])
        bits = bits.view(f"u{bits.dtype.itemsize}")
        order = np.argsort(at, kind="stable")
        at, bits = at[order], bits[order]
        bad = (at[1:] == at[:-1]) & (bits[1:] != bits[:-1])
        if not bad.any():
            return
        for t in self.arrays:
            here = at[1:][bad & (at[1:] >= t.base) & (at[1:] < t.end)]
            if here.size:
                index = (int(here[0]) - t.base) // t.itemsize - t.start
                self._add("race", "store", t.name, index, where, here.size, lanes=True)

    def atomic(self, addresses, mask, itemsize: int, where, semantics="acq_rel", unseen=frozenset()) -> np.ndarray:
        """Lanes that may update atomically. An atomic that acquires comes after those that released its address: what
        others did before their atomic happened before what this program does next; what they did after theirs did not.
        It acquires nothing at the addresses in `unseen`. One atomic looks at `LANES` addresses."""
        touched: list[tuple[Tracked, np.ndarray]] = []
        ok = self._resolve("atomic", addresses, mask, itemsize, where, touched=touched)
        self.counts.atomics += 1
        sectors = self._sectors("atomic", addresses[ok], itemsize, ok.size, where)
        self.counts.global_atomic_sectors += sectors.size
        self.counts.wave_load_sectors += self._new_in_wave(sectors, touched)  # an atomic reads, too
        self.counts.load_bytes += int(ok.sum()) * itemsize
        self.counts.store_bytes += int(ok.sum()) * itemsize
        clock, epoch = self._clocks[self._program], self._epochs[self._now]
        # one thread executes an atomic on one variable: what others wrote since the threads met, it does not release
        met = self._meetings[self._program] - (1 if addresses.size == 1 else 0)
        acquires, releases = semantics in ("acquire", "acq_rel"), semantics in ("release", "acq_rel")
        for address in np.unique(addresses[ok])[:LANES].tolist() if acquires or releases else ():
            release = self._releases[address]
            if acquires and address not in unseen:
                clock.join(release)
            if releases:
                release.join(clock)
                release.add(epoch)
                if met >= 0:
                    release.add(Epoch(self._program + ALL_THREADS, met))
        for t, elements in touched:
            self._mark_read(t, elements)
        self._atomics[self._program] = epoch.clock + 1
        self._begin(Epoch(self._program, epoch.clock + 1))
        return ok

    def change(self, address: int) -> Change | None:
        """The latest change by an atomic at an address, as far as it is followed."""
        return self._changes.get(address)

    def may_miss(self, change: Change, most: int = 1) -> bool:
        """May an atomic by this program still see what was there before? If another program made the change, and
        nothing orders it before now. Each program may `most` times, until it has seen the change: both are noted."""
        seen = change.shown.get(self._program, 0)
        if seen >= most or self._happened_before(np.array([change.epoch]))[0]:
            change.shown[self._program] = ENOUGH
            return False
        change.shown[self._program] = seen + 1
        return True

    def updated(self, addresses: np.ndarray, epoch: int) -> None:
        """An atomic of that epoch has changed what is at these addresses."""
        epoch = self._writing(addresses.size) if addresses.size > 1 else epoch
        for t in self.arrays:
            here = addresses[(addresses >= t.base) & (addresses < t.end)]
            elements = ((here - np.uint64(t.base)) // np.uint64(t.itemsize)).astype(np.int64)
            before = t.updates[elements]
            for number in np.unique(before).tolist():
                earlier = self._update_sets[number] if number != NOBODY else np.empty(0, np.int64)
                unordered = earlier[~self._happened_before(earlier)][1 - MOST_UPDATES :]
                together = np.append(unordered, epoch)
                t.updates[elements[before == number]] = self._number_of(together)

    def _number_of(self, epochs: np.ndarray) -> int:
        """The number of a set of epochs of unordered atomics."""
        number = self._updates.setdefault(tuple(epochs.tolist()), len(self._update_sets))
        if number == len(self._update_sets):
            self._update_sets.append(epochs)
        return number

    def changed(self, address: int, before: int, epoch: int, again: Callable[[int], int] | None = None) -> None:
        """An atomic of that epoch has changed the bits at an address."""
        if address in self._changes or len(self._changes) < FOLLOWED:
            self._changes[address] = Change(before, epoch, again=again)

    @property
    def now(self) -> int:
        """The number of the current epoch."""
        return self._now

    def _resolve(self, access, addresses, mask, itemsize, where, changes=None, touched=None) -> np.ndarray:
        mask = np.broadcast_to(np.asarray(mask, bool), addresses.shape)
        self.counts.masked_lanes += int(mask.size - mask.sum())
        if self.events is not None and not mask.all():
            self._keep_masked(access, addresses[~mask], itemsize)
        ok = np.zeros(addresses.shape, bool)
        left = mask.copy()
        for t in self.between(addresses[mask]):
            here = left & (addresses >= t.base) & (addresses < t.end)
            if not here.any():
                continue
            left &= ~here
            element = ((addresses[here] - np.uint64(t.base)) // np.uint64(t.itemsize)).astype(np.int64)
            if itemsize > t.itemsize:
                good = self._wide(access, t, addresses, here, element, itemsize, ok, where)
                own = None
            else:
                inside = t.inside[element]
                ok[here] = inside
                if not inside.all():
                    self._outside(access, t, element[~inside], where)
                good, own = element[inside], None if changes is None else changes[here][inside]
            if self.events is not None:
                self.events.append((access, t.name, self._program, element - t.start, itemsize))
            self._conflicts(access, t, good, own, where)
            if touched is not None:
                touched.append((t, good))
        if left.any():
            self._wild(access, addresses[left], where)
        return ok

    def _wide(self, access, t: Tracked, addresses, here, element, itemsize: int, ok, where) -> np.ndarray:
        """Accesses by a pointer that was cast to a wider type: every element that they touch is looked at. Gives those
        of the lanes that are inside, and marks these in `ok`."""
        touched = element[:, None] + np.arange(-(-itemsize // t.itemsize))
        within = touched < t.inside.size
        inside = within & t.inside[np.where(within, touched, 0)]
        aligned = addresses[here] % np.uint64(itemsize) == 0
        if not aligned.all():
            self._add("misaligned", access, t.name, element[~aligned][0] - t.start, where, (~aligned).sum())
        if not inside.all():
            self._outside(access, t, touched[~inside], where)
        ok[here] = inside.all(axis=1) & aligned
        return touched[ok[here]].ravel()

    def _add(self, kind, access, t_name, index, where, count, past_end=False, lanes=False, overflowed=False):
        if len(self.findings) < MAX_FINDINGS:
            line, source = where()
            facts = (kind, access, t_name, int(index), self._place, line, source, int(count), bool(past_end), lanes)
            self.findings.append(AccessFinding(*facts, overflowed))

    def _outside(self, access, t: Tracked, elements, where):
        index = elements - t.start
        first = index[index >= 0].min() if (index >= 0).any() else index.max()
        last_inside = np.flatnonzero(t.inside)[-1] - t.start
        self._add("out-of-bounds", access, t.name, first, where, elements.size, first == last_inside + 1)

    def _wild(self, access, addresses, where):
        """Not in any known storage: name the array whose end is nearest, or the far array whose room it is in."""
        address = int(addresses[0])
        for f in self.far:
            if f.mine(addresses[:1]).all():
                without = addresses[:1] + np.uint64(f.itemsize << 32)
                overflowed = bool(f.in_memory(without)[1].all())
                index = (address - f.room) // f.itemsize
                self._add("out-of-bounds", access, f.name, index, where, addresses.size, overflowed=overflowed)
                return
        if not self.arrays:
            return
        t = min(self.arrays, key=lambda t: min(abs(address - t.base), abs(address - t.end)))
        index = (address - t.base) // t.itemsize - t.start
        self._add("out-of-bounds", access, t.name, index, where, addresses.size)

    def _keep_masked(self, access, addresses, itemsize):
        """Where lanes that the mask switched off pointed: the picture shows them beside the array's end."""
        for t in self.arrays:
            near = (addresses >= t.base) & (addresses < t.end)
            if near.any():
                elements = ((addresses[near] - np.uint64(t.base)) // np.uint64(t.itemsize)).astype(np.int64)
                self.events.append((f"masked {access}", t.name, self._program, elements - t.start, itemsize))

    def _conflicts(self, access, t: Tracked, elements, changes, where):
        bad = ~self._happened_before(t.writer[elements])
        if access == "store":
            self.counts.repeated_stores += int(bad.sum())
            bad |= ~self._happened_before(t.reader[elements])
            if changes is not None:
                bad &= changes
        if bad.any():
            self._add("race", access, t.name, elements[bad][0] - t.start, where, bad.sum())
        if access == "store":
            t.writer[elements] = self._writing(elements.size)
        elif access == "load":
            self._mark_read(t, elements)

    def _unordered_updates(self, t: Tracked, elements, where):
        """A plain load: do all atomics that changed these elements come before it?"""
        numbers = t.updates[elements]
        bad = np.zeros(numbers.shape, bool)
        for number in np.unique(numbers[numbers != NOBODY]).tolist():
            if not self._happened_before(self._update_sets[number]).all():
                bad |= numbers == number
        if bad.any():
            self._add("race", "load", t.name, elements[bad][0] - t.start, where, bad.sum())

    def _mark_read(self, t: Tracked, elements):
        """What happens after this program also happens after those before it, so that one reader is kept if it can."""
        t.reader[elements] = np.where(self._happened_before(t.reader[elements]), self.now, MANY)

    def _happened_before(self, others: np.ndarray) -> np.ndarray:
        """Which of these epochs are this program's own, nobody's, or known to have happened before now?"""
        before = (others == NOBODY) | (others == self.now) | (others == self._written.get(self._program, NOBODY))
        if before.all():
            return before
        clock = self._clocks[self._program]
        for number in np.unique(others[~before]).tolist():
            if number == MANY:
                continue
            epoch = self._epochs[number]
            if epoch.program in (self._program, self._program + ALL_THREADS) or epoch in clock:
                before |= others == number
        return before


class Guard(Recorder):
    """Only keeps accesses inside of the arrays, for launches that nobody counts: half of a recorder's time."""

    thorough = False

    def load(self, addresses, mask, itemsize, where, volatile=False):
        return self._resolve("load", addresses, mask, itemsize, where)

    def store(self, addresses, mask, itemsize, where, changes=None):
        return self._resolve("store", addresses, mask, itemsize, where)

    def _conflicts(self, *_):
        pass
