"""Build the documentation site: `make site` writes out/site/html.

    python -m tools.site.build

Its pages are the repository's own Markdown files, and the API from docstrings. A link from one page to another stays
one; a link to any other file of the repository becomes that file's address (grader/course/settings.py). A link that
leads nowhere stops the build. Addresses elsewhere are not fetched: out/site/external-links.txt lists them.
"""

from __future__ import annotations

import os
import posixpath
import re
import shutil
import subprocess
import sys
from pathlib import Path

from grader.course.settings import CourseSettings, read_settings
from tools.site.links import broken, external

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).parent
OUT = ROOT / "out" / "site"

PAGES = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "docs/start.md": "start.md",
    "docs/learners.md": "learners.md",
    "docs/glossary.md": "glossary.md",
    "docs/measured.md": "measured.md",
    "docs/instructors.md": "instructors.md",
    "docs/judging.md": "judging.md",
    "docs/architecture.md": "architecture.md",
    "docs/emulator.md": "emulator.md",
    "docs/translating.md": "translating.md",
    "docs/zh/README.md": "zh/index.md",
    "docs/zh/start.md": "zh/start.md",
    "docs/zh/learners.md": "zh/learners.md",
    "docs/zh/glossary.md": "zh/glossary.md",
    "docs/zh/instructors.md": "zh/instructors.md",
}
"""Files of the repository, and the page that each becomes."""

PICTURES = "docs/pictures"

API = {
    "api/notebooks.md": (
        "In a notebook",
        ["labutils", "labutils.check.check", "labutils.support", "labutils.environment"],
    ),
    "api/gpu.md": (
        "GPUs as numbers",
        [f"labutils.gpu.{name}" for name in ("device", "machine", "occupancy", "roofline", "formats", "tuning")],
    ),
    "api/exercises.md": (
        "Exercises",
        [f"labutils.spec.{name}" for name in ("exercise", "inputs", "precision", "verdict")],
    ),
    "api/cuda.md": (
        "CUDA C++",
        [f"labutils.cuda.{name}" for name in ("kernel", "nvrtc", "cubin", "alignment", "tensor_map")],
    ),
    "api/timing.md": (
        "Times",
        [f"labutils.timing.{name}" for name in ("benchmark", "ceilings", "profiling")],
    ),
}
"""Pages of the API: the title, and the modules whose docstrings it shows."""

BOOK = "book/index.html"
"""The solutions with their outputs. `make book` writes them; `make site` alone has a page that says so."""

NO_BOOK = (
    '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Solutions</title></head><body><main>'
    "<p>These pages are not built here: <code>make book</code> builds them.</p></main></body></html>\n"
)

SHOWN = PAGES | {"labutils/__init__.py": "api/notebooks.md", "solutions": BOOK}
"""Files that a link to the repository need not lead to: a page has their content."""

# Code is passed over: a fenced block, an indented line, a span.
_LINK = re.compile(r"^```.*?^```|^ {4}[^\n]*$|`+[^`]*`+|\]\(([^)\s]+)\)", re.MULTILINE | re.DOTALL)


class DeadLinks(Exception):
    """Links that lead nowhere, one line each."""


def relinked(text: str, source: str, settings: CourseSettings) -> str:
    """The text of the repository's file `source` with links that are right on the site. Raises DeadLinks."""
    dead = []

    def link(found: re.Match) -> str:
        target = found[1]
        if target is None or target.startswith("#") or re.match(r"\w+:", target):
            return found[0]
        path, _, anchor = target.partition("#")
        file = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
        if not (ROOT / file).exists():
            dead.append(f"{source}: {target}")
        return f"]({address(file, source, settings)}{'#' * bool(anchor)}{anchor})"

    text = _LINK.sub(link, text)
    if dead:
        raise DeadLinks("\n".join(dead))
    return text


def address(file: str, source: str, settings: CourseSettings) -> str:
    """Where the page of `source` finds a file of the repository."""
    here = posixpath.dirname(PAGES[source]) or "."
    if file in SHOWN:
        return posixpath.relpath(SHOWN[file], here)
    if file.startswith(f"{PICTURES}/"):
        return posixpath.relpath(file.removeprefix("docs/"), here)
    return settings.page(file)


def api_page(title: str, modules: list[str]) -> str:
    """A page with the docstrings of modules."""
    return f"# {title}\n\n" + "\n".join(f"::: {module}\n" for module in modules)


def write_pages(folder: Path, settings: CourseSettings) -> None:
    """The site's Markdown files and pictures. Raises DeadLinks."""
    for source, page in PAGES.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        text = text.replace(CourseSettings().repository, settings.repository)  # a course's own, where it has one
        (folder / page).parent.mkdir(parents=True, exist_ok=True)
        (folder / page).write_text(relinked(text, source, settings), encoding="utf-8")
    for page, (title, modules) in API.items():
        (folder / page).parent.mkdir(parents=True, exist_ok=True)
        (folder / page).write_text(api_page(title, modules), encoding="utf-8")
    (folder / BOOK).parent.mkdir(parents=True, exist_ok=True)
    (folder / BOOK).write_text(NO_BOOK, encoding="utf-8")
    shutil.copytree(HERE / "assets", folder / "assets")
    shutil.copytree(ROOT / PICTURES, folder / "pictures", ignore=shutil.ignore_patterns("*.py", "__pycache__"))


def configuration(settings: CourseSettings) -> str:
    """zensical.toml with this repository's address and folders."""
    project = (
        f'docs_dir = "pages"\nsite_dir = "html"\nrepo_url = "{settings.repository}"\n'
        f'repo_name = "{settings.repository.partition("://")[2].partition("/")[2]}"\n'
    )
    python = f'paths = ["{os.path.relpath(ROOT, OUT)}"]\n'
    text = (HERE / "zensical.toml").read_text(encoding="utf-8")
    for heading, lines in (("[project]\n", project), ("[project.plugins.mkdocstrings.handlers.python]\n", python)):
        text = text.replace(heading, heading + lines, 1)
    return text


def main() -> int:
    settings = read_settings(ROOT)
    shutil.rmtree(OUT, ignore_errors=True)
    try:
        write_pages(OUT / "pages", settings)
    except DeadLinks as dead:
        print(f"Links to files that do not exist:\n{dead}")
        return 1
    (OUT / "zensical.toml").write_text(configuration(settings), encoding="utf-8")
    built = subprocess.run([sys.executable, "-m", "zensical", "build", "--strict"], cwd=OUT)
    if built.returncode:
        return built.returncode
    if dead := broken(OUT / "html"):
        print("Links that lead nowhere:", *dead, sep="\n")
        return 1
    (OUT / "external-links.txt").write_text("".join(f"{link}\n" for link in external(OUT / "html")), encoding="utf-8")
    print(f"Built {(OUT / 'html' / 'index.html').relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
