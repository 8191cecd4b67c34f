"""What all HTML pages of the grader share: one environment in which all text is escaped.

What students wrote, including their names, is untrusted and shown as text. Pages contain no scripts and load nothing.
The `Content-Security-Policy` enforces this in the browser, so nothing runs even if an escape is missing.
"""

from __future__ import annotations

import functools
import re
from pathlib import Path
from urllib.parse import quote

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from grader.reports import charts
from grader.reports.next_steps import by_kind
from labutils.language import choice
from labutils.language.translator import Translator

LANGUAGES = Path(__file__).with_name("language")
"""Holds a file for each language, which the build writes."""

_TEMPLATES = Path(__file__).with_name("templates")
_UNSHOWABLE = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|[\x00-\x08\x0b-\x1f\x7f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def clean(text: str, most: int = 100_000) -> str:
    """Text without control characters, terminal colors and characters that change the writing direction."""
    text = _UNSHOWABLE.sub("", text)
    return text if len(text) <= most else text[:most] + " …"


def render(template: str, **values) -> str:
    """A page of `grader/templates/`, in the language of $GPULAB_LANG or of the system."""
    page = _ENVIRONMENT.get_template(template).render(**values)
    translator = _translator(choice.wanted())
    return translator.page(page) if translator else page


@functools.cache
def _translator(language: str) -> Translator | None:
    return choice.translator(language, LANGUAGES)


def file_name(student: str) -> str:
    """The name of a student's page. Students' ids are safe names where this course's intake made them."""
    return re.sub(r"[^\w .@-]", "_", student) + ".html"


def link(student: str) -> str:
    """Path of a student's feedback page, relative to the report."""
    return f"feedback/{quote(file_name(student))}"


_ENVIRONMENT = Environment(
    loader=FileSystemLoader(_TEMPLATES),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_ENVIRONMENT.filters.update(points=lambda number: f"{number:g}", clean=clean)
_ENVIRONMENT.globals.update(charts=charts, link=link, by_kind=by_kind)
