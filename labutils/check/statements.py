"""Reading the learner's text around a line: the whole statement, its mask, where a name was computed."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass

MOST_LINES = 12
"""Lines of a statement that are looked at."""

COMMENT = r"\s+#.*$|(?:(?<=[;{}])\s*|^|\s{2,})//.*$"
"""A comment at the end of a line. `a // b` is Python's division; a comment of C++ follows a statement, or a gap."""

GUARD_REACH = 8
"""Lines above a CUDA C++ statement in which its guard is looked for."""


@dataclass(frozen=True)
class Line:
    """A line of the learner's text, as messages name it."""

    number: int
    text: str

    def __str__(self) -> str:
        return f"line {self.number}: `{shortened(self.text)}`"


@dataclass(frozen=True)
class MemoryCall:
    """A `tl.load` or `tl.store` of the text: the source of its pointer and of its mask ("" without one)."""

    pointer: str
    mask: str


def shortened(text: str, most: int = 100) -> str:
    """One line of text, without its comment."""
    text = " ".join(re.sub(COMMENT, "", text.strip()).split())
    return text if len(text) <= most else text[: most - 1] + "…"


def statement(lines: list[str], number: int) -> str:
    """The statement that begins on a line (counted from 1), also where it goes on over several lines."""
    text = ""
    for line in lines[number - 1 : number - 1 + MOST_LINES]:
        text += re.sub(r"\s+#.*$", "", line.rstrip("\n")) + " "
        if text.count("(") + text.count("[") <= text.count(")") + text.count("]"):
            break
    return " ".join(text.split())


def memory_call(text: str) -> MemoryCall | None:
    """The first load, store or atomic of a Triton statement."""
    try:
        tree = ast.parse(text.rstrip(":"))
    except SyntaxError:
        return None
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
            name = node.func.attr
            if name not in ("load", "store") and not name.startswith("atomic_"):
                continue
            keywords = {k.arg: ast.unparse(k.value) for k in node.keywords}
            position = 1 if name == "load" else 2
            by_position = ast.unparse(node.args[position]) if len(node.args) > position else ""
            return MemoryCall(ast.unparse(node.args[0]), keywords.get("mask", by_position))
    return None


def definition(lines: list[str], name: str, before: int) -> Line | None:
    """The last assignment to a Python name above a line."""
    for number in range(before - 1, 0, -1):
        target = rf"(?:\w+\s*,\s*)*{re.escape(name)}\s*(?:,\s*\w+\s*)*"
        if re.match(rf"\s*(?:{target}([-+*/&|]|//)?=[^=]|for\s+{target}in\b)", lines[number - 1]):
            return Line(number, statement(lines, number))
        if re.match(r"\s*def\s", lines[number - 1]):
            return None
    return None


def moved(lines: list[str], name: str, around: int) -> Line | None:
    """Where a Python name is changed by += or -= behind a line of the same function."""
    for number in range(around + 1, len(lines) + 1):
        if re.match(r"(@|def\s|class\s)", lines[number - 1]):
            return None
        if re.match(rf"\s*{re.escape(name)}\s*[-+]=", lines[number - 1]):
            return Line(number, statement(lines, number))
    return None


def helper_call(lines: list[str], expression: str, before: int, depth: int = 3) -> Line | None:
    """The assignment by a call of a function of the same text from which an expression is computed."""
    functions = {m[1] for text in lines if (m := re.match(r"def\s+(\w+)", text))}
    for name in re.findall(r"[A-Za-z_]\w*", expression):
        if (found := definition(lines, name, before)) is None:
            continue
        if any(re.search(rf"=\s*{f}\(", found.text) for f in functions):
            return found
        value = found.text.split("=", 1)[-1]
        if depth > 1 and (earlier := helper_call(lines, value, found.number, depth - 1)):
            return earlier
    return None


def passed_as(lines: list[str], pointer: str, number: int, array: str) -> Line | None:
    """The call that passes an array to the function of Python around a line, whose parameter the pointer is."""
    for k in range(number, 0, -1):
        if m := re.match(r"def\s+(\w+)\s*\(", lines[k - 1]):
            header = statement(lines, k)
            if not re.search(rf"\b{re.escape(pointer)}\b", header) or re.search(rf"\b{array}_ptr\b", header):
                return None
            calls = [n for n, text in enumerate(lines, 1) if re.search(rf"(?<!def ){m[1]}\(", text)]
            found = [Line(n, text) for n in calls if re.search(rf"\b{array}_ptr\b", text := statement(lines, n))]
            return found[0] if found else None
    return None


