"""Small changes of CUDA C++ functions: where one of them makes the kernel right, the mistake is there.

Each replaces one expression or one statement of the text (`cuda.syntax`), or puts a statement before one, and says what
it looks at, never what belongs there. All of a text can be compiled as one program (`choices`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ..cuda import syntax
from ..cuda.syntax import Declared, Expression, Statement
from .edits import Change

COMPARED = {"<": ("<=", ">="), "<=": ("<", ">"), ">": (">=", "<="), ">=": (">", "<"), "==": ("!=",), "!=": ("==",),
            "&&": ("||",), "||": ("&&",)}  # fmt: skip
OPERATORS = {"+": "-*", "-": "+", "*": "/+", "/": "*%", "%": "/", "&": ("|", "&&"), "|": ("&", "||"), "^": "+",
             "<<": (">>",), ">>": ("<<",)}  # fmt: skip
ASSIGNED = {"=": ("+=",), "+=": ("=", "-="), "-=": ("+=",), "*=": ("=", "/=", "+="), "/=": ("*=",), "|=": ("=",),
            "^=": ("=",)}  # fmt: skip
FUNCTIONS = {
    "fmaxf": ("fminf",), "fminf": ("fmaxf",), "max": ("min",), "min": ("max",), "expf": ("exp2f", "logf"),
    "exp2f": ("expf",), "logf": ("log2f", "expf"), "log2f": ("logf",), "sqrtf": ("rsqrtf",), "rsqrtf": ("sqrtf",),
    "__expf": ("exp2f",), "__shfl_down_sync": ("__shfl_xor_sync", "__shfl_up_sync"), "atomicMax": ("atomicAdd",),
    "__shfl_up_sync": ("__shfl_down_sync", "__shfl_xor_sync"), "__shfl_xor_sync": ("__shfl_down_sync",),
    "__shfl_sync": ("__shfl_xor_sync",), "atomicAdd": ("atomicMax",), "sinf": ("cosf",), "cosf": ("sinf",),
}  # fmt: skip
INDICES = ("threadIdx", "blockIdx", "blockDim", "gridDim")
WHOLE = {"int", "unsigned", "long", "size_t", "unsigned int", "long long", "uint32_t", "int32_t", "const int", "short"}
BARRIER = "what stands before it (threads may have to meet there)"
MOST_TERMS = 24
"""Terms and conditions of the text that are tried where one may be missing."""


@dataclass(frozen=True)
class Site:
    """An expression with what is around it: the expression that it is an operand of, the statement, the names that are
    known, and whether a value may stand in its place."""

    node: Expression
    parent: Expression | None
    statement: Statement
    scope: tuple[Declared, ...]
    is_value: bool


class Text:
    """A text with its functions, and the terms and conditions that it is made of."""

    def __init__(self, text: str):
        self.text = text
        self.functions = syntax.functions(text)
        self.sites: list[Site] = []
        self.blocks: list[tuple[Statement, tuple[Declared, ...]]] = []
        constants = re.finditer(r"(?m)^(?:static |inline )*(?:constexpr|const) (?:int|unsigned) (\w+) = ", text)
        shared = tuple(Declared(m[1], "int", m.start()) for m in constants)
        for f in self.functions:
            self._visit(f.body, (*shared, *f.parameters))
        self.terms = self._distinct(s for s in self.sites if self.is_whole(s) and _is_term(s.node))
        self.numbers = sorted({int(s.node.word) for s in self.sites if re.fullmatch(r"\d{1,4}", s.node.word)} - {0, 1})
        self.conditions = self._distinct(s for s in self.sites if s.node.kind == "binary" and s.node.word in COMPARED)

    def _visit(self, statement: Statement, scope: tuple[Declared, ...]) -> None:
        """Note the sites of a statement and of those in it; a block's names are known to its end."""
        if statement.kind == "block":
            self.blocks.append((statement, scope))
            scope = (*scope, *statement.names)
            for inner in statement.body:
                self._visit(inner, scope)
                if inner.kind == "declaration":
                    scope = (*scope, *inner.names)
            return
        inside = (*scope, *statement.names)
        for e in statement.expressions:
            self._note(e, None, statement, tuple(n for n in inside if n.begin <= e.begin), True)
        for inner in statement.body:
            self._visit(inner, inside)

    def _note(self, e: Expression, parent: Expression | None, statement: Statement, scope, is_value: bool) -> None:
        self.sites.append(Site(e, parent, statement, scope, is_value))
        if e.body is not None:
            self._visit(e.body, scope)
        if e.kind == "member" and e.word.split(".")[0] in INDICES:
            return
        for k, part in enumerate(e.parts):
            place = (e.kind == "assign" and k == 0) or e.kind == "postfix" or e.kind == "member"
            place |= e.kind == "unary" and e.word in ("&", "++", "--") or (e.kind == "index" and k == 0)
            self._note(part, e, statement, scope, not place)

    def _distinct(self, sites: Iterator[Site]) -> list[Site]:
        return list({" ".join(self.of(s.node).split()): s for s in sites}.values())

    def of(self, e: Expression) -> str:
        return self.text[e.begin : e.end]

    def change(self, what: str, e: Expression | Statement, new: str) -> Change:
        return Change(what, e.begin, e.end, new, self.line(e.begin))

    def before(self, what: str, at: int, statement: str) -> Change:
        """Another statement before the character `at`, where one begins or a block ends."""
        return Change(what, at, at, statement, self.line(at))

    def line(self, at: int) -> int:
        return self.text.count("\n", 0, at) + 1

    def is_whole(self, site: Site) -> bool:
        return is_whole(site.node, site.scope)

    def fits(self, term: Site, site: Site) -> bool:
        """Are all names of a term known at a site?"""
        known = {n.name for n in site.scope} | set(INDICES)
        used = {e.word.split(".")[0] for e in term.node.walk() if e.kind in ("name", "member", "index")}
        return used <= known


