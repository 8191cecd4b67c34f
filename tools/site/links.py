"""The links of a folder of HTML pages: which lead nowhere, and which lead elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class _Page(HTMLParser):
    def __init__(self):
        super().__init__()
        self.links: list[str] = []
        self.anchors = {"", "top"}

    def handle_starttag(self, tag, attrs):
        for name, value in attrs:
            if name == "id" or (tag == "a" and name == "name"):
                self.anchors.add(value or "")
            elif name in ("href", "src") and value is not None:
                self.links.append(value)


@cache
def _read(path: Path) -> _Page:
    page = _Page()
    page.feed(path.read_text(encoding="utf-8"))
    return page


def _pages(folder: Path) -> Iterator[Path]:
    # A server sends 404.html for any address, so its links begin at the server's root.
    return (path for path in sorted(folder.rglob("*.html")) if path.name != "404.html")


def broken(folder: Path) -> list[str]:
    """Each link between the folder's files whose file or anchor does not exist, as `page: link`."""
    folder = folder.resolve()
    found = []
    for path in _pages(folder):
        for link in _read(path).links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            # A file outside the folder exists here, but not where the pages are published.
            exists = target.is_relative_to(folder) and target.is_file()
            is_page = target.suffix == ".html"
            if not exists or (is_page and unquote(parts.fragment) not in _read(target).anchors):
                found.append(f"{path.relative_to(folder)}: {link}")
    return found


def external(folder: Path) -> list[str]:
    """Every address outside of the folder that a page names, once."""
    links = {link for path in _pages(folder) for link in _read(path).links}
    return sorted(link for link in links if urlsplit(link).scheme in ("http", "https"))
