"""The messages in our own code: its texts with holes for what is filled in, read from the syntax trees.

Nothing in the code marks a message: every text counts that reads as English and is used as text. `labutils/language/`
matches what is shown with them. Keys, options, names of types, C++ and regular expressions do not read as English.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from labutils.language.template import HOLE

PLURALS = frozenset(("s", "es", "y", "ies", ""))
"""What an English plural adds: a hole for it is called `plural`, and a translation may leave it out."""

SENTENCE = 2
"""A key of a dict that has so many words is a text."""

_SHOWING = re.compile(
    "print|set_(title|xlabel|ylabel|label)|suptitle|text|annotate|legend|barh?|plot|ax[hv]line|scatter|Patch|Line2D"
    "|Row|Slider|Choice|Quantity|HTML|Button|FloatText"
)
"""Functions whose arguments are text for readers, even if it is one word."""

_SHOWN_AS = re.compile("label|title|description|alt|text|name|headline|what")
"""Arguments that are text for readers, even if it is one word."""

_NO_TEXT = re.compile(
    "[ghs]etattr|open|compile|import_module|r?split|startswith|endswith|encode|decode|subn?|match|fullmatch|search"
    "|r?find|r?index|find(all|iter)|remove(suffix|prefix)|[lr]?strip|r?partition|run|Popen|check_output|TypeVar|eval|exec|r?glob"
    "|with_(name|suffix)|(read|write)_text|add_argument|strftime"
)
"""Functions whose arguments are no text for readers."""

_CODE = re.compile(
    r"\(\?[P:=!<]|\\[nsdwb(]|[^…];\s*$|__\w+__\(|[{}]\s*$|_\w*<|>\(|^<.*>$"
    r"|^\s*(?:import|from|def|class|return|#include|template|using|asm|const) "
    r"|\w::\w|\w->\w|==|&&|%[drpl]\w*[,;]|</?[a-z]+|https?://"
)
_IDENTIFIER = re.compile(r"[\w.:/+-]*[_./\d][\w.:/+-]*|[a-z]+[A-Z]\w*")
_ONE_WORD = re.compile(r"(\{\w+\}-)?[A-Za-z]?[a-z]{2,}[.:,]?\s*")
_OPTION = re.compile(
    "white|black|bold|normal|cuda|cpu|cpp|python|zig|clang|gcc|[ds][ip]|nan|ieee|mul|fma|pred|raw|sync"
)
"""Words that are options of other programs."""

_WORD = re.compile(r"[A-Za-z]{2,}")
_MARKUP = re.compile(r"</?[a-z][^>]*>")
_BULLET = re.compile(r"^(?:[✓✗]|\s*\{mark\}) ")
_FORMATTED = re.compile(r"(?<!\) )\{(?::[^{}]*)?\}")
"""A hole for `str.format`."""


def of_folders(folders: Iterable[Path]) -> dict[str, str]:
    """The templates in the Python files below some folders, each with the first file that has it."""
    found: dict[str, str] = {}
    for folder in folders:
        found |= {
            text: at for text, at in of_files(sorted(folder.rglob("*.py")), folder.parent).items() if text not in found
        }
    return found


def of_files(paths: Iterable[Path], root: Path) -> dict[str, str]:
    """The templates in Python files, each with the first file that has it, as seen from `root`."""
    trees = {path.relative_to(root).as_posix(): ast.parse(path.read_text(encoding="utf-8")) for path in paths}
    known = {Path(place).stem: dict(_constants(tree)) for place, tree in trees.items()}
    found: dict[str, str] = {}
    for place, tree in trees.items():
        for template in of_tree(tree, dict(_imported(tree, known)) | known[Path(place).stem]):
            found.setdefault(template, place)
    return found


def of_tree(tree: ast.Module, constants: Mapping[str, str]) -> Iterator[str]:
    """The templates in a Python file, in its order. `constants`: texts that f-strings take by a name."""
    finder = _Finder(set(_looked_up(tree)), constants)
    finder.visit(tree)
    return iter(dict.fromkeys(finder.found))


def _constants(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """The texts that have names in capitals."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield from ((t.id, node.value.value) for t in node.targets if isinstance(t, ast.Name) and t.id.isupper())


