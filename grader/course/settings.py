"""What is a course's own: a small file beside `solutions/`, which `python -m grader course init` writes.

    course_id = "gpu-2026"                                     # nbgrader's name of the course
    repository = "https://github.com/gpu-kernel-lab/gpu-kernel-lab"
    branch = "term-2026"                                       # left out: the repository's default branch
    wheel = "https://example.org/labutils-1.0-py3-none-any.whl"   # what Colab installs instead of the repository
    exchange = "/srv/nbgrader/exchange"                        # nbgrader's exchange
    roster = "roster.csv"                                      # who takes the course (grader/intake/roster.py)
    walkthroughs = ["00_start"]                                # units whose solutions `lab.walkthrough` shows; ["all"]

    [weights]                                                  # of each unit in the course's result; left out: 1
    "06_elementwise_triton" = 2

    [scale]                                                    # grades by the least percentage that earns them
    A = 90
    B = 75

Every line may be left out. Without the file the course is this repository's own.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path

from grader.course.regions import BuildError

FILE = "course.toml"

_COURSE_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_ADDRESS = re.compile(r"https?://[^\s\"'<>\\]+")
_BRANCH = re.compile(r"[\w./-]*")


@dataclass(frozen=True)
class CourseSettings:
    """A course's own settings; the defaults are those of this repository."""

    course_id: str = "gpu-kernel-lab"
    repository: str = "https://github.com/gpu-kernel-lab/gpu-kernel-lab"
    branch: str = ""
    wheel: str = ""
    exchange: str = ""
    roster: str = ""
    walkthroughs: tuple[str, ...] = ("all",)
    weights: Mapping[str, float] = field(default_factory=dict)
    scale: Mapping[str, float] = field(default_factory=dict)

    @property
    def requirement(self) -> str:
        """What pip installs on Colab: labutils."""
        at = f"@{self.branch}" if self.branch else ""
        return self.wheel or f"labutils @ git+{self.repository}{at}#subdirectory=labutils"

    def page(self, path: str) -> str:
        """The web page of a file in the repository."""
        return f"{self.repository}/blob/{self.branch or 'main'}/{path}"

    def colab(self, path: str) -> str | None:
        """The address at which Colab opens a notebook of the repository; None if it is not on GitHub."""
        host, _, rest = self.page(path).removeprefix("https://").partition("/")
        return f"https://colab.research.google.com/github/{rest}" if host == "github.com" else None

    def grade(self, percent: float) -> str:
        """The grade for a percentage; empty without a scale, or below it."""
        reached = [(least, name) for name, least in self.scale.items() if round(percent, 6) >= least]
        return max(reached)[1] if reached else ""

    def as_toml(self) -> str:
        """The file's text. Settings that are as in the default are left out, except for the two that everyone needs."""
        lines = ["# The course's own settings; grader/course/settings.py explains each. After a change: build again."]
        for f in fields(self):
            value = getattr(self, f.name)
            if isinstance(value, str) and (value or f.name in ("course_id", "repository")):
                lines.append(f"{f.name} = {_quoted(value)}")
        if self.walkthroughs != ("all",):
            lines.append(f"walkthroughs = [{', '.join(map(_quoted, self.walkthroughs))}]")
        for name in ("weights", "scale"):
            if table := getattr(self, name):
                lines += ["", f"[{name}]", *(f"{_quoted(key)} = {number:g}" for key, number in table.items())]
        return "\n".join(lines) + "\n"


def read_settings(root: Path) -> CourseSettings:
    """The settings of the course in the folder `root`. Raises BuildError if its file cannot be used."""
    try:
        text = (root / FILE).read_text(encoding="utf-8")
    except FileNotFoundError:
        return CourseSettings()
    except (OSError, UnicodeDecodeError) as problem:
        raise BuildError(f"{FILE} cannot be read: {problem}") from None
    try:
        return checked(tomllib.loads(text))
    except (tomllib.TOMLDecodeError, ValueError) as problem:
        raise BuildError(f"{FILE}: {problem}") from None


def checked(table: dict) -> CourseSettings:
    """Settings from a table. Raises ValueError with a sentence."""
    known = {f.name for f in fields(CourseSettings)}
    if unknown := sorted(table.keys() - known):
        raise ValueError(f"unknown setting {', '.join(unknown)}; there are {', '.join(sorted(known))}")
    for name, value in table.items():
        if name in ("weights", "scale"):
            if not isinstance(value, dict) or not all(_is_share(number) for number in value.values()):
                raise ValueError(f"{name}: each line is a name and a number that is not negative")
        elif name == "walkthroughs":
            if not isinstance(value, (list, tuple)) or not all(isinstance(unit, str) for unit in value):
                raise ValueError('walkthroughs is a list of units: ["all"], [] for none, or ["00_start", …]')
            table = table | {name: tuple(value)}
        elif not isinstance(value, str):
            raise ValueError(f"{name} = {value!r} must be text")
    settings = CourseSettings(**table)
    for name, pattern in (("course_id", _COURSE_ID), ("repository", _ADDRESS), ("branch", _BRANCH)):
        if not pattern.fullmatch(getattr(settings, name)):
            raise ValueError(f"{name} = {getattr(settings, name)!r} cannot be used")
    if settings.wheel and not _ADDRESS.fullmatch(settings.wheel):
        raise ValueError(f"wheel = {settings.wheel!r} must be an address that pip can download from")
    return CourseSettings(**table | {"repository": settings.repository.rstrip("/").removesuffix(".git")})


def _is_share(number) -> bool:
    return not isinstance(number, bool) and isinstance(number, (int, float)) and 0 <= number < float("inf")


def _quoted(text: str) -> str:
    """A TOML string; JSON's escapes are TOML's, too."""
    return json.dumps(text, ensure_ascii=False)


def nbgrader_config(settings: CourseSettings, release: str = "") -> str:
    """The text of an `nbgrader_config.py` for the folder in which it lies; `release`: its folder of released units."""
    lines = [
        "# nbgrader's commands and its formgrader find the course by this file: start them in this folder.",
        "from pathlib import Path",
        "",
        "c = get_config()  # noqa: F821",
        "c.CourseDirectory.root = str(Path(__file__).resolve().parent)",
        f"c.CourseDirectory.course_id = {_quoted(settings.course_id)}",
    ]
    if release:
        lines.append(f"c.CourseDirectory.release_directory = {_quoted(release)}")
    if settings.exchange:
        lines.append(f"c.Exchange.root = {_quoted(settings.exchange)}")
    return "\n".join(lines) + "\n"
