"""A release: what must agree first, then the wheels of `labutils` and of the grader.

    python -m tools.release                   # a dry run: check, build into out/release
    python -m tools.release --tag v0.2.0      # as the workflow of a tag does it

The version is the one of labutils/__init__.py. For a tag it must be the tag's, CHANGELOG.md must have its section, and
the notebooks must install labutils from that tag or from a wheel of that version: never from a branch, which moves.
Every message must be translated into every language of locale/.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from grader.course.locales.catalogs import editions
from grader.course.locales.messages import shares

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "out" / "release"
PROJECTS = {"labutils": "labutils", "gpu_kernel_lab": "."}
"""The name of each wheel, and the folder whose pyproject.toml describes it."""

_JUNK = shutil.ignore_patterns("__pycache__", "*.egg-info", "build", "dist", ".*")


def version(root: Path = ROOT) -> str:
    """`labutils.__version__`, a literal."""
    tree = ast.parse((root / "labutils" / "__init__.py").read_text(encoding="utf-8"))
    (value,) = [n.value for n in tree.body if isinstance(n, ast.Assign) and ast.unparse(n.targets[0]) == "__version__"]
    return ast.literal_eval(value)


def notes(number: str, root: Path = ROOT) -> str:
    """The section of CHANGELOG.md on a version; "" if there is none."""
    text = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    found = re.search(rf"^## {re.escape(number)}\b[^\n]*\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    return found[1].strip() if found else ""


def requirement(root: Path = ROOT) -> str:
    """What a notebook's first cell installs where labutils is missing."""
    notebook = json.loads((root / "notebooks/00_start/00_start.ipynb").read_text(encoding="utf-8"))
    code = "".join(next(cell for cell in notebook["cells"] if cell["cell_type"] == "code")["source"])
    found = re.search(r'%pip install "([^"]+)"', code)
    return found[1] if found else ""


def problems(tag: str, root: Path = ROOT) -> list[str]:
    """What keeps this tree from being released as `tag`, in sentences."""
    number, found = version(root), []
    if tag != f"v{number}":
        found.append(f"The tag is {tag}, and labutils/__init__.py says {number}.")
    if not notes(number, root):
        found.append(f"CHANGELOG.md has no section “## {number}”.")
    if f"@{tag}#" not in (wanted := requirement(root)) and f"-{number}-py3" not in wanted:
        command = f"python -m grader course init --yes --branch {tag} && python -m grader build"
        found.append(f"The notebooks install {wanted!r}, which is not this release: {command}")
    return found + untranslated(root)


def untranslated(root: Path = ROOT) -> list[str]:
    """The catalogs of other languages that lack translations, in sentences."""
    return [
        f"{edition.path(name).relative_to(root)} has translations of {done} of {count} messages."
        for edition in editions(root)
        for name, (done, count) in shares(root, edition).items()
        if done < count
    ]


def build(out: Path, root: Path = ROOT) -> list[Path]:
    """Both wheels in `out`, built from a copy of the tree."""
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as scratch:
        source = Path(scratch) / "source"
        for part in ("grader", "labutils"):
            shutil.copytree(root / part, source / part, ignore=_JUNK)
        for name in ("pyproject.toml", "README.md", "LICENSE"):
            shutil.copy(root / name, source)
        for folder in PROJECTS.values():
            command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", str(out)]
            subprocess.run([*command, str(source / folder)], check=True)
    return sorted(out.glob("*.whl"))


def faults(wheels: list[Path], number: str) -> list[str]:
    """What is wrong with built wheels, in sentences."""
    found = []
    if [wheel.name for wheel in wheels] != [f"{name}-{number}-py3-none-any.whl" for name in sorted(PROJECTS)]:
        found.append(f"Built {', '.join(wheel.name for wheel in wheels) or 'nothing'}.")
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as archive:
            names = archive.namelist()
            (metadata,) = (archive.read(name).decode() for name in names if name.endswith(".dist-info/METADATA"))
        if not any(name.endswith(".dist-info/licenses/LICENSE") for name in names):
            found.append(f"{wheel.name} has no license.")
        if not metadata.partition("\n\n")[2].strip():
            found.append(f"{wheel.name} has no description.")
        if any("solutions/" in name or "__pycache__" in name for name in names):
            found.append(f"{wheel.name} holds files that are no part of the package.")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.release", description="check and build a release")
    parser.add_argument("--tag", help="the release's tag; without one, only the wheels are built and checked")
    parser.add_argument("--out", type=Path, default=OUT, metavar="DIR", help="default: out/release")
    args = parser.parse_args()
    wrong = problems(args.tag) if args.tag else []
    wheels = [] if wrong else build(args.out)
    wrong += [] if wrong else faults(wheels, version())
    for sentence in wrong:
        print(sentence)
    if wrong:
        return 1
    (args.out / "notes.md").write_text(notes(version()) + "\n", encoding="utf-8")
    for wheel in wheels:
        print(f"Built {wheel} ({wheel.stat().st_size >> 10} KiB)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
