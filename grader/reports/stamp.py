"""Which pages belong together: the digest of each, written when all of them are there."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

NAME = "pages.json"


def write(out: Path) -> None:
    text = json.dumps(_digests(out), indent=1, ensure_ascii=False)
    (out / NAME).write_text(text, encoding="utf-8", errors="replace")


def problems(out: Path) -> list[str]:
    """Pages that are gone, changed or not whole, as sentences."""
    try:
        then = json.loads((out / NAME).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return ["The pages are not complete."]
    now = _digests(out)
    found = [f"{name} is missing." for name in sorted(then.keys() - now.keys())]
    found += [f"{name} is of another run." for name in sorted(now.keys() - then.keys())]
    both = sorted(then.keys() & now.keys())
    return found + [f"{name} was changed or is not whole." for name in both if now[name] != then[name]]


def _digests(out: Path) -> dict[str, str]:
    """The class report, everything below `feedback`, the pages of a large class, and the list of repairs."""
    large = [*out.glob("students-*.html"), *out.glob("repairs-*.html")]
    files = [out / "report.html", out / "repairs.html", out / "repairs.json", *large, *(out / "feedback").rglob("*")]
    return {
        f.relative_to(out).as_posix(): hashlib.sha256(f.read_bytes()).hexdigest()[:16] for f in files if f.is_file()
    }