def foreign_stride(lines: list[str], pointer: str, number: int) -> tuple[Line, str, str] | None:
    """The statement that makes or moves the pointer of a line by a stride which is named after another array, with the
    stride and that array. `stride_kn` is named after k if the kernel has a k_ptr; `stride_dm` after dx if no other
    pointer begins with d."""
    header = next((k for k in range(number, 0, -1) if re.match(r"def\s", lines[k - 1])), 0)
    arrays = re.findall(r"\b(\w+?)_ptr\b", statement(lines, header)) if header else []
    made = [Line(number, statement(lines, number))] + [
        d for n in re.findall(r"[A-Za-z_]\w*", pointer) if n.endswith("ptrs") and (d := definition(lines, n, number))
    ]
    own = next((m[1] for text in (pointer, *(x.text for x in made)) if (m := re.search(r"\b(\w+?)_ptr\b", text))), "")
    base = re.match(r"\w+", pointer)
    if base and (step := moved(lines, base[0], number)):
        made.append(step)
    for line in made if own in arrays else ():
        for stride in re.findall(r"\bstride_\w{2,}", line.text):
            owner = _owner(stride.removeprefix("stride_"), arrays)
            if owner not in ("", own):
                return line, stride, owner
    return None


def _owner(named: str, arrays: list[str]) -> str:
    """The array after which a stride is named; "" if that is none, or not certain."""
    whole = max((a for a in arrays if named.startswith(a)), key=len, default="")
    begins = [a for a in arrays if a[0] == named[0]]
    return whole or (begins[0] if len(begins) == 1 else "")


def origin(lines: list[str], expression: str, before: int) -> Line | None:
    """Where the first name of an expression that is not a pointer was computed."""
    for name in re.findall(r"[A-Za-z_]\w*", expression):
        if not name.endswith("_ptr") and (found := definition(lines, name, before)):
            return found
    return None


def guard(source: str, number: int) -> Line | None:
    """The `if` of CUDA C++ that stands on a line or shortly above it."""
    lines = source.splitlines()
    for k in range(min(number, len(lines)), max(number - GUARD_REACH, 0), -1):
        text = lines[k - 1]
        if k < number and re.match(r"\s*(__global__|template|\})", text):
            return None
        if re.search(r"\bif\s*\(|\bwhile\s*\(|\bfor\s*\(|&&|\?", text):
            return Line(k, text.strip())
    return None


def conditions(source: str, number: int) -> list[Line]:
    """The lines of CUDA C++ with conditions above a line of the same function, and on it."""
    lines, found = source.splitlines(), []
    for k in range(min(number, len(lines)), 0, -1):
        text = re.sub(r"//.*$", "", lines[k - 1])
        if k < number and re.match(r"\s*(__global__|__device__|template)|\}", text):
            break
        if re.search(r"\bif\s*\(|\bwhile\s*\(|\bfor\s*\(|&&|\?", text):
            found.append(Line(k, lines[k - 1].strip()))
    return found


def loops(source: str, number: int) -> list[tuple[int, int]]:
    """The loops of C++ with a body in braces around a line: (first, last line), the innermost first."""
    lines = source.splitlines()
    found = []
    for header in enclosing_loops(source, number):
        if "{" not in "".join(lines[header.number - 1 : header.number + 1]):
            continue
        end = _closing(lines, header.number)
        if end is not None and end > header.number:
            found.append((header.number, end))
    return found


def _closing(lines: list[str], first: int) -> int | None:
    """The line of C++ that closes the braces which line `first` opens."""
    depth = 0
    for k in range(first, len(lines) + 1):
        code = re.sub(r"//.*$", "", lines[k - 1])
        depth += code.count("{") - code.count("}")
        if depth <= 0 and "}" in code:
            return k
    return None


def _device_function(lines: list[str], number: int) -> tuple[int, int, str] | None:
    """The lambda or the function of the device around a line of C++: its first line, its last, and its name."""
    for k in range(number, 0, -1):
        if m := re.match(r"\s*auto\s+(\w+)\s*=\s*\[|.*__device__[^(]*?(\w+)\s*\(", lines[k - 1]):
            end = _closing(lines, k) or len(lines)
            if k < number <= end:
                return k, end, m[1] or m[2]
    return None


