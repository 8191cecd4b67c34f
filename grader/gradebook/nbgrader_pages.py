"""nbgrader's own feedback pages, with its template and its preprocessors, in a third of the time.

nbconvert reads each finished page again with Beautiful Soup, which takes longer than making it, to give images a
description and to let the keyboard reach the cells of JupyterLab's template, which nbgrader's is not. Here the images
that nbconvert wrote get theirs in the text; other images are a submission's own HTML, which stays as it is.
"""

from __future__ import annotations

import html as markup
import re
import time

from jinja2 import pass_context
from jinja2.bccache import Bucket, BytecodeCache
from nbconvert.exporters import HTMLExporter, TemplateExporter
from nbconvert.filters.highlight import Highlight2HTML
from nbconvert.filters.widgetsdatatypefilter import WidgetsDataTypeFilter

MOST_SOURCE, SECONDS = 8000, 3.0
"""Characters of a cell that are rendered, and CPU time for all cells of a page. Lexers take quadratic time for some
text, and hold up everybody meanwhile; what is beyond is shown as plain text."""

NO_DESCRIPTION = "No description has been provided for this image"

LINEAR = frozenset(
    [
        "escape_html",
        "escape_html_keep_quotes",
        "escape_html_script",
        "filter_data_type",
        "get_metadata",
        "indent",
        "json_dumps",
        "posix_path",
        "strip_trailing_newline",
        "text_base64",
    ]
)
"""Filters of nbconvert's that take time in proportion to their text. All others are bounded."""

_COLOR = re.compile(r"\x1b\[[^@-~\x1b\n]{0,40}[@-~]")

_IMAGE = re.compile(r'<img src="data:image/[^<>]*>')


class _Compiled(BytecodeCache):
    """What Jinja made of the templates: nbgrader has a new exporter for each student who is asked for alone, and most
    of its time would go there."""

    def __init__(self):
        self._code: dict[str, bytes] = {}

    def load_bytecode(self, bucket: Bucket) -> None:
        if code := self._code.get(bucket.key):
            bucket.bytecode_from_string(code)

    def dump_bytecode(self, bucket: Bucket) -> None:
        self._code[bucket.key] = bucket.bytecode_to_string()


_compiled = _Compiled()


def _as_it_is(source: str) -> str:
    return f"<pre>{markup.escape(source)}</pre>"


def _without_colors(source: str) -> str:
    """Of a text without colors, what `ansi2html` makes of it."""
    return markup.escape(_COLOR.sub("", source))


_INSTEAD = {"ansi2html": _without_colors, "strip_files_prefix": str}


class PageExporter(HTMLExporter):
    """nbconvert's exporter without its last step, and with templates that are compiled once."""

    export_from_notebook = None

    def _create_environment(self):
        environment = super()._create_environment()
        environment.bytecode_cache = _compiled
        return environment

    def from_notebook_node(self, nb, resources=None, **kw):
        language = nb.metadata.get("language_info", {})
        lexer = language.get("pygments_lexer", language.get("name"))
        resources = self._init_resources(resources)
        highlight = self.filters.get("highlight_code", Highlight2HTML(pygments_lexer=lexer, parent=self))
        data_type = WidgetsDataTypeFilter(notebook_metadata=self._nb_metadata, parent=self, resources=resources)
        self._spent = 0.0

        def highlighted(source, *args, **more):
            return self._in_time(lambda: highlight(source, *args, **more), source)

        for name, text_filter in self.default_filters():
            if name not in LINEAR and name != "markdown2html" and not isinstance(text_filter, type):
                self.register_filter(name, self._bounded(text_filter, _INSTEAD.get(name, markup.escape)))
        self.register_filter("highlight_code", highlighted)
        self.register_filter("filter_data_type", data_type)
        html, resources = TemplateExporter.from_notebook_node(self, nb, resources, **kw)
        return _IMAGE.sub(_described, html), resources

    @pass_context
    def markdown2html(self, context, source):
        return self._in_time(lambda: super(PageExporter, self).markdown2html(context, source), source)

    def _bounded(self, text_filter, instead):
        """A template's filter, also of what another filter made; `instead(text)` where that could take long."""

        def filtered(source, *args, **more):
            if not isinstance(source, str):
                return text_filter(source, *args, **more)
            return self._in_time(lambda: text_filter(source, *args, **more), source, instead)

        return filtered

    def _in_time(self, render, source: str, instead=_as_it_is) -> str:
        """What `render()` makes of a cell's text, or the plain text where that could take long."""
        if len(source) > MOST_SOURCE or self._spent > SECONDS:
            return instead(source)
        begin = time.thread_time()
        try:
            return render()
        finally:
            self._spent += time.thread_time() - begin


def _described(image: re.Match) -> str:
    tag = image[0]
    return tag if " alt=" in tag or "\nalt=" in tag else f'<img alt="{NO_DESCRIPTION}"{tag[4:]}'