def type_of(e: Expression, scope: tuple[Declared, ...]) -> str:
    """The type of the name that an expression is or begins with; "" of one that is not known."""
    return next((n.type for n in reversed(scope) if n.name == e.word), "")


def is_whole(e: Expression, scope: tuple[Declared, ...]) -> bool:
    """Is it an expression of whole numbers?"""
    if e.kind == "name":
        return type_of(e, scope) in WHOLE
    if e.kind == "number":
        return bool(re.fullmatch(r"\d+[uUlL]*|0[xX][0-9a-fA-F]+[uU]?", e.word))
    if e.kind == "member":
        return e.word.split(".")[0] in INDICES
    if e.kind == "call":
        return e.word in ("min", "max") and all(is_whole(p, scope) for p in e.parts)
    return e.kind in ("binary", "paren") and e.word not in COMPARED and all(is_whole(p, scope) for p in e.parts)


def _is_term(e: Expression) -> bool:
    return e.kind in ("name", "member", "paren") or (e.kind == "binary" and e.word in ("*", "/", "%"))


def changes(text: str, lines: frozenset[int] | set[int] = frozenset(), waits: bool = True) -> list[Change]:
    """All small changes of a text, the likeliest first; those of other lines than `lines` come two groups later.
    `waits`: also barriers that may be missing."""
    source, found = Text(text), []
    for number, rules in enumerate(RULES):
        for site in source.sites:
            for rule in rules:
                found += [(number, c) for c in rule(source, site)]
        for rule in (*(WAITS if waits and not number else ()), *ON_BLOCKS[number]):
            for block, scope in source.blocks:
                found += [(number, c) for c in rule(source, block, scope)]
    found = sorted(found, key=lambda f: f[0] + (FAR if f[1].line not in lines else 0))
    return list({c.applied(text): c for _, c in reversed(found)}.values())[::-1]


FAR = 2
"""So many groups later come the changes of lines that nothing has named yet."""

Found = Iterator[Change]


def comparisons(source: Text, site: Site) -> Found:
    e = site.node
    if e.kind == "binary" and e.word in COMPARED:
        left, right = map(source.of, e.parts)
        for op in COMPARED[e.word]:
            yield source.change("the comparison", e, f"{left} {op} {right}")


def _functions(source: Text, site: Site) -> Found:
    e = site.node
    if e.kind == "call" and e.word in FUNCTIONS:
        for other in FUNCTIONS[e.word]:
            yield source.change("the function", e, source.of(e).replace(e.word, other, 1))


def _assignments(source: Text, site: Site) -> Found:
    e = site.node
    if e.kind != "assign":
        return
    target, value = map(source.of, e.parts)
    for op in ASSIGNED.get(e.word, ()):
        what = "the assignment (it forgets the value before)" if e.word == "=" else "the operator"
        yield source.change(what, e, f"{target} {op} {value}")


