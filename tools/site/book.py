"""The solution edition: every unit with its answers, run from top to bottom, as pages with their outputs.

    python -m tools.site.book                        # `make book`: all units, below out/site/html/book
    python -m tools.site.book 00_start 05_roofline   # these alone
    python -m tools.site.book --outputs DIR          # show what was run elsewhere, such as on a GPU; run nothing
    python -m tools.site.book --store DIR            # run the units and keep their outputs as data; build no pages
    python -m tools.site.book --language zh          # run the units of an edition into out/book/zh; build no pages

`make book OUTPUTS=tools/site/outputs` shows the outputs that are kept in the repository (tools/site/outputs.py). What
was run here is kept in out/book, which `--outputs` takes, too. Each page names the machine on which its unit was run.
The pages stand beside those of the site, whose glossary they link to: `make site` comes first.

`--store` runs one unit after the other, so that times are right, and may be called again: it leaves out units whose
code is that of their file in DIR. With `--minutes 9` it ends by then, and the next call goes on.
"""

from __future__ import annotations

import argparse
import datetime
import html
import math
import os
import re
import sys
import tempfile
import time
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from grader.course.locales.catalogs import editions
from grader.course.locales.edition import Translated
from grader.course.place import CODE, ROOT
from grader.course.sources import source_notebook, unit_names
from tools.site import outputs
from tools.site.links import broken
from tools.site.outputs import SHOWN

RUNS = ROOT / "out" / "book"
SITE = ROOT / "out" / "site" / "html"
SECONDS = 1800
"""Longest that one cell may take."""

LEAST_SECONDS = 30
"""With less time left, `store` begins no unit."""

CODE_COLORS = {"light": "xcode", "dark": "monokai"}
"""Pygments' styles whose colors all have a contrast of 4.5 or more."""

FIRST = "import matplotlib.figure as _"
"""Run before a unit. With Triton 3.6 on Python 3.12, matplotlib's font library fails if Triton's was loaded first."""

_MARKER = re.compile(r"^.*### (?:BEGIN|END) (?:SOLUTION|HIDDEN TESTS).*\n?", re.MULTILINE)
_HEADING_LINK = re.compile(r'<a class="anchor-link"[^>]*>.*?</a>')
_LINK = re.compile(r'href="\.\./(?:(glossary)\.md|(\w+)/\2\.ipynb)(#[^"]*)?"')

STYLE = """
:root { color-scheme: light dark; --text: #1b1b1b; --back: #ffffff; --soft: #f4f4f6; --link: #0b57d0; --line: #8a8a8a; }
@media (prefers-color-scheme: dark) {
  :root { --text: #e6e6e6; --back: #161618; --soft: #232326; --link: #a8c7fa; --line: #8a8a8a; }
}
body { max-width: 60rem; margin: 0 auto; padding: 1rem; color: var(--text); background: var(--back);
  font: 16px/1.55 system-ui, sans-serif; }
a { color: var(--link); }
.prompt, .jp-InputPrompt, .jp-OutputPrompt { display: none; }
pre { overflow-x: auto; padding: .6rem .8rem; background: var(--soft); font: 14px/1.45 ui-monospace, monospace; }
code { font-family: ui-monospace, monospace; }
table { border-collapse: collapse; display: block; overflow-x: auto; }
th, td { border: 1px solid var(--line); padding: .25rem .6rem; text-align: left; }
.highlight pre { background: none; border: 1px solid var(--line); }
img { max-width: 100%; height: auto; background: #ffffff; }
.jp-OutputArea-output { margin: .3rem 0 .9rem; overflow-x: auto; }
.jp-OutputArea-output pre { border-left: 3px solid var(--line); background: none; }
"""


class NotRun(Exception):
    """A unit's notebook ended with an error; the message names it."""


class NoTime(NotRun):
    """The time was used up before the unit's last cell."""


def solved(unit: str, language: str = "") -> NotebookNode:
    """The unit's notebook with its answers, without the markers around them; English, or of the course's edition."""
    notebook = source_notebook(ROOT / "solutions" / unit)
    if language:
        edition = next(edition for edition in editions(ROOT) if edition.name == language)
        notebook = Translated(ROOT, edition).source(notebook, unit)
    for cell in notebook.cells:
        cell.source = _MARKER.sub("", cell.source).rstrip("\n")
    return notebook


