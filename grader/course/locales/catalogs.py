"""The catalogs of an edition: `locale/zh_CN/NAME.po`, in gettext's format.

A message is keyed by its English text. When that text changes, `update` keeps the old translation and marks it fuzzy,
which gettext and this course take for untranslated.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from babel.messages.catalog import Catalog
from babel.messages.pofile import read_po, write_po

FOLDER = "locale"

_HEADER = """\
msgid ""
msgstr ""
"Language: {language}\\n"
"MIME-Version: 1.0\\n"
"Content-Type: text/plain; charset=UTF-8\\n"
"Content-Transfer-Encoding: 8bit\\n"

"""


@dataclass(frozen=True)
class Message:
    """An English text that readers see; `place` tells the translator what it is, such as "hint" or "table"."""

    text: str
    place: str = ""


@dataclass(frozen=True)
class Entry:
    """A message of a catalog. `translation` is "" until there is one; `before` is that of an earlier English text."""

    text: str
    translation: str
    before: str = ""


@dataclass(frozen=True)
class Edition:
    """The course in one language: `folder` holds its catalogs."""

    folder: Path

    @property
    def language(self) -> str:
        """As gettext writes it: zh_CN."""
        return self.folder.name

    @property
    def name(self) -> str:
        """What files of the edition are called: zh."""
        return self.language.split("_")[0].lower()

    def path(self, catalog: str) -> Path:
        return self.folder / f"{catalog}.po"

    def translations(self, catalog: str) -> dict[str, str]:
        """Translations by English text; none of messages that are untranslated."""
        return {e.text: e.translation for e in entries(self.path(catalog)) if e.translation}


def editions(root: Path) -> list[Edition]:
    """The editions of the course in `root`, besides the English one. Raises ValueError if two have one name."""
    found = [Edition(path) for path in sorted((root / FOLDER).glob("*")) if path.is_dir()]
    if len({edition.name for edition in found}) < len(found):
        raise ValueError(f"{FOLDER}/ holds two editions with one name: {', '.join(e.language for e in found)}")
    return found


def entries(path: Path) -> Iterator[Entry]:
    """The messages of a catalog in its order; none if there is no such file."""
    for message in _read(path):
        if message.id and message.fuzzy:
            yield Entry(message.id, "", message.string)
        elif message.id:
            yield Entry(message.id, message.string)


def update(path: Path, messages: Iterable[Message], language: str) -> None:
    """Make the catalog hold these messages, in their order, with the translations that it has."""
    template = Catalog(locale=language)
    for message in messages:
        template.add(message.text, auto_comments=[message.place] if message.place else [])
    catalog = _read(path)
    catalog.update(template)
    for message in catalog:
        message.auto_comments = [c for m in [template.get(message.id)] if m for c in dict.fromkeys(m.auto_comments)]
    _write(path, catalog, language)


def fill(path: Path, translations: Mapping[str, str], language: str) -> None:
    """Put translations into the catalog."""
    catalog = _read(path)
    for text, translation in translations.items():
        message = catalog[text]
        message.string = translation
        message.flags -= {"fuzzy"}
    _write(path, catalog, language)


def _read(path: Path) -> Catalog:
    if not path.exists():
        return Catalog()
    with path.open("rb") as file:
        return read_po(file, abort_invalid=True)


def _write(path: Path, catalog: Catalog, language: str) -> None:
    """Write the same bytes for the same messages: without dates, without lines that depend on a width."""
    for message in catalog:
        message.flags -= {"python-format", "python-brace-format"}  # babel's guess; the rules of a course are its own
    text = io.BytesIO()
    write_po(text, catalog, width=0, omit_header=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes((_HEADER.format(language=language)).encode() + text.getvalue())
