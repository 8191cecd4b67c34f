"""What g++ does not record: structs in memory that a call takes or returns.

Its thread sanitizer puts callbacks before assignments. `*out = f(*in)` with structs is a call that reads and writes
memory by itself, and has none. The compiler's own list of statements, as they are when the callbacks have been put in,
says where such calls are left. A kernel that has one is built once more without calls (`build.FLAT`), as NVIDIA's
compiler builds it: parameters become variables, and filling one is an assignment. What is left even then, by recursion,
is refused.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from .errors import CompileError

FLAG = "-fdump-tree-tsan-raw-lineno-uid="
"""g++ writes its statements to the file that follows: one a line, calls as `gimple_call <function, result, …>`, names
with a number that makes them unique (`oneD.5714`), and places before what they belong to (`[cell:7:3] `)."""

_HEADER = re.compile(r";; Function .*\((\S+), funcdef_no=")
_CALL = re.compile(r"\s*((?:\[[^\]]*\] )*)gimple_call <(.*)>(?: \[[\w ]+\])*\s*$")
_PLACE = re.compile(r"\[([^\[\]]*?):(\d+):\d+(?: discrim \d+)?\] ")
_NAME = re.compile(r"\w*D\.\d+")
_PARAMETER = re.compile(r"\b\w*D\.\d+(?=[,)])")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_VALUE = re.compile(
    r"NULL|[\w.$]*_\d+(?:\(D\))?|"
    r"-?(?:\d[\w.+-]*|Inf|\+?Q?Nan|N(?:an|AN)(?:\(.*\))?)|&.*|\{[-\d., e+]*\}|\"\"|<retval>"
)
_HIDDEN_RESULT = re.compile(r"\*_\d+\(D\)")


@dataclass
class Operands:
    """The functions that the compiler has instrumented, and the calls with accesses that it has not."""

    functions: set[str] = field(default_factory=set)
    unseen: list[tuple[str, int]] = field(default_factory=list)
    """Function that is called, and line (0: not the learner's)."""


def read(dump: str, filename: str) -> Operands:
    """Read the compiler's list of statements. A call that is not understood counts as one that is not recorded."""
    found, own = Operands(), set()
    for line in dump.split("\n"):
        if header := _HEADER.match(line):
            found.functions.add(header[1])
            own = set()
        elif "gimple_call <" in line:
            call = _CALL.match(_STRING.sub('""', line))
            places = [int(n) for f, n in _PLACE.findall(call[1]) if f == filename] if call else []
            callee, *operands = _split(_PLACE.sub("", call[2])) if call else [""]
            if not _is_recorded(callee, operands, own):
                found.unseen.append((_shown(callee), places[0] if places else 0))
        elif line.startswith("  ") and line.endswith(";"):
            own |= _declared(line)
        elif line and not line[0].isspace() and "(" in line:  # the function's own head
            own |= set(_PARAMETER.findall(line))
    return found


def refusal(operands: Operands) -> CompileError:
    """Why a kernel is not run."""
    function, line = operands.unseen[0]
    at = f"line {line}: " if line else ""
    return CompileError(
        f"{at}`{function}` takes or returns a struct that lies in memory, and nothing would record that access: copy "
        "the struct to a local variable before the call, and store its result in one",
        line or None,
    )


def _declared(line: str) -> set[str]:
    """The local variable that a line declares: `  struct OneD.4 ownD.5[2];`."""
    words = line[2:-1].split(" ")
    name = words[-1].split("[")[0]
    plain = len(words) > 1 and words[0] not in ("static", "extern") and not set("=(<") & set(line)
    return {name} if plain and _NAME.fullmatch(name) else set()


def _shown(callee: str) -> str:
    """A function's name without the compiler's number, and without the mangling of a clone."""
    shown = re.sub(r" ?D\.\d+$", "", callee)
    mangled = re.match(r"_Z(\d+)(\w+)", shown)
    return mangled[2][: int(mangled[1])] if mangled else shown


def _split(text: str) -> list[str]:
    """The function and its operands, at the commas outside of brackets; one empty text if brackets do not match."""
    text = re.sub(r"operator(<=>|<<=|>>=|<<|>>|<=|>=|->\*|->|<|>|,|\(\))", "operator", text).replace("->", "*")
    parts, depth, start = [], 0, 0
    for i, c in enumerate(text):
        depth += (c in "([{<") - (c in ")]}>")
        if depth < 0:
            break
        if c == "," and not depth:
            parts.append(text[start:i].strip())
            start = i + 1
    return [""] if depth else [*parts, text[start:].strip()]


def _is_recorded(callee: str, operands: list[str], own: set[str]) -> bool:
    """Does this call touch nothing but its function's own variables?"""
    if not operands:  # not understood: every call has a result, if only NULL
        return False
    if re.fullmatch(r"simt_collectiveD\.\d+", callee) and _NAME.fullmatch(operands[-1]):
        operands = operands[:-1]  # a function: no kernel can write this name
    result, *arguments = operands
    # The place of the caller's result, a class with a copy constructor: only the address is handed on, and whoever
    # constructs the object there is recorded. That pointer has no name, and every one of the source's has.
    hidden = _HIDDEN_RESULT.fullmatch(result)
    return bool(hidden or _is_own(result, own)) and all(_is_own(a, own) for a in arguments)


def _is_own(operand: str, own: set[str]) -> bool:
    """A number, an address, or a variable of the function, or a part of one."""
    if _VALUE.fullmatch(operand):
        return True
    variable = _NAME.match(operand)
    return bool(variable) and variable[0] in own