def run(notebook: NotebookNode, unit: str, end: float = math.inf) -> NotebookNode:
    """The notebook after every cell was run here; its metadata say on which machine.

    Raises NotRun, and NoTime where that would go on beyond `end` of the monotonic clock.
    """
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError

    from labutils.gpu import device

    def seconds_left(cell: NotebookNode) -> int:
        return max(1, int(min(SECONDS, end - time.monotonic())))

    begin, before = time.monotonic(), dict(os.environ)
    with tempfile.TemporaryDirectory() as scratch:
        path = os.pathsep.join(p for p in (str(CODE), os.environ.get("PYTHONPATH")) if p)
        os.environ |= {"PYTHONPATH": path, "GPULAB_PROGRESS": f"{scratch}/progress.json"}  # the kernel inherits it
        try:
            place = {"metadata": {"path": scratch}}
            client = NotebookClient(
                notebook,
                timeout_func=seconds_left,
                resources=place,
                store_widget_state=False,
                extra_arguments=[f"--IPKernelApp.exec_lines={FIRST}"],
            )
            client.execute()
        except CellExecutionError as e:
            raise NotRun(f"{unit}: {e.ename}: {e.evalue}") from None
        except CellTimeoutError:
            raise NoTime(f"{unit}: not finished after {time.monotonic() - begin:.0f} s") from None
        except DeadKernelError:
            raise NotRun(f"{unit}: its kernel died") from None
        finally:
            os.environ.clear()
            os.environ |= before
    notebook.metadata["gpu_kernel_lab"] = {
        "machine": device.card().splitlines()[0],
        "date": datetime.date.today().isoformat(),
        "seconds": round(time.monotonic() - begin),
    }
    return notebook


def store(units: list[str], folder: Path, minutes: float) -> list[str]:
    """Run units, one after the other, and keep their outputs in `folder`; what is left or failed, in sentences.

    A unit that fails, or that takes longer than one call may, is noted in out/book and comes last in the next call.
    """
    end = time.monotonic() + 60 * minutes
    notebooks = {unit: solved(unit) for unit in units}
    left = [unit for unit in units if not _is_kept(notebooks[unit], folder / f"{unit}.json")]
    failed = {unit: RUNS / f"{unit}.failed" for unit in left}
    left.sort(key=lambda unit: failed[unit].exists())  # a stable sort: else in the course's order
    first, problems = left[:1], []
    while left and end - time.monotonic() >= min(LEAST_SECONDS, 30 * minutes):
        unit = left[0]
        try:
            ran = run(notebooks[unit], unit, end)
        except NotRun as problem:
            if isinstance(problem, NoTime) and [unit] != first:
                break  # it began late: the next call begins with it
            RUNS.mkdir(parents=True, exist_ok=True)
            failed[unit].write_text(f"{problem}\n", encoding="utf-8")
            problems.append(str(problem))
        else:
            data = outputs.pack(ran, ROOT, CODE, Path.home(), tempfile.gettempdir())
            outputs.write(folder / f"{unit}.json", data)
            failed[unit].unlink(missing_ok=True)
            print(f"{unit}: {data['seconds']} s, {(folder / f'{unit}.json').stat().st_size >> 10} KB", flush=True)
        left.pop(0)
    if left:
        problems.append(f"Left for the next call: {', '.join(left)}")
    return problems


def _is_kept(notebook: NotebookNode, path: Path) -> bool:
    return path.exists() and outputs.is_current(notebook, outputs.read(path))


def kept(unit: str, folder: Path) -> NotebookNode | None:
    """A unit with the outputs of a folder: a notebook that was run, or data of `store`. None if it has neither."""
    if (path := folder / f"{unit}.ipynb").exists():
        return nbformat.read(path, as_version=4)
    if (path := folder / f"{unit}.json").exists():
        return outputs.unpack(solved(unit), outputs.read(path))
    return None


def page(notebook: NotebookNode, unit: str, units: list[str]) -> str:
    """A run notebook as a page, with links to its neighbors among `units`."""
    from nbconvert import HTMLExporter
    from pygments.formatters import HtmlFormatter
    from traitlets.config import Config

    config = Config({"NbConvertBase": {"display_data_priority": list(SHOWN)}})
    exporter = HTMLExporter(config=config, template_name="basic", anchor_link_text="")
    body, _ = exporter.from_notebook_node(notebook)
    known = set(units)

    def link(found: re.Match) -> str:
        if found[1]:
            return f'href="../glossary/{found[3] or ""}"'
        return f'href="{found[2]}.html{found[3] or ""}"' if found[2] in known else 'href="index.html"'

    body = _LINK.sub(link, _HEADING_LINK.sub("", body))
    body = re.sub(r"<pre(?![^>]*tabindex)", '<pre tabindex="0"', body)  # a line that is too wide scrolls by keys, too
    colors = "".join(
        f"@media (prefers-color-scheme: {scheme}) {{ {HtmlFormatter(style=style).get_style_defs('.highlight')} }}"
        for scheme, style in CODE_COLORS.items()
    )
    where = notebook.metadata.get("gpu_kernel_lab", {})
    ran = f"Run on {where['date']} in {where['seconds']} s. {where['machine']}." if where else ""
    return _document(_title(notebook), f"{_menu(unit, units)}<p>{html.escape(ran)}</p><main>{body}</main>", colors)


