"""First-order mutations of CUDA C++, by its tokens: no parser, but the course's solutions are formatted alike."""

from __future__ import annotations

import re
from collections.abc import Iterator

from grader.course.mutations.edits import Edit, regions
from labutils.cuda.text import blank

COMPARISONS = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "=="}
ARITHMETIC = {"+": "-", "-": "+", "*": "+", "/": "*", "%": "/", "&": "|", "|": "&", "<<": ">>", ">>": "<<"}
ASSIGNMENTS = {"+=": "=", "-=": "+=", "*=": "=", "/=": "*=", "|=": "=", "^=": "="}
FUNCTIONS = {
    "fmaxf": "fminf", "fminf": "fmaxf", "max": "min", "min": "max", "expf": "exp2f", "exp2f": "expf",
    "__shfl_down_sync": "__shfl_up_sync", "__shfl_xor_sync": "__shfl_down_sync", "rsqrtf": "sqrtf", "sqrtf": "rsqrtf",
}  # fmt: skip
ORDERING = re.compile(
    r"(?:\w+(?:\.|::))*(__syncthreads|__syncwarp|__threadfence\w*|sync|\w*wait\w*|\w*commit\w*|\w*fence\w*|\w*arrive\w*|"
    r"expect_\w+|\w*barrier\w*)\s*(?:<[\w\s,]*>)?\([^;]*\);"
)
"""Statements that only order others: barriers, fences, commits, waits."""

PRIMARY = r"(?:[A-Za-z_]\w*(?:\.\w+)*(?:\[[^\[\]]*\])*|\d[\w.]*|\([^()]*\))"
CAST = re.compile(r"\((?:float|double|int|unsigned|long long|size_t|half|__half|unsigned char)\)\s*(?=[\w(])")
INIT = re.compile(r"=\s*(0\.0f|0\.f|1\.0f|-INFINITY|INFINITY|0|1)\s*([;,)])")
INTEGERS = re.compile(r"\b(?:int|unsigned|size_t|long long)\s+(?:const\s+)?(\w+)\s*(?=[=,;)])")


def edits(text: str) -> Iterator[Edit]:
    """Every first-order mutation inside the text's solution regions."""
    plain, spans = _code(text), regions(text)
    for operator in OPERATORS:
        for edit in operator(plain):
            if any(low <= edit.begin and edit.end <= high for low, high in spans):
                yield edit


def _code(text: str) -> str:
    """The text with comments, strings and directives blanked, character for character."""
    return re.sub(r"(?m)^[ \t]*#.*$", lambda m: " " * len(m.group(0)), blank(text))


def ordering(plain: str) -> Iterator[Edit]:
    for m in ORDERING.finditer(plain):
        yield Edit("barrier, fence or wait removed", *m.span(), ";")


def comparisons(plain: str) -> Iterator[Edit]:
    """`<` and `<=`, and a bound that is one off."""
    for m in re.finditer(r"(?<= )(<=|>=|==|!=|<|>)(?= )", plain):
        yield Edit("comparison changed", *m.span(), COMPARISONS[m[0]])
        after = re.compile(rf" {PRIMARY}").match(plain, m.end())
        if after:
            for change in ("- 1", "+ 1"):
                yield Edit("bound one off", after.end(), after.end(), f" {change}")


def operators(plain: str) -> Iterator[Edit]:
    """An operator changed, an operand dropped: an offset, a factor."""
    for m in re.finditer(r"(?<= )(\+|-|\*|/|%|&|\||<<|>>)(?= )", plain):
        yield Edit("operator changed", *m.span(), ARITHMETIC[m[0]])
        left = re.search(rf"{PRIMARY} $", plain[max(0, m.start() - 80) : m.start()])
        right = re.compile(rf" {PRIMARY}").match(plain, m.end())
        if right:
            yield Edit("operand dropped", m.start() - 1, right.end(), "")
        if left and m[0] in "+*&|-":
            yield Edit("operand dropped", m.start() - len(left[0]), m.end() + 1, "")


def conditions(plain: str) -> Iterator[Edit]:
    """A condition ignored, turned, or one of its parts left out."""
    for m in re.finditer(r"\b(if|while)(?: constexpr)? \(", plain):
        end = _closing(plain, m.end() - 1)
        test = plain[m.end() : end]
        yield Edit("condition turned", m.end(), end, f"!({test})")
        if m[1] == "if":
            yield Edit("condition ignored", m.end(), end, "true")
            yield Edit("condition ignored", m.end(), end, "false")
    for m in re.finditer(r" && ", plain):
        begin, end = _around(plain, m.start(), m.end())
        yield Edit("condition dropped", begin, m.end(), "")
        yield Edit("condition dropped", m.start(), end, "")
    for m in re.finditer(r" \? ", plain):
        begin, _ = _around(plain, m.start(), m.end(), "&|")
        for value in ("true", "false"):
            yield Edit("condition ignored", begin, m.start(), value)


def _closing(text: str, start: int) -> int:
    depth = 0
    for i in range(start, len(text)):
        depth += (text[i] == "(") - (text[i] == ")")
        if depth == 0:
            return i
    return len(text)


def _around(text: str, before: int, after: int, through: str = "") -> tuple[int, int]:
    """The operand on either side of a && or ?: up to a bracket, a comma, a semicolon, = or another && or ||."""
    stops = set(",;?:" + "".join(c for c in "&|" if c not in through))
    begin, depth = before, 0
    while begin > 0:
        c = text[begin - 1]
        depth += (c == ")" or c == "]") - (c == "(" or c == "[")
        if depth < 0 or depth == 0 and (c in stops or c == "=" and text[begin - 2] not in "<>=!" or c in "{}\n"):
            break
        begin -= 1
    end, depth = after, 0
    while end < len(text):
        c = text[end]
        depth += (c == "(" or c == "[") - (c == ")" or c == "]")
        if depth < 0 or depth == 0 and (c in stops or c in "{}\n"):
            break
        end += 1
    while begin < before and text[begin] == " ":
        begin += 1
    return begin, end


