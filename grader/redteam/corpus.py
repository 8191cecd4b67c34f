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
    "channel": "what is told to the judge",
    "environment": "the machine around it",
    "notebook": "the notebook and its cells",
    "cpu": "a judge without a GPU",
}

CONTROLS = "controls"

_ALLOWED = {
    "where": {"both", "gpu"},
    "expect": {"refused", "no effect", "accepted", "known limit"},
    "baseline": {"full", "none"},
    "slow": {"yes"},
    "stock": {"no"},
    "plain child": {"no"},
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
    )


def trials(names: list[str] | None = None) -> list[Trial]:
    """All trials, or those whose family, name or family/name is among `names`, in the order of the families."""
    folders = [HERE / "attacks" / family for family in FAMILIES] + [HERE / CONTROLS]
    found = [read(p) for folder in folders for p in sorted(folder.glob("*")) if p.suffix in (".py", ".cu")]
    if not names:
        return found
    if unknown := [n for n in names if not any(n in (t.family, t.name, t.id) for t in found)]:
        raise ValueError(f"no attack, control or family is called {', '.join(unknown)}")
    return [t for t in found if {t.family, t.name, t.id} & set(names)]