def _axes(source: Text, site: Site) -> Found:
    """x, y or z, thread or block."""
    e = site.node
    base, _, axis = e.word.partition(".")
    if e.kind != "member" or base not in INDICES:
        return
    for other in "xy":
        if other != axis and ".y" in source.text:
            yield source.change("the axis", e, f"{base}.{other}")
    for other in INDICES:
        if other != base:
            yield source.change("the index", e, f"{other}.{axis}")


def constants(source: Text, site: Site) -> Found:
    e = site.node
    if e.kind == "number" and is_whole(e, ()):
        value = int(re.sub("[uUlL]+$", "", e.word), 0)
        if e.word[:2].lower() == "0x":
            yield source.change("the mask", e, "0xffffffff")
            return
        for other in dict.fromkeys((value + 1, value - 1, 0, 1)):
            if other != value and other >= 0:
                yield source.change("the number", e, str(other))
    elif e.kind == "number" and (m := re.fullmatch(r"(\d*\.\d*(?:[eE][-+]?\d+)?)f?", e.word)):
        value = float(m[1])
        for other in dict.fromkeys((0.0, 1.0, -1.0, 2 * value, value / 2, -value)):
            if other != value:
                yield source.change("the number", e, f"{other!r}f")
        yield source.change("the initial value", e, "-INFINITY")
        yield source.change("the initial value", e, "INFINITY")
    elif e.kind == "name" and e.word == "INFINITY" and site.is_value:
        yield source.change("the initial value", e, "0.0f")