def _imported(tree: ast.Module, known: Mapping[str, Mapping[str, str]]) -> Iterator[tuple[str, str]]:
    """The texts with names in capitals of the modules that a file imports, or from which it imports."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            texts = known.get((node.module or "").split(".")[-1], {})
            yield from ((alias.asname or alias.name, texts[alias.name]) for alias in node.names if alias.name in texts)
            for alias in node.names:
                yield from (
                    (f"{alias.asname or alias.name}.{name}", t) for name, t in known.get(alias.name, {}).items()
                )


def _looked_up(tree: ast.AST) -> Iterator[str]:
    """The tables from which an f-string takes a text, as in {NAMES[kind]}."""
    for text in ast.walk(tree):
        if isinstance(text, ast.FormattedValue) and isinstance(text.value, ast.Subscript):
            table = text.value.value
            yield getattr(table, "attr", getattr(table, "id", ""))


def of_page(source: str) -> Iterator[str]:
    """The templates in a Jinja template: the texts between its tags, and the texts in its expressions."""
    source = re.sub(r"\{#.*?#\}|<style>.*?</style>", "", source, flags=re.DOTALL)
    for part in re.split(r"<[^>]*>|\{%.*?%\}", re.sub(r"(?s)<[^<>{}]*(?:\{\{.*?\}\}[^<>{}]*)*>", "<>", source)):
        names: list[str] = []
        text = re.sub(r"\{\{(.*?)\}\}", lambda m, n=names: hole(_jinja_name(m[1]), n), part)
        text = re.sub(r"\s+", " ", text)
        if reads_as_english(text) or _is_a_word(text.strip()):
            yield text.strip() if _is_a_word(text.strip()) else text
        for expression in re.findall(r"\{\{(.*?)\}\}", part):
            yield from (t for t in re.findall(r'"([^"]*)"', expression) if _WORD.search(t) and not _CODE.search(t))


def _jinja_name(expression: str) -> str:
    found = re.findall(r"[a-z_]+", expression.split("|")[0])
    return found[-1] if found else "value"


class _Finder(ast.NodeVisitor):
    """Walks through a file and keeps `found`. `words`: is one word a text here? So it is in the `tables`."""

    def __init__(self, tables: set[str], constants: Mapping[str, str]) -> None:
        self.tables, self.constants = tables, constants
        self.found: list[str] = []
        self.words = False

    def visit_Expr(self, node: ast.Expr) -> None:
        if not isinstance(node.value, ast.Constant):  # a docstring
            self.visit(node.value)

    def visit_Dict(self, node: ast.Dict) -> None:
        for key, value in zip(node.keys, node.values, strict=True):
            if (
                isinstance(key, ast.JoinedStr)
                or isinstance(key, ast.Constant)
                and len(str(key.value).split()) >= SENTENCE
            ):
                self.visit(key)
            self.visit(value)

    def visit_Compare(self, node: ast.Compare) -> None:
        pass

    def visit_Subscript(self, node: ast.Subscript) -> None:
        self._inside(node.value, True)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        for branch in (node.body, node.orelse):
            self._inside(branch, True)

    def visit_Assign(self, node: ast.Assign) -> None:
        for target in node.targets:
            if isinstance(target, ast.Subscript):
                self.visit(target.slice)
        names = {getattr(target, "id", "") for target in node.targets}
        self._inside(node.value, self.words or bool(names & self.tables))

    def visit_arguments(self, node: ast.arguments) -> None:
        for default in [*node.defaults, *node.kw_defaults]:
            if default is not None:
                self.visit(default)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self._inside(node.value, self.words or getattr(node.target, "id", "") in self.tables)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self.visit(node.args)
        for statement in node.body:
            self.visit(statement)

    def visit_Call(self, node: ast.Call) -> None:
        name = getattr(node.func, "attr", getattr(node.func, "id", ""))
        self.visit(node.func)
        if _NO_TEXT.fullmatch(name):
            return
        for argument in node.args:
            self._inside(argument, bool(_SHOWING.fullmatch(name)))
        for keyword in node.keywords:
            self._inside(keyword.value, bool(_SHOWN_AS.fullmatch(keyword.arg or "")))

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, str):
            names: list[str] = []
            self._keep(_FORMATTED.sub(lambda _: hole("value", names), node.value))

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        self._keep(_template(node, self.constants))
        for value in node.values:
            if isinstance(value, ast.FormattedValue):
                self._inside(value.value, True)

    def _inside(self, node: ast.AST, words: bool) -> None:
        before, self.words = self.words, words
        self.visit(node)
        self.words = before

    def _keep(self, text: str) -> None:
        if text.count("\n") > 3 and re.search(r";\n|\bdef |__global__|#include", text):
            return  # a program
        for line in text.split("\n"):
            for part in _MARKUP.split(line):
                part = _BULLET.sub("", part.removeprefix(". "))  # joined to a sentence, it is the next one
                if reads_as_english(part) or _is_a_headline(part) or (self.words and _is_a_word(part)):
                    self.found.append(part if part.strip() == part else _one_blank(part))


def _one_blank(text: str) -> str:
    """A text that was made to be joined: where it is shown, blanks may have been added or cut."""
    return " " * text[0].isspace() + text.strip() + " " * text[-1].isspace()


def _template(node: ast.JoinedStr, constants: Mapping[str, str]) -> str:
    """An f-string with named holes; neighbors without text between them are one."""
    text, names, touching = "", [], False
    for value in node.values:
        if isinstance(value, ast.Constant):
            text += _FORMATTED.sub(lambda _: hole("value", names), value.value)
            touching = False
        elif (known := constants.get(ast.unparse(value.value))) is not None:
            text += known
            touching = False
        elif not touching:
            text += hole(_name(value.value), names)
            touching = True
    return text


def hole(name: str, names: list[str]) -> str:
    """A hole whose name is not taken."""
    number = sum(re.fullmatch(rf"{name}\d*", taken) is not None for taken in names)
    names.append(name if not number else f"{name}{number + 1}")
    return f"{{{names[-1]}}}"


def _name(node: ast.AST) -> str:
    """What an expression is called."""
    if any(_is_plural(part) for part in (node, getattr(node, "left", None), getattr(node, "right", None))):
        return "plural"
    for part in ast.walk(node):
        name = getattr(part, "attr", getattr(part, "id", None)) if not isinstance(part, ast.Call) else None
        if name and not re.fullmatch(r"len|str|int|float|round|max|min|abs|join|sum|self|html|escape", name):
            return re.sub(r"[^a-z0-9_]", "", name.lower()).strip("_0123456789") or "value"
    return "value"


def _is_plural(node: ast.AST | None) -> bool:
    if isinstance(node, ast.IfExp):
        return _is_plural(node.body) and _is_plural(node.orelse)
    return isinstance(node, ast.Constant) and node.value in PLURALS


def _is_a_headline(text: str) -> bool:
    return bool(re.fullmatch(r"[A-Z][a-z]+:\s*", text))


def _is_a_word(text: str) -> bool:
    return bool(_ONE_WORD.fullmatch(text)) and not _OPTION.fullmatch(text)


def reads_as_english(text: str) -> bool:
    """Several words, or one beside a hole; not code."""
    bare = HOLE.sub(" ", text)
    if _CODE.search(HOLE.sub("0", text)) or not _WORD.search(bare):
        return False
    tokens = [token for token in bare.split() if _WORD.search(token) and not _IDENTIFIER.fullmatch(token)]
    prose = [token for token in tokens if re.fullmatch(r"[(“\"'`]*[A-Za-z]?[a-z]+[)”\"'`]*[.,:;?!]*", token)]
    return len(bare.split()) > 1 and bool(prose) or (bool(prose) and (text != text.strip() or bool(HOLE.search(text))))