def in_the_kernel(source: str, line: Line) -> Line:
    """The line of C++ itself, or if a lambda or a function of the device is around it, the last line in a loop that
    calls that one."""
    lines = source.splitlines()
    if not (around := _device_function(lines, line.number)):
        return line
    _, end, name = around
    calls = [n for n in range(end + 1, len(lines) + 1) if re.search(rf"\b{name}\s*\(", lines[n - 1])]
    calls = [n for n in calls if loops(source, n)]
    return in_the_kernel(source, Line(calls[-1], lines[calls[-1] - 1].strip())) if calls else line


def calls_of(source: str, line: Line) -> list[Line]:
    """The calls of the lambda or function of the device around a line of C++, if it has no barrier of its own; without
    such a function the line itself."""
    lines = source.splitlines()
    if not (around := _device_function(lines, line.number)):
        return [line]
    first, end, name = around
    if barriers(source, first, end):
        return []
    return [
        Line(n, lines[n - 1].strip())
        for n in range(end + 1, len(lines) + 1)
        if re.search(rf"\b{name}\s*\(", re.sub(r"//.*$", "", lines[n - 1]))
    ]


def condition(source: str, line: Line) -> Line | None:
    """The `if` of C++ on a line or around it, inside of the innermost loop around that line."""
    lines, depth = source.splitlines(), 0
    first = max((begin for begin, _ in loops(source, line.number)), default=0)
    for k in range(line.number, first, -1):
        code = re.sub(r"//.*$", "", lines[k - 1])
        if k < line.number:
            depth += code.count("}") - code.count("{")
        alone = k == line.number or ("{" not in code and k == line.number - 1)
        if re.match(r"\s*(?:\}\s*)?(?:else\s+)?if\s*\(", code) and (alone or depth < 0):
            return Line(k, lines[k - 1].strip())
        depth = max(depth, 0)
    return None


def common_loop(source: str, one: int, other: int) -> tuple[int, int] | None:
    """The innermost loop around two lines of C++."""
    return next((loop for loop in loops(source, one) if loop in loops(source, other)), None)


def barriers(source: str, first: int, last: int) -> list[Line]:
    """The barriers of a block that stand between two lines of C++."""
    lines = source.splitlines()[first : last - 1]
    return [
        Line(first + 1 + k, line.strip())
        for k, line in enumerate(lines)
        if re.search(r"__syncthreads\s*\(|\.sync\s*\(", re.sub(r"//.*$", "", line))
    ]


def line_of(source: str, number: int) -> Line | None:
    """A line of CUDA C++."""
    lines = source.splitlines()
    return Line(number, lines[number - 1].strip()) if 0 < number <= len(lines) and lines[number - 1].strip() else None


def uses(source: str, array: str, stored: bool = False) -> list[Line]:
    """Lines of CUDA C++ that index an array, or assign to an element of it."""
    after = r"\s*\[[^;]*\]\s*([-+*/|^&]?=)(?!=)" if stored else r"\s*\["
    found = []
    for number, text in enumerate(source.splitlines(), 1):
        if re.search(rf"\b{re.escape(array)}\d?{after}", text) and not text.lstrip().startswith("//"):
            found.append(Line(number, text.strip()))
    return found


def compared(condition: str) -> tuple[set[str], set[str]]:
    """Names that a condition of C++ bounds, and those that it compares them with."""
    bounded, sizes = set(), set()
    for part in (part for tested in _tested(condition) for part in re.split(r"&&|\|\||[;?{]", tested)):
        if m := re.search(r"(.*?)(?<![<>])(<=|>=|<|>|==)(?![<>])(.*)", part):
            left, right = (set(re.findall(r"[A-Za-z_]\w*", side)) for side in (m[1], m[3]))
            small, large = (right, left) if m[2] in (">", ">=") else (left, right)
            bounded, sizes = bounded | small, sizes | large
    return bounded, sizes


def _tested(text: str) -> list[str]:
    """The conditions of a line of C++, without what depends on them; the whole line if it has no `if`, loop or `?`."""
    found = []
    for m in re.finditer(r"\b(?:if|while|for)\s*\(", text):
        depth = 1
        for end in range(m.end(), len(text)):
            depth += (text[end] == "(") - (text[end] == ")")
            if not depth:
                break
        found.append(text[m.end() : end if not depth else None])
    for m in re.finditer(r"\?", text):
        found.append(re.split(r"(?<![=<>!])=(?!=)|\breturn\b|[;{]", text[: m.start()])[-1])
    return found or [text]


