"""Running cases in children, and what came of each."""

from __future__ import annotations

import functools
import multiprocessing
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass

import torch

from labutils import cuda
from labutils.backends import child, emulator
from labutils.backends.interpreter import Unavailable

from .cases import all_cases
from .cuda import Case
from .sources import NotHere

STATUSES = ("right", "wrong", "refused", "crash", "false alarm", "fault", "not here")
"""What a run can come to. "fault": the source is wrong, a person wrote how, and the emulator reports it or shows it in
the result. "false alarm": a finding on a kernel that is right."""


@dataclass(frozen=True)
class Result:
    """What one case came to; `sentence` is the emulator's, or says what differs."""

    source: str
    path: str
    kernel: str
    status: str
    sentence: str = ""
    seconds: float = 0.0

    @property
    def as_it_should_be(self) -> bool:
        return self.status in ("right", "fault")


def examine(case: Case) -> tuple[str, str]:
    """Run a case in this process: (status, sentence)."""
    try:
        arguments = case.drawn()
        references = case.references(arguments)
        seen = case.launch_emulated(arguments)
    except NotHere as e:
        return "not here", str(e)
    except cuda.CompileError as e:
        return ("fault", case.fault) if case.fault else _refused(case, str(e))
    except (cuda.ArgumentError, cuda.LaunchError, Unavailable) as e:
        return _refused(case, str(e))
    except emulator.KernelStopped as e:
        return "crash", str(e)
    if seen["unchecked"]:
        return _refused(case, seen["unchecked"])
    difference, finding = case.difference(arguments, references), next(iter(seen["messages"]), "")
    if case.fault:
        return ("fault", case.fault) if difference or finding else ("wrong", f"does not show its fault: {case.fault}")
    if difference:
        return "wrong", f"{finding} {difference}".strip()
    return ("false alarm", finding) if finding else ("right", "")


def _refused(case: Case, sentence: str) -> tuple[str, str]:
    return "refused", f"(needs {case.needs}) {sentence}" if case.needs else sentence


def results(cases: Sequence[Case], time_limit: float = 120.0) -> Iterator[Result]:
    """The result of each case, in order. A child that dies or hangs is one result; another runs the rest."""
    left = list(cases)
    while left:
        for answer in child.run([functools.partial(_job, case) for case in left], time_limit):
            if isinstance(answer, str):
                answer = {"status": "crash", "sentence": child.end(answer).message}
            case = left.pop(0)
            yield Result(case.source, case.path, case.kernel, **answer)
            if answer["status"] == "crash":
                break


def in_processes(cases: Sequence[Case], jobs: int) -> Iterator[Result]:
    """The same by so many processes at a time. A case holds functions, so they get its number in the list of all."""
    numbers = {case.id: number for number, case in enumerate(all_cases())}
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn")) as pool:
        yield from pool.map(_numbered, [numbers[case.id] for case in cases])


def _numbered(number: int) -> Result:
    torch.set_num_threads(1)
    return next(results([all_cases()[number]]))


def _job(case: Case) -> dict:
    begin = time.process_time()
    try:
        status, sentence = examine(case)
    except (Exception, SystemExit) as e:
        status, sentence = "crash", f"{type(e).__name__}: {e}"
    return {"status": status, "sentence": sentence, "seconds": round(time.process_time() - begin, 2)}


def as_rows(found: Sequence[Result]) -> list[dict]:
    return [asdict(r) for r in found]