def index(pages: dict[str, NotebookNode]) -> str:
    """The list of the units."""
    rows = "".join(
        f'<li><a href="{unit}.html">{html.escape(unit)}</a>: {html.escape(_title(notebook))}</li>'
        for unit, notebook in pages.items()
    )
    text = "Every unit with its answers and outputs. Write a kernel yourself before you read it here."
    return _document(
        "Solutions", f'<nav><a href="../index.html">Documentation</a></nav><main><h1>Solutions</h1><p>{text}</p>'
        f"<ul>{rows}</ul></main>",
    )  # fmt: skip


def _title(notebook: NotebookNode) -> str:
    return next(cell for cell in notebook.cells if cell.cell_type == "markdown").source.splitlines()[0].lstrip("# ")


def _menu(unit: str, units: list[str]) -> str:
    at = units.index(unit)
    near = [(units[k], word) for k, word in ((at - 1, "Previous"), (at + 1, "Next")) if 0 <= k < len(units)]
    links = "".join(f' · <a href="{name}.html">{word}: {name}</a>' for name, word in near)
    return f'<nav><a href="index.html">Solutions</a>{links}</nav>'


def _document(title: str, body: str, more: str = "") -> str:
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>{html.escape(title)}</title><style>{STYLE}{more}</style></head><body>{body}</body></html>\n"
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.site.book", description="run the solutions, write pages")
    parser.add_argument("unit", nargs="*", help="default: all")
    parser.add_argument("--outputs", type=Path, metavar="DIR", help="show the outputs of this folder; run nothing")
    parser.add_argument("--store", type=Path, metavar="DIR", help="run, keep the outputs here, and build no pages")
    parser.add_argument("--language", default="", metavar="zh", help="run the edition of this name, and build no pages")
    parser.add_argument("--minutes", type=float, default=math.inf, help="with --store: end after so many")
    args = parser.parse_args()
    units, pages, failed = args.unit or unit_names(ROOT), {}, []
    if args.language and args.language not in (names := [edition.name for edition in editions(ROOT)]):
        print(f"There is no edition {args.language}, only {', '.join(names)}.")
        return 2
    if unknown := sorted(set(units) - set(unit_names(ROOT))):
        print(f"There is no unit {', '.join(unknown)}.")
        return 2
    if args.store:
        problems = store(units, args.store, args.minutes)
        size = sum(path.stat().st_size for path in args.store.glob("*.json"))
        print(*problems, f"{args.store}: {len(list(args.store.glob('*.json')))} units, {size / 1e6:.1f} MB", sep="\n")
        return int(bool(problems))
    for unit in units:
        try:
            if args.outputs:
                if notebook := kept(unit, args.outputs):
                    pages[unit] = notebook
                elif args.unit:
                    failed.append(f"{unit}: no outputs in {args.outputs}")
                continue
            pages[unit] = run(solved(unit, args.language), unit)
            (RUNS / args.language).mkdir(parents=True, exist_ok=True)
            nbformat.write(pages[unit], RUNS / args.language / f"{unit}.ipynb")
            print(f"{unit}: {pages[unit].metadata['gpu_kernel_lab']['seconds']} s", flush=True)
        except NotRun as problem:
            failed.append(str(problem))
    if args.language:
        print(*failed, f"Ran {len(pages)} units: {(RUNS / args.language).relative_to(ROOT)}", sep="\n")
        return int(bool(failed))
    if args.outputs and (missing := [unit for unit in units if unit not in pages]):
        print(f"Without outputs: {', '.join(missing)}")
    book = SITE / "book"
    book.mkdir(parents=True, exist_ok=True)
    for unit, notebook in pages.items():
        (book / f"{unit}.html").write_text(page(notebook, unit, list(pages)), encoding="utf-8")
    (book / "index.html").write_text(index(pages), encoding="utf-8")
    dead = [link for link in broken(SITE) if link.startswith("book/")]
    print(*failed, *(["Links that lead nowhere:", *dead] if dead else []), sep="\n", end="\n" if failed or dead else "")
    print(f"Built {len(pages)} units: {(book / 'index.html').relative_to(ROOT)}")
    return int(bool(failed or dead))


if __name__ == "__main__":
    sys.exit(main())