def rounded_down(source: str, number: int, sizes: dict[str, int]) -> list[tuple[Line, str, int]]:
    """Divisions of a size by a whole number in the headers of the loops of C++ around a line, or where a name of such
    a header is computed: (the line, `N / 32`, what is left over)."""
    lines, found = source.splitlines(), []
    for header in enclosing_loops(source, number):
        places = [header]
        for name in set(re.findall(r"[A-Za-z_]\w*", header.text)):
            made = next(
                (k for k in range(header.number - 1, 0, -1) if re.search(rf"\b{name}\s*=[^=]", lines[k - 1])), 0
            )
            places += [Line(made, lines[made - 1].strip())] if made else []
        for place in places:
            for m in re.finditer(r"(?<![\w)\]])(\w+)\s*/\s*(\d+)\b", place.text):
                if m[1] in sizes and sizes[m[1]] % int(m[2]):
                    found.append((place, m[0], sizes[m[1]] % int(m[2])))
    return found


def made_of(source: str, line: Line) -> list[Line]:
    """Where the variables of a line's first index were computed, in CUDA C++."""
    lines, found = source.splitlines(), []
    index = re.search(r"\[([^\]]*)\]", line.text)
    for name in dict.fromkeys(re.findall(r"[A-Za-z_]\w*", index[1])) if index else ():
        for number in range(line.number - 1, 0, -1):
            if re.search(rf"\b{name}\s*=[^=]", lines[number - 1]):
                found.append(Line(number, lines[number - 1].strip()))
                break
    return sorted(set(found), key=lambda x: x.number)


def enclosing_loops(source: str, number: int) -> list[Line]:
    """The headers of the loops of C++ around a line, the innermost first; a loop on the line itself counts. That of
    `do … while (…)` is where it begins."""
    lines, found, depth = source.splitlines(), [], 0
    for k in range(min(number, len(lines)), 0, -1):
        code = re.sub(r"//.*$", "", lines[k - 1])
        if k < number:
            depth += code.count("}") - code.count("{")
        alone = k == number or ("{" not in code and k == number - 1)
        if re.search(r"(?<!\})(?<!\} )\b(for|while)\s*\(", code) and (alone or depth < 0):
            found.append(Line(k, lines[k - 1].strip()))
        elif re.search(r"\bdo\s*(\{|$)", code) and (alone or depth < 0):
            end = lines[(_closing(lines, k) or k) - 1]
            condition = re.search(r"while\s*\(.*\)", end)
            found.append(Line(k, f"do … {condition[0]};" if condition else lines[k - 1].strip()))
        depth = max(depth, 0)
    return found


def barrier_near(source: str, number: int) -> Line | None:
    """A barrier in the body of the innermost loop around a line of C++."""
    loops = enclosing_loops(source, number)
    if not loops:
        return None
    lines, depth = source.splitlines(), 0
    for k in range(loops[0].number, len(lines) + 1):
        code = re.sub(r"//.*$", "", lines[k - 1])
        if k > loops[0].number and re.search(r"__sync(threads|warp)\s*\(|\bsync\s*\(", code):
            return Line(k, lines[k - 1].strip())
        depth += code.count("{") - code.count("}")
        if depth <= 0 and k >= number:
            return None
    return None


def is_open(header: Line) -> bool:
    """Does a loop's header test nothing that could end it?"""
    always = r"\bwhile\s*\(\s*(true|1)\s*\)|\bfor\s*\([^;]*;\s*(true|1)?\s*;"
    return re.search(always, header.text) is not None


def exits(source: str, header: Line) -> list[Line]:
    """The lines of C++ in a loop's body that end it: each `break` of its own, and each `return`."""
    lines = source.splitlines()
    last = _closing(lines, header.number) or header.number + 1
    found = []
    for k in range(header.number, min(last, len(lines)) + 1):
        code = re.sub(r"//.*$", "", lines[k - 1])
        own = re.search(r"\bbreak\b", code) and [h.number for h in enclosing_loops(source, k)][:1] == [header.number]
        if own or re.search(r"\b(return|goto)\b", code):
            above = k > 1 and not re.search(r"\bif\b", code) and re.search(r"\bif\s*\(", lines[k - 2])
            found.append(Line(k, f"{lines[k - 2].strip()} {code.strip()}" if above else code.strip()))
    return found


