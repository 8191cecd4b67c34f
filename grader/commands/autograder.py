"""`python -m grader autograder`: an archive with which Gradescope or Autolab judges each submission at once.

    python -m grader autograder --for gradescope UNIT     a zip to upload as the assignment's autograder
    python -m grader autograder --for autolab UNIT        a tar to install as an assessment

The archive holds this course's grader, the unit's solution and a seed of its own for the hidden cases: it is secret, as
`out/` is. The container needs no GPU; points that need one stay open, and speed counts by memory traffic.
"""

from __future__ import annotations

import argparse
import io
import json
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import yaml

from grader.course.regions import BuildError
from grader.course.sources import ROOT, source_notebook, unit_names
from grader.grading.marking import checks_of
from grader.judge.seeds import draw_seed
from grader.marks.results import Check

SETTINGS = "autograder.json"
"""What `grader.commands.one_submission` reads in the container: the unit and the seed."""

_HERE = Path(__file__).with_name("autograders")
_PARTS = ("grader", "labutils", "tools", "requirements.lock")
_LEFT_OUT = {"__pycache__", "redteam", "demo", "build", "dist", "mutants", "labutils.egg-info"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("unit", metavar="UNIT", help="the unit, such as 06_elementwise_triton")
    parser.add_argument("--for", dest="platform", choices=("gradescope", "autolab"), required=True, help="where")
    parser.add_argument(
        "--to", type=Path, metavar="FILE", help="where to write; default: out/UNIT-PLATFORM.zip or .tar"
    )
    parser.add_argument("--seed", type=int, metavar="N", help="seed of the hidden cases; default: a secret one")


def main(args) -> int:
    if args.unit not in unit_names(ROOT):
        print(f"There is no unit {args.unit!r}; there are {', '.join(unit_names(ROOT))}.", file=sys.stderr)
        return 2
    seed = draw_seed() if args.seed is None else args.seed
    ending = {"gradescope": "zip", "autolab": "tar"}[args.platform]
    target = args.to or ROOT / "out" / f"{args.unit}-{args.platform}.{ending}"
    try:
        content = {"gradescope": gradescope, "autolab": autolab}[args.platform](args.unit, seed)
    except BuildError as problem:
        print(problem, file=sys.stderr)
        return 1
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(content)
    print(f"{target}, {len(content) / 1e6:.1f} MB. It holds solutions and the hidden cases' seed: keep it secret.")
    return 0


def gradescope(unit: str, seed: int) -> bytes:
    """The zip that Gradescope unpacks to /autograder/source: `setup.sh` and `run_autograder` are at its root."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content, mode in _course(unit, seed):
            _add(archive, name, content, mode)
        _add(archive, "setup.sh", (_HERE / "gradescope_setup.sh").read_bytes(), 0o755)
        _add(archive, "run_autograder", (_HERE / "gradescope_run.sh").read_bytes(), 0o755)
    return buffer.getvalue()


def autolab(unit: str, seed: int) -> bytes:
    """The tar that Autolab installs as an assessment, and in it the Dockerfile of the image in which it grades."""
    course = _tar(_course(unit, seed))
    makefile = (_HERE / "autolab_makefile").read_text(encoding="utf-8").replace("{unit}", unit)
    checks, name = checks_of(source_notebook(ROOT / "solutions" / unit)), _url_safe(unit)
    files = {
        f"{name}/{name}.yml": _assessment(name, unit, checks).encode(),
        f"{name}/autograde-Makefile": makefile.encode(),
        f"{name}/autograde.tar": course,
        f"{name}/Dockerfile": (_HERE / "autolab_dockerfile").read_bytes(),
    }
    return _tar((path, content, 0o644) for path, content in files.items())


def _assessment(name: str, unit: str, checks: list[Check]) -> str:
    """Autolab's description of an assessment: a problem for each exercise, named as in the points that are printed."""
    problems = [{"name": c.name, "description": c.title, "max_score": c.points, "optional": False} for c in checks]
    description = {
        "general": {
            "name": name, "description": "", "display_name": unit, "handin_filename": f"{unit}.ipynb",
            "handin_directory": "handin", "max_grace_days": 0, "handout": "", "writeup": "", "max_submissions": -1,
            "disable_handins": False, "max_size": 10, "has_svn": False,
            "category_name": "Units",
        },
        "problems": problems,
        "autograder": {
            "autograde_timeout": 600, "autograde_image": "gpu_kernel_lab", "release_score": True,
            "makefile": "autograde-Makefile", "tarfile": "autograde.tar",
        },
    }  # fmt: skip
    return yaml.safe_dump(description, sort_keys=False, explicit_start=True)


def _url_safe(unit: str) -> str:
    """Autolab's names of assessments have letters and digits only, and begin with a letter."""
    return "unit" + "".join(c for c in unit if c.isalnum())


def _course(unit: str, seed: int) -> Iterator[tuple[str, bytes, int]]:
    """What judging one unit needs, as path, content and mode: code, packages, the unit's solution, the seed."""
    paths = [path for part in _PARTS for path in [ROOT / part, *(ROOT / part).rglob("*")]]
    paths += [*(ROOT / "solutions").glob("*/claims.toml"), *(ROOT / "solutions" / unit).rglob("*")]
    paths += [path for path in [ROOT / "course.toml"] if path.exists()]
    for path in sorted(set(paths)):
        name = path.relative_to(ROOT)
        if path.is_file() and not _LEFT_OUT.intersection(name.parts):
            yield name.as_posix(), path.read_bytes(), 0o755 if path.suffix == ".sh" else 0o644
    yield SETTINGS, json.dumps({"unit": unit, "seed": seed}).encode(), 0o600


def _add(archive: zipfile.ZipFile, name: str, content: bytes, mode: int) -> None:
    entry = zipfile.ZipInfo(name, (2026, 1, 1, 0, 0, 0))
    entry.external_attr, entry.compress_type = (0o100000 | mode) << 16, zipfile.ZIP_DEFLATED
    archive.writestr(entry, content)


def _tar(files) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, content, mode in files:
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), mode
            archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()
