"""Which versions of Python and other packages labutils takes, and what to do where one is missing, too old or too new.

`REQUIREMENTS` is the one table: labutils/pyproject.toml says the same to pip (a test compares them), the first import
checks it, and `python -m labutils` prints it beside what is installed.
"""

from __future__ import annotations

import functools
import importlib.util
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata

PYTHON = (3, 10)
UNKNOWN = "of an unknown version"


@dataclass(frozen=True)
class Requirement:
    """A package. `least`: the oldest version that works. `below`: the first that does not, as far as is known.
    `tried`: the newest that the course was run with. `needed_for`: what does not work without it ("": everything)."""

    name: str
    least: str
    tried: str
    below: str = ""
    needed_for: str = ""
    linux_only: bool = False

    @property
    def here(self) -> bool:
        """Is it to be had on this system?"""
        return not self.linux_only or sys.platform == "linux"

    @property
    def specifier(self) -> str:
        """As pip writes it."""
        return f"{self.name}>={self.least}" + (f",<{self.below}" if self.below else "")

    @property
    def command(self) -> str:
        return f'pip install "{self.specifier}"'

    def is_newer(self, version: str) -> bool:
        """Newer than any version that the course was run with?"""
        return version != UNKNOWN and _numbers(version)[:2] > _numbers(self.tried)[:2]

    def problem(self) -> str:
        """What is wrong with what is installed, in one sentence with the command that helps; "" if nothing is."""
        version = installed(self.name)
        if version == UNKNOWN:
            return ""
        if version is None:
            return f"{self.name} is not installed{self._matters()}: {self.command}"
        if _numbers(version) < _numbers(self.least):
            return f"{self.name} {version} is too old{self._matters()}: {self.command}, then restart the kernel"
        if self.below and _numbers(version) >= _numbers(self.below):
            return f"{self.name} {version} is too new{self._matters()}: {self.command}, then restart the kernel"
        return ""

    def _matters(self) -> str:
        return f", so {self.needed_for} cannot be used" if self.needed_for else ""


REQUIREMENTS = (
    Requirement("torch", "2.9", tried="2.15"),
    Requirement("numpy", "1.26", tried="2.4"),
    Requirement("triton", "3.6", tried="3.9", needed_for="Triton kernels", linux_only=True),
    Requirement("ipywidgets", "8", tried="8.1", needed_for="widgets"),
    Requirement("matplotlib", "3.8", tried="3.11", needed_for="pictures"),
    Requirement("cuda-bindings", "13.0.3", tried="13.5", below="14", needed_for="CUDA C++ for a GPU"),
)


@functools.cache
def installed(name: str) -> str | None:
    """The version of an installed package, or None. UNKNOWN if it can be imported and pip does not know it."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        pass
    try:
        return UNKNOWN if importlib.util.find_spec(name.replace("-", ".")) else None
    except ModuleNotFoundError:  # the package that it would be a part of is missing
        return None


def problem(name: str) -> str:
    """What is wrong with one package of `REQUIREMENTS`, or ""."""
    return next(r for r in REQUIREMENTS if r.name == name).problem()


def require() -> None:
    """Raise Unsupported if nothing of labutils can work here."""
    if sys.version_info < PYTHON:
        raise Unsupported(f"labutils needs Python {'.'.join(map(str, PYTHON))} or newer; this is {_python()}.")
    for requirement in REQUIREMENTS:
        if not requirement.needed_for and (why := requirement.problem()):
            raise Unsupported(f"labutils cannot start. {why}")


def limits() -> Iterator[str]:
    """A sentence for each part of the course that cannot be used here."""
    for requirement in REQUIREMENTS:
        if requirement.here and requirement.needed_for and (why := requirement.problem()):
            yield why


class Unsupported(ImportError):
    """Something that all of labutils needs is missing or too old; the message says what to do."""

    def _render_traceback_(self):  # IPython shows this instead of a traceback through our files
        return [str(self)]


class Missing(RuntimeError):
    """A part of the course cannot be used on this machine; the message says what to do."""

    def _render_traceback_(self):
        return [str(self)]


def _numbers(version: str) -> tuple[int, ...]:
    """The release as numbers, three of them: what follows (rc1, +cu130) decides nothing here."""
    found = [int(n) for n in re.findall(r"\d+", version.partition("+")[0])[:3]]
    return (*found, *[0] * (3 - len(found)))


def _python() -> str:
    return ".".join(map(str, sys.version_info[:3]))
