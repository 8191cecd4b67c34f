"""`python -m labutils`: what this machine has for the course, to read or to paste into a bug report.

Ends with status 1 if a part of the course cannot be used here.
"""

from __future__ import annotations

import platform
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from . import environment, support
from .language import show


@dataclass(frozen=True)
class Finding:
    """One line: what was looked for, what was found, and what is wrong with that, if anything."""

    what: str
    found: str
    problem: str = ""


def findings() -> Iterator[Finding]:
    """Everything, the cheap looks first."""
    yield Finding("labutils", sys.modules[__package__].__version__)
    yield Finding("Python", f"{platform.python_version()} on {platform.system()}, {platform.machine()}")
    for requirement in support.REQUIREMENTS:
        if requirement.here:
            version = support.installed(requirement.name)
            newer = " (newer than any version tried)" if version and requirement.is_newer(version) else ""
            yield Finding(requirement.name, f"{version}{newer}" if version else "missing", requirement.problem())
    yield _cache()
    yield _looked("GPU", _gpu)
    yield _looked("Triton's interpreter", _interpreter)
    yield _looked("NVRTC", _nvrtc)
    yield _looked("C++ compiler", _compiler)


def main() -> int:
    show.use()
    sound = True
    for finding in findings():
        sound &= not finding.problem
        print(f"{'✗' if finding.problem else '✓'} {finding.what:21} {finding.found}", flush=True)
        if finding.problem:
            print(f"  {finding.problem}", flush=True)
    return int(not sound)


def _cache() -> Finding:
    wanted = str(environment.cache_folder())
    try:
        problem = environment.ensure_cache()
        free = shutil.disk_usage(environment.cache_folder()).free >> 20
        return Finding("cache", f"{wanted}, {free} MB free", problem)
    except OSError as e:
        return Finding("cache", wanted, str(e))


def _looked(what: str, look: Callable[[], str]) -> Finding:
    try:
        return Finding(what, look())
    except Exception as e:  # whatever a driver or a compiler does, the other lines are worth having
        return Finding(what, "not usable", str(e) or type(e).__name__)


def _gpu() -> str:
    from .gpu import device

    return device.card().splitlines()[0]


def _interpreter() -> str:
    from .backends import interpreter
    from .gpu import device

    if device.has_gpu():
        return "not needed: kernels run on the GPU"
    interpreter.require()
    return "works"


def _nvrtc() -> str:
    from .cuda import nvrtc

    nvrtc.include_folders()
    return nvrtc.version()


def _compiler() -> str:
    from .backends.simt import build

    return build.compiler().version.splitlines()[0]


if __name__ == "__main__":
    sys.exit(main())