def python_loop(texts: list[tuple[int, str]], number: int) -> Line | None:
    """The header of the innermost loop around a line of Python; texts are given as (first line's number, text)."""
    for first, text in texts:
        lines = text.splitlines()
        if not first <= number < first + len(lines):
            continue
        depth = _indent(lines[number - first])
        for k in range(number - first - 1, -1, -1):
            if lines[k].strip() and _indent(lines[k]) < depth:
                depth = _indent(lines[k])
                if re.match(r"\s*(for|while)\b", lines[k]):
                    return Line(first + k, statement(lines, k + 1))
    return None


def _indent(text: str) -> int:
    return len(text) - len(text.lstrip())


def bounds_of(texts: list[tuple[int, str]], header: Line) -> list[Line]:
    """The assignments, above a loop of Python, to the variables that bound it."""
    found = []
    for first, text in texts:
        lines = text.splitlines()
        if not first <= header.number < first + len(lines):
            continue
        bounds = header.text.split(" in ", 1)[-1]
        variables = {n for n in re.findall(r"[A-Za-z_]\w*", bounds) if not n.isupper()}
        for k, line in enumerate(lines[: header.number - first]):
            if (m := re.match(r"\s*([\w, ]+?)\s*=[^=]", line)) and variables & set(re.findall(r"\w+", m[1])):
                found.append(Line(first + k, statement(lines, k + 1)))
    return found


def endless(header: Line) -> str:
    """What a loop's header tests and what it changes, if these have no name in common; else ""."""
    m = re.search(r"\bfor\s*\(([^;]*);([^;]*);(.*)\)", header.text)
    if not m:
        return ""
    tested = list(dict.fromkeys(re.findall(r"[A-Za-z_]\w*", m[2])))
    changed = re.findall(r"([A-Za-z_]\w*)\s*(?:[-+*/>]|<<|>>)?=|([A-Za-z_]\w*)\s*(?:\+\+|--)|(?:\+\+|--)\s*(\w+)", m[3])
    names = [n for group in changed for n in group if n]
    if names and not set(names) & set(tested):
        return f"it changes {', '.join(names)}, but its condition tests {', '.join(tested) or 'nothing'}"
    return ""


RISKY = (
    (r"\b(?:__|\w+_)?exp2?f?\s*\(", "exp of a number above 88 is inf"),
    (r"\b(?:rsqrt|rsqrtf|sqrt|sqrtf)\s*\(", "the root of a negative number is NaN, rsqrt of 0 is inf"),
    (r"\b(?:log|logf|log2|log2f)\s*\(", "the logarithm of 0 is -inf, of a negative number NaN"),
    (
        r"(?<![/*])/(?![/=*])(?!\s*(?:\d+\b(?!\.)|[A-Z][A-Z_0-9]*\b(?!\s*\()|blockDim|gridDim|warpSize))",
        "x / 0 is inf, 0 / 0 is NaN",
    ),
)

NO_FLOATS = (
    r"^\s*(?:const |constexpr |static )*(?:int|unsigned|long|size_t|dim3)\b.*",
    r"^\s*(?:template|extern|static|inline|__global__|__device__|__forceinline__)[^{]*\{?",
    r"\bfor\s*\([^;]*;[^;]*;[^)]*\)",
    r"\[[^\]]*\]",
)
"""Parts of a line that compute no value: declarations of integers, signatures, headers of loops, indices."""


def naming(texts: list[tuple[int, str]], pattern: str) -> list[Line]:
    """Lines of kernels, given as (first line's number, text), whose code matches a pattern."""
    return [
        Line(first + k, line.strip())
        for first, text in texts
        for k, line in enumerate(text.splitlines())
        if re.search(pattern, re.sub(r"(#|//).*$", "", line)) and not line.lstrip().startswith(("//", '"""'))
    ]


def risky(texts: list[tuple[int, str]]) -> list[tuple[Line, str]]:
    """Lines of kernels, given as (first line's number, text), that can make inf or NaN; the likeliest first."""
    found = []
    for first, text in texts:
        for k, line in enumerate(text.splitlines()):
            code = re.sub(r"(#|//).*$", "", line)
            for part in NO_FLOATS:
                code = re.sub(part, "", code)
            rank = next((n for n, (pattern, _) in enumerate(RISKY) if re.search(pattern, code)), None)
            if rank is not None and "def " not in code and '"""' not in code:
                found.append((rank, Line(first + k, line.strip()), RISKY[rank][1]))
    return [(line, why) for _, line, why in sorted(found, key=lambda x: x[0])]