def _sizes(source: Text, site: Site) -> Found:
    """Another of the numbers that the text has, or one twice or half as large."""
    e = site.node
    if e.kind == "number" and re.fullmatch(r"\d+", e.word):
        value = int(e.word)
        for other in dict.fromkeys((2 * value, value // 2, *source.numbers)):
            if abs(other - value) > 1 and other > 1:
                yield source.change("the number", e, str(other))


def _tests(source: Text, site: Site) -> Found:
    """A condition that should not be there, or the other way round."""
    first = site.statement.kind in ("if", "while") and site.parent is None
    if first or (site.parent is not None and site.parent.kind == "choice" and site.node is site.parent.parts[0]):
        text = source.of(site.node)
        yield source.change("the condition", site.node, f"!({text})")
        for value in ("true", "false"):
            yield source.change("the condition", site.node, value)


def operators(source: Text, site: Site) -> Found:
    e = site.node
    if e.kind == "binary":
        left, right = map(source.of, e.parts)
        for op in OPERATORS.get(e.word, ()):
            yield source.change("the operator", e, f"{left} {op} {right}")
        if e.word in ("-", "/", "%"):
            yield source.change("the order of the operands", e, f"{right} {e.word} {left}")
        if e.word == "/" and is_whole(e, site.scope):
            yield source.change("the rounding", e, f"({left} + {right} - 1) / {right}")
    if e.kind == "unary" and e.word in ("-", "!"):
        yield source.change("the sign", e, source.of(e.parts[0]))
    if e.kind == "choice":
        test, yes, no = map(source.of, e.parts)
        yield source.change("the order of the two values", e, f"{test} ? {no} : {yes}")


def _one_off(source: Text, site: Site) -> Found:
    """An index or a bound that is one more or one less."""
    e = site.node
    if e.kind != "number" and (role := _role(source, site, "the bound")):
        for sign in "-+":
            yield source.change(role, e, f"{source.of(e)} {sign} 1")


def _role(source: Text, site: Site, compared: str) -> str:
    """What a whole number is where it stands: "the index", or `compared` where it is compared; "" elsewhere."""
    parent = site.parent
    if parent is None or not source.is_whole(site):
        return ""
    if parent.kind == "index" and site.node is parent.parts[1]:
        return "the index"
    return compared if parent.kind == "binary" and parent.word in COMPARED else ""


def _names(source: Text, site: Site) -> Found:
    """Another name of the same type."""
    e = site.node
    if e.kind != "name":
        return
    known = {n.name: n for n in site.scope}
    if e.word not in known or (own := known[e.word].type) == "auto":
        return
    for other in reversed(known.values()):
        alike = other.type == own or (other.type in WHOLE and own in WHOLE and site.is_value)
        if other.name != e.word and alike and (site.is_value or not other.fixed):
            yield source.change("the name", e, other.name)
    if own in WHOLE and site.is_value:
        for other in ("threadIdx.x", "blockDim.x", "blockIdx.x"):
            yield source.change("the name", e, other)


def _indices(source: Text, site: Site) -> Found:
    """A name in place of a thread's or block's index."""
    e = site.node
    if e.kind == "member" and e.word.split(".")[0] in INDICES:
        for n in reversed(site.scope):
            if n.type in WHOLE:
                yield source.change("the index", e, n.name)


def _computed(source: Text, site: Site) -> Found:
    """An index or a bound that is computed, where a variable has it."""
    e = site.node
    if e.kind == "binary" and (role := _role(source, site, "the comparison")):
        for n in reversed(site.scope):
            if n.type in WHOLE:
                yield source.change(role, e, n.name)


def terms(source: Text, site: Site) -> Found:
    """A term, a factor or a condition too many."""
    e = site.node
    if e.kind == "binary" and e.word in ("+", "-", "*", "/", "%", "&&", "||", "&", "^", "<<", ">>"):
        for part in e.parts[: 1 if e.word in ("/", "%", "<<", ">>") else 2]:
            yield source.change("the term (one may be too many)", e, source.of(part))


def _casts(source: Text, site: Site) -> Found:
    e = site.node
    if e.kind == "cast":
        yield source.change("the cast", e, source.of(e.parts[0]))
    if e.kind == "call" and e.word in ("int", "float") and len(e.parts) == 1:
        yield source.change("the cast", e, source.of(e.parts[0]))
    if e.kind == "binary" and e.word == "/" and is_whole(e, site.scope):
        yield source.change("the cast", e.parts[0], f"(float){source.of(e.parts[0])}")


def _missing(source: Text, site: Site) -> Found:
    """A term or a factor too few: one that the text has elsewhere."""
    e, parent = site.node, site.parent
    if not site.is_value or not source.is_whole(site):
        return
    around = parent.word if parent is not None and parent.kind == "binary" else ""
    text, is_sum = source.of(e), e.kind == "binary" and e.word in ("+", "-")
    pool = [t for t in source.terms if source.fits(t, site) and t.node is not e]
    near = sorted(pool, key=lambda t: abs(t.node.begin - e.begin))[:MOST_TERMS]
    own = [f"{index}.{axis}" for axis in ("xy" if ".y" in source.text else "x") for index in INDICES[:3]]
    if around not in ("+", "-") and e.kind != "number":
        blocks = [f"blockIdx.{axis} * blockDim.{axis}" for axis in ("xy" if ".y" in source.text else "x")]
        for term in dict.fromkeys([*own, *blocks, *(source.of(t.node) for t in near)]):
            yield source.change("the term (one may be missing)", e, f"{text} + {term}")
    if not is_sum and around != "*":
        factors = [source.of(t.node) for t in near if t.node.kind in ("name", "member", "paren")]
        for factor in dict.fromkeys([*own, *factors, *map(str, source.numbers[:8])]):
            yield source.change("the factor (one may be missing)", e, f"{text} * {factor}")


def _undivided(source: Text, site: Site) -> Found:
    """A division that is missing, or its remainder."""
    e = site.node
    if site.is_value and e.kind in ("name", "member", "paren") and source.is_whole(site):
        terms = [source.of(t.node) for t in source.terms if t.node.kind == "name" and source.fits(t, site)]
        for divisor in dict.fromkeys([*map(str, source.numbers[:8]), *terms[:MOST_TERMS]]):
            yield source.change("the remainder (one may be missing)", e, f"{source.of(e)} % {divisor}")
            yield source.change("the divisor (one may be missing)", e, f"{source.of(e)} / {divisor}")


def _values(source: Text, site: Site) -> Found:
    """A factor of floating-point numbers that is missing: one of the names."""
    e = site.node
    kind = type_of(e, site.scope)
    if not site.is_value or not (kind == "float" and e.kind == "name" or kind == "const float*" and e.kind == "index"):
        return
    text = source.of(e)
    others = [n.name for n in reversed(site.scope) if n.type == "float" and n.name != e.word][:8]
    for factor in [*others, "0.5f", "2.0f"]:
        yield source.change("the factor (one may be missing)", e, f"{text} * {factor}")
    for term in others:
        for sign in "+-":
            yield source.change("the term (one may be missing)", e, f"{text} {sign} {term}")


def _unguarded_loads(source: Text, site: Site) -> Found:
    """An element that is read whether it exists or not."""
    e = site.node
    kind = type_of(e, site.scope)
    if e.kind == "index" and site.is_value and kind in ("const float*", "float*", "float[]"):
        for condition in _conditions(source, site):
            yield source.change("the element (a condition may be missing)", e, f"{condition} ? {source.of(e)} : 0.0f")


def _unguarded(source: Text, site: Site) -> Found:
    """A condition that is missing beside another one."""
    first = site.statement.kind in ("if", "while", "for") and site.parent is None and site.node.kind == "binary"
    tested = site.parent is not None and site.parent.kind == "choice" and site.node is site.parent.parts[0]
    if not (first and site.node.word in COMPARED or tested):
        return
    text = source.of(site.node)
    for c in source.conditions:
        if c.node is not site.node and source.fits(c, site):
            yield source.change(
                "the condition (a part may be missing)", site.node, f"({text}) && ({source.of(c.node)})"
            )


# --- statements ----------------------------------------------------------------------------------------------------


def _barriers(source: Text, block: Statement, scope: tuple[Declared, ...]) -> Found:
    """Where threads may have to meet: before a statement, and at the end of a block."""
    if "__shared__" in source.text:
        for at in [s.begin for s in block.body] + [block.end - 1]:
            yield source.before(BARRIER, at, "__syncthreads();")


def _warp_barriers(source: Text, block: Statement, scope: tuple[Declared, ...]) -> Found:
    if "__syncwarp" in source.text:
        for s in block.body:
            yield source.before(BARRIER, s.begin, "__syncwarp();")


def _too_many(source: Text, block: Statement, scope: tuple[Declared, ...]) -> Found:
    """A statement that should not be there."""
    for s in block.body:
        if s.kind in ("expression", "if", "for"):
            yield source.change("the statement (it may be too many)", s, "")


def _order(source: Text, block: Statement, scope: tuple[Declared, ...]) -> Found:
    """Two statements in the wrong order."""
    for one, other in zip(block.body, block.body[1:], strict=False):
        if one.kind in ("expression", "if") and other.kind in ("expression", "if"):
            texts = source.text[one.begin : one.end], source.text[other.begin : other.end]
            new = f"{texts[1]} {texts[0]}"
            yield Change("the order of the statements", one.begin, other.end, new, source.line(one.begin))


def _guarded(source: Text, block: Statement, scope: tuple[Declared, ...]) -> Found:
    """A statement that lacks a condition."""
    known = scope
    for s in block.body:
        if s.kind == "expression" and s.expressions and s.expressions[0].kind == "assign":
            yield from _conditional(source, s, known)
        known = (*known, *(s.names if s.kind == "declaration" else ()))


def _conditional(source: Text, s: Statement, scope: tuple[Declared, ...]) -> Found:
    site = Site(s.expressions[0], None, s, scope, False)
    text = source.text[s.begin : s.end]
    for condition in _conditions(source, site):
        yield source.change("the statement (a condition may be missing)", s, f"if ({condition}) {text}")


def _conditions(source: Text, site: Site) -> list[str]:
    """Conditions that may be missing: those of the text, and comparisons of the nearest variables."""
    tried = [source.of(c.node) for c in source.conditions if source.fits(c, site)]
    whole = [n.name for n in reversed(site.scope) if n.type in WHOLE][:5]
    tried += [f"{a} {op} {b}" for op in ("<", ">=") for a in whole for b in whole if a != b]
    return list(dict.fromkeys([*tried, *(f"{a} == 0" for a in (*whole, "threadIdx.x"))]))


def _resets(source: Text, block: Statement, scope: tuple[Declared, ...]) -> Found:
    """A sum that has to begin anew in each iteration."""
    for n in scope if block.body else ():
        if n.type == "float" and not n.fixed:
            first = block.body[0].begin
            yield source.before(
                "what stands before it (a sum may have to begin anew there)", first, f"{n.name} = 0.0f;"
            )


RULES: tuple[tuple[Callable[[Text, Site], Found], ...], ...] = (
    (comparisons, _functions, _assignments, _axes, constants, _tests, operators, _one_off),
    (_names, _indices, _computed, terms, _casts, _sizes),
    (_missing, _values, _unguarded, _unguarded_loads),
    (_undivided,),
)
ON_BLOCKS: tuple[tuple[Callable[..., Found], ...], ...] = (
    (),
    (_too_many, _order),
    (_guarded,),
    (_resets,),
)
"""By group, the likeliest first; those of one group go through the text together."""

WAITS = (_barriers, _warp_barriers)
"""Rules that only help where threads did not wait for each other."""
