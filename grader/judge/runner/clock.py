"""Time beside time: two plans on the same inputs, in turns, each sample cold and checked.

The rules are those of labutils.timing.stopwatch (flush, ring of inputs, A B B A), with what an untrusted kernel needs
on top: it never sees an output that was computed before, and what it leaves is digested after every sample.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Iterable, Iterator

from cuda.bindings import driver as cu

from grader.judge.runner.driver import Buffer, Device, ok
from grader.judge.runner.kernels import LoadedKernel, Replay

WARM_UP_S, BATCH = 0.3, 16
FLUSH_BYTES = 512 << 20
"""At least: the flush is also what the GPU does while the host queues the next launch."""

TUNE_ROUNDS = 5


class Entry:
    """One set of inputs with two sets of outputs. The competitors change places between these: where an array lies in
    memory makes a difference of one percent."""

    def __init__(self, device: Device, arguments: list[dict], memory: memoryview):
        self.inputs, self.arguments = {}, arguments
        self.outputs: tuple[dict[int, Buffer], dict[int, Buffer]] = ({}, {})
        for number, a in enumerate(arguments):
            if "number" in a:
                continue
            if a["output"]:
                for home in self.outputs:
                    home[number] = Buffer(device, a["bytes"])
                    home[number].fill(0)  # what an earlier process left there may be the answer
            else:
                self.inputs[number] = Buffer(device, a["bytes"])
                self.inputs[number].write(memory[a["at"] : a["at"] + a["bytes"]])

    def arrays(self, place: int) -> dict[int, Buffer]:
        return {**self.inputs, **self.outputs[place]}


class Race:
    """Two competitors on a ring of entries; the last entry is for warming up and tuning only, and never scored."""

    def __init__(self, device: Device, helpers, job: dict, memory: memoryview):
        self.device, self.helpers, self.job = device, helpers, job
        self.flush = Buffer(device, max(2 * device.l2_bytes, FLUSH_BYTES))
        self.entries = [Entry(device, e, memory) for e in job["ring"]]
        self.kernels = {side: [LoadedKernel(device, k) for k in job[side]["kernels"]] for side in "ab"}
        self.key, self.random = random.SystemRandom().getrandbits(63), random.SystemRandom()
        self.chosen = {"a": {}, "b": {}}
        self.limit = job["time_limit"]
        for side in "ab":
            self._tune(side)
        self.replays = {
            (side, place): [
                Replay(device, job[side]["plan"], self.kernels[side], e.arrays(place), helpers, self.chosen[side])
                for e in self.entries
            ]
            for side in "ab"
            for place in (0, 1)
        }
        self.digests: dict[int, set[int]] = {n: set() for n in range(len(self.entries) - 1)}
        self.last: dict[int, int] = {}
        self.copy_gbs = 0.0
        self.inputs_before = [self._digest(e.inputs) for e in self.entries]

    def _tune(self, side: str) -> None:
        """Of each autotuned launch the configuration that is fastest here."""
        plan = self.job[side]["plan"]
        for number, step in enumerate(plan["steps"]):
            times = []
            for choice in range(len(step.get("choices", ()))):
                arrays, chosen = self.entries[-1].arrays(0), {**self.chosen[side], number: choice}
                replay = Replay(self.device, plan, self.kernels[side], arrays, self.helpers, chosen)
                replay.run()
                self.device.wait(self.limit)
                times.append(statistics.median(self._seconds([self._sample(replay.run) for _ in range(TUNE_ROUNDS)])))
                replay.free()
            if times:
                self.chosen[side][number] = min(range(len(times)), key=times.__getitem__)

    def _sample(self, work: Callable[[], None], read: Iterable[Buffer] = ()):
        """Events before and after `work`, queued behind the flush and behind `read`, arrays that leave the L2 clean."""
        begin, end = ok(cu.cuEventCreate(0)), ok(cu.cuEventCreate(0))
        self.flush.fill(self.random.getrandbits(32))
        for b in read:
            self.helpers.digest(b, self.key, self.flush.address)
        ok(cu.cuEventRecord(begin, self.device.stream))
        work()
        ok(cu.cuEventRecord(end, self.device.stream))
        return begin, end

    def _seconds(self, samples: list) -> list[float]:
        self.device.wait(self.limit)
        times = []
        for begin, end in samples:
            times.append(ok(cu.cuEventElapsedTime(begin, end)) * 1e-3)
            ok(cu.cuEventDestroy(begin))
            ok(cu.cuEventDestroy(end))
        return times

    def warm_up(self) -> None:
        begin = time.perf_counter()
        while time.perf_counter() - begin < WARM_UP_S:
            for _ in range(4):
                for side in "ab":
                    self.replays[side, 0][-1].run()
            self.device.wait(self.limit)

    def batches(self) -> Iterator[dict[str, list[float]]]:
        """Seconds of BATCH more pairs, for as long as somebody asks."""
        turn = 0
        while True:
            slots, samples = Buffer(self.device, 16 * BATCH), {"a": [], "b": []}
            slots.fill(0)
            at = []
            for k in range(BATCH):
                number = turn % (len(self.entries) - 1)
                at.append(number)
                for side in "ab" if turn % 2 == 0 else "ba":
                    place = (turn // 2 + (side == "b")) % 2
                    replay, outputs = self.replays[side, place][number], self.entries[number].outputs[place]
                    for kernel in replay.used():
                        if kernel.has_state:
                            kernel.load()
                    stale = list(outputs.values())
                    if side == "a":  # no answer lies anywhere when the kernel that is judged runs
                        stale += self.entries[number].outputs[1 - place].values()
                    for output in stale:
                        output.fill(self.random.getrandbits(32))
                    replay.poison(self.random.getrandbits(32))
                    samples[side].append(self._sample(replay.run))
                    if side == "a":
                        self.last[number] = place
                    for output in outputs.values():  # the reference's too: both sides do the same between samples
                        self.helpers.digest(output, self.key, slots.address + 16 * k + 8 * (side == "b"))
                turn += 1
            seconds = {side: self._seconds(samples[side]) for side in "ab"}
            found = bytearray(16 * BATCH)
            slots.read(memoryview(found))
            slots.free()
            self.copy_gbs = max(self.copy_gbs, self._copy_gbs())
            for k, number in enumerate(at):
                self.digests[number].add(int.from_bytes(found[16 * k : 16 * k + 8], "little"))
            yield seconds

    def _digest(self, arrays: dict[int, Buffer]) -> int:
        slot = Buffer(self.device, 16)
        slot.fill(0)
        for b in arrays.values():
            self.helpers.digest(b, self.key, slot.address)
        self.device.wait(self.limit)
        found = bytearray(8)
        slot.read(memoryview(found))
        slot.free()
        return int.from_bytes(found, "little")

    def outcome(self, memory: memoryview) -> dict:
        """After the last batch: outputs of every scored entry go into the shared memory; what the digests say."""
        for k, e in enumerate(self.entries[:-1]):
            for number, output in e.outputs[self.last[k]].items():
                a = e.arguments[number]
                output.read(memory[a["at"] : a["at"] + a["bytes"]])
        return {
            "distinct": [len(d) for d in self.digests.values()],
            "inputs_kept": self.inputs_before == [self._digest(e.inputs) for e in self.entries],
            "copy_gbs": self.copy_gbs,
            "chosen": self.chosen["a"],
        }

    def free(self) -> None:
        """Give back what the race held on the GPU."""
        self.flush.free()
        for e in self.entries:
            for b in (*e.inputs.values(), *e.outputs[0].values(), *e.outputs[1].values()):
                b.free()
        for replay in (r for rs in self.replays.values() for r in rs):
            replay.free()

    def _copy_gbs(self) -> float:
        """Bandwidth of the driver's own copy, bytes read and written. Measured after each batch: what disturbs all
        copies of a race has disturbed the race."""
        half, address = self.flush.size // 2, self.flush.address

        def copy() -> None:
            ok(cu.cuMemcpyDtoDAsync(address, address + half, half, self.device.stream))

        (seconds,) = self._seconds([self._sample(copy, self.entries[-1].inputs.values())])
        return 2 * half / seconds / 1e9
