"""The places where text of ours leaves for a reader: print, what a notebook displays, widgets, pictures.

Nothing is in these places while messages are in English.
"""

from __future__ import annotations

import builtins
import contextlib
import functools
import sys
from typing import TYPE_CHECKING, Any

from .choice import languages, translator, wanted
from .translator import Translator

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_PACKAGE = __name__.split(".")[0]
_print = builtins.print
_current: Translator | None = None


def use(asked: str | None = None) -> str:
    """Show messages in a language. Returns a sentence if there is no such one, or ""."""
    global _current
    _current = translator(asked)
    builtins.print = _print if _current is None else _print_translated
    with contextlib.suppress(ImportError):
        _watch_notebook()
    if asked and _current is None and wanted(asked) != "en":
        return f"Messages are in English: there is no language {asked!r}, only en, {', '.join(languages())}."
    return ""


def shown(text: str) -> str:
    """A text as the reader sees it."""
    return _current.text(text) if _current else text


def shown_page(page: str) -> str:
    """HTML as the reader sees it."""
    return _current.page(page) if _current else page


def label(figure: Figure) -> None:
    """Put a picture's texts into the reader's language, once each, in a font that has its characters."""
    if _current is not None:
        from . import pictures

        pictures.translate(figure, _current.text)


def _print_translated(*values: Any, **options: Any) -> None:
    """`print`, which translates what labutils prints, and objects of ours; what the learner prints stays."""
    caller = sys._getframe(1).f_globals
    ours = _is_ours(caller.get("__package__") or caller.get("__name__", ""))  # `python -m labutils` is called __main__
    values = tuple(shown(str(v)) if ours or _is_ours(type(v).__module__) else v for v in values)
    _print(*values, **options)


def _is_ours(module: str) -> bool:
    return module.split(".")[0] == _PACKAGE


_SHOWN_AS = {"text/plain": shown, "text/html": shown_page, "text/markdown": shown}


def _watch_notebook() -> None:
    """Translate what a notebook displays of our objects, and the messages of our exceptions that have no traceback."""
    from IPython import get_ipython

    shell = get_ipython()
    if shell is None or hasattr(shell, "_gpulab_language"):
        return
    shell._gpulab_language = True
    formatter = shell.display_formatter
    form, traceback = formatter.format, shell._showtraceback

    @functools.wraps(form)
    def translated(thing, *args, **options):
        data, metadata = form(thing, *args, **options)
        if _current is not None and _is_ours(type(thing).__module__):
            data = {kind: _SHOWN_AS.get(kind, _same)(text) for kind, text in data.items()}
        return data, metadata

    @functools.wraps(traceback)
    def showtraceback(kind, value, lines):
        if _current is not None and hasattr(value, "_render_traceback_") and _is_ours(kind.__module__):
            lines = [shown(line) for line in lines]
        return traceback(kind, value, lines)

    formatter.format, shell._showtraceback = translated, showtraceback


def _same(data: Any) -> Any:
    return data
