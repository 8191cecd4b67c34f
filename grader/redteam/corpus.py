"""The files of the red team, read."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent

FAMILIES = {
    "replay": "results kept from an earlier run",
    "answers": "looking for the answers",
    "comparator": "outputs and what compares them",
    "inputs": "inputs, sizes and phases",
    "intent": "work that is not the kernel's own",
    "timing": "the clock",
    "channel": "what is reported to the judge",
    "environment": "the machine around it",
    "notebook": "the notebook and its cells",
    "cpu": "a judge without a GPU",
    "native": "native code in the emulator",
    "counts": "work that nothing counts",
    "plans": "a launcher that does the work",
    "order": "races and bounds that nothing sees",
    "neighbors": "other people's jobs and files",
    "denial": "one submission that stops the class",
}

ALONE = ("neighbors", "denial")
"""Families that are tried in a process of their own, beside honest work: `grader/redteam/alone.py`."""

CONTROLS = "controls"

_ALLOWED = {
    "where": {"both", "gpu"},
    "expect": {"refused", "no effect", "accepted", "known limit", "no undue points", "harmless"},
    "baseline": {"full", "none"},
    "slow": {"yes"},
    "stock": {"no"},
    "plain child": {"no"},
    "submits": {"answers", "notebook", "folder"},
    "beside": {"itself", "itself later", "honest", "honest later"},
    "without a gpu": {"needs-gpu"},
}


@dataclass(frozen=True)
class Trial:
    """One file: what it tries, on which exercise, and what should come of it."""

    family: str
    name: str
    path: Path
    exercise: str
    tries: str
    stopped_by: str
    expect: str
    where: str = "both"
    baseline: str = ""
    slow: bool = False
    stock: bool = True
    plain_child: bool = True
    needs_gpu: bool = False
    due: float = 0.0
    submits: str = "answers"
    beside: str = ""

    @property
    def is_alone(self) -> bool:
        """Does it have a process of its own?"""
        return self.family in ALONE

    @property
    def id(self) -> str:
        return f"{self.family}/{self.name}"

    @property
    def text(self) -> str:
        return self.path.read_text(encoding="utf-8")


def read(path: Path) -> Trial:
    """The trial in a file. Raises ValueError for a wrong header."""
    head = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        found = re.fullmatch(r"(?:#|//) ([a-z ]+): (.+)", line)
        if not found:
            break
        head[found[1]] = found[2]
    for key, value in head.items():
        if key in _ALLOWED and value not in _ALLOWED[key]:
            raise ValueError(f"{path}: {key} is {value!r}; it may be {', '.join(sorted(_ALLOWED[key]))}")
    control = path.parent.name == CONTROLS
    needed = {"exercise", "expect", "tries"} | (set() if control else {"stopped by", "where"})
    if missing := needed - head.keys():
        raise ValueError(f"{path}: the header lacks {', '.join(sorted(missing))}")
    if control != (head["expect"] == "accepted") or ("baseline" in head) != (head["expect"] == "no effect"):
        raise ValueError(f"{path}: a control expects 'accepted', and 'no effect' needs a baseline")
    if ("due" in head) != (head["expect"] == "no undue points") or not re.fullmatch(
        r"\d+(\.\d+)?", head.get("due", "0")
    ):
        raise ValueError(f"{path}: 'no undue points' needs the number of points that are due, and nothing else has one")
    alone = path.parent.name in ALONE
    if not alone and (head["expect"] == "harmless" or {"submits", "beside"} & head.keys()):
        raise ValueError(f"{path}: only a trial in a process of its own can be harmless, or have others beside it")
    return Trial(
        family=path.parent.name,
        name=path.stem,
        path=path,
        exercise=head["exercise"],
        tries=head["tries"],
        stopped_by=head.get("stopped by", ""),
        expect=head["expect"],
        where=head.get("where", "both"),
        baseline=head.get("baseline", ""),
        slow="slow" in head,
        stock="stock" not in head,
        plain_child="plain child" not in head,
        due=float(head.get("due", 0)),
        submits=head.get("submits", "answers"),
        beside=head.get("beside", ""),
        needs_gpu="without a gpu" in head,
    )


def trials(names: list[str] | None = None, root: Path | None = None) -> list[Trial]:
    """All trials, or those whose family, name or family/name is among `names`, in the order of the families.

    `root` is a folder with one folder for each family, in place of the trials that are kept here.
    """
    folders = [(root or HERE / "attacks") / family for family in FAMILIES] + [(root or HERE) / CONTROLS]
    found = [read(p) for folder in folders for p in sorted(folder.glob("*")) if p.suffix in (".py", ".cu")]
    if not names:
        return found
    if unknown := [n for n in names if not any(n in (t.family, t.name, t.id) for t in found)]:
        raise ValueError(f"no attack, control or family is called {', '.join(unknown)}")
    return [t for t in found if {t.family, t.name, t.id} & set(names)]