def loops(plain: str) -> Iterator[Edit]:
    """Where a loop begins, and how it goes on."""
    for m in re.finditer(r"\bfor \(", plain):
        end = _closing(plain, m.end() - 1)
        parts = list(re.finditer(r"[^;]+", plain[m.end() : end]))
        if len(parts) != 3:
            continue
        first = re.search(r"= ([^;,]+)$", parts[0][0])
        if first:
            begin, stop = (m.end() + parts[0].start() + x for x in first.span(1))
            yield Edit("loop bound", begin, stop, f"{first[1]} + 1")
        step = re.search(r"(\+=|-=|>>=|<<=|/=|\*=) (.+)$", parts[2][0])
        if step:
            begin, stop = (m.end() + parts[2].start() + x for x in step.span(2))
            yield Edit("loop step", begin, stop, f"2 * ({step[2]})")


def assignments(plain: str) -> Iterator[Edit]:
    for m in re.finditer(r"(?<= )(\+=|-=|\*=|/=|\|=|\^=)(?= )", plain):
        yield Edit("accumulate made assign" if m[0] == "+=" else "operator changed", *m.span(), ASSIGNMENTS[m[0]])
    for m in re.finditer(r"(?m)^[ ]*((?:[\w.\[\]+*/%<> -]+?) [-+*/|^]?= [^;{}]+;)[ ]*$", plain):
        if not re.match(r"(?:const |constexpr |auto |int |float |double |unsigned |half |size_t |long )", m[1]):
            yield Edit("statement removed", *m.span(1), ";")


def initial(plain: str) -> Iterator[Edit]:
    for m in INIT.finditer(plain):
        is_float = "f" in m[1] or "INF" in m[1]
        for value in ("0.0f", "1.0f", "-INFINITY") if is_float else ("0", "1"):
            if value.rstrip("f").rstrip(".0") != m[1].rstrip("f").rstrip(".0"):
                yield Edit("initial value", *m.span(1), value)


def names(plain: str) -> Iterator[Edit]:
    """x for y, thread for block, one size for another, one index for another."""
    for m in re.finditer(r"\b(threadIdx|blockIdx|blockDim|gridDim)\.([xyz])\b", plain):
        for axis in "xy":
            if axis != m[2]:
                yield Edit("axis changed", m.start(2), m.end(2), axis)
        other = {"threadIdx": "blockIdx", "blockIdx": "threadIdx", "blockDim": "gridDim", "gridDim": "blockDim"}[m[1]]
        yield Edit("block for thread", m.start(1), m.end(1), other)
    for begin, end in _functions(plain):
        known = list(dict.fromkeys(INTEGERS.findall(plain[begin:end])))
        uses = re.compile(rf"(?<!\w)({'|'.join(map(re.escape, known))})(?!\w)(?!\s*=[^=])") if known else None
        for m in uses.finditer(plain, plain.find("{", begin), end) if uses else ():
            if re.search(r"\b(?:int|unsigned|size_t|long)\s+$", plain[max(0, m.start() - 12) : m.start()]):
                continue
            at = known.index(m[1])
            for other in {known[at - 1], known[(at + 1) % len(known)]} - {m[1]}:
                if plain.find(other, begin) < m.start():  # declared before
                    yield Edit("name for name", *m.span(), other)


def _functions(plain: str) -> Iterator[tuple[int, int]]:
    """Spans of functions: from the line of the head to the closing brace in the first column."""
    for m in re.finditer(r"(?m)^(?:template|__global__|__device__|static|inline)[^;{]*\{", plain):
        end = plain.find("\n}", m.end())
        yield m.start(), end if end >= 0 else len(plain)


def subscripts(plain: str) -> Iterator[Edit]:
    """An index one off."""
    for m in re.finditer(r"\w\[([^\[\]]+)\]", plain):
        if not m[1].strip().isdigit():
            yield Edit("index one off", m.end(1), m.end(1), " + 1")


def calls(plain: str) -> Iterator[Edit]:
    for m in re.finditer(r"\b(\w+)(?=\()", plain):
        if m[1] in FUNCTIONS:
            yield Edit("function changed", *m.span(1), FUNCTIONS[m[1]])
    for m in re.finditer(r"\batomicAdd\(", plain):
        end = _closing(plain, m.end() - 1)
        place, _, value = plain[m.end() : end].partition(",")
        yield Edit("atomic made plain", m.start(), end + 1, f"*({place.strip()}) += {value.strip()}")
    for m in CAST.finditer(plain):
        yield Edit("cast removed", *m.span(), "")


def constants(plain: str) -> Iterator[Edit]:
    for m in re.finditer(r"(?<![\w.])(\d+)(?![\w.])", plain):
        yield Edit("constant changed", *m.span(), str(int(m[1]) + 1))
        if int(m[1]):
            yield Edit("constant changed", *m.span(), str(int(m[1]) - 1))
    for m in re.finditer(r"(?<![\w.])(\d+\.\d*)f?\b", plain):
        yield Edit("constant changed", *m.span(), "1.0f" if float(m[1]) == 0 else f"{2 * float(m[1])}f")


OPERATORS = (
    ordering, comparisons, operators, conditions, loops, assignments, initial, names, subscripts, calls, constants,
)  # fmt: skip
