"""What g++ does not record: structs in memory that a call takes or returns.

Its thread sanitizer puts callbacks before assignments. `*out = f(*in)` with structs is a call that reads and writes
memory by itself, and has none. The compiler's own list of statements, as they are when the callbacks have been put in,
says where such calls are left. A kernel that has one is built once more without calls (`build.FLAT`), and refused if
one is left even then: by recursion.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from .errors import CompileError

FLAG = "-fdump-tree-tsan-raw-lineno-uid="
"""g++ writes its statements to the file that follows."""

_HEADER = re.compile(r";; Function .*\((\S+), funcdef_no=")
_CALL = re.compile(r"\s*((?:\[[^\]]*\] )*)gimple_call <(.*)>(?: \[[\w ]+\])*\s*$")
_PLACE = re.compile(r"\[([^\[\]]*?):(\d+):\d+(?: discrim \d+)?\] ")
_LOCAL = re.compile(r"  (?!static |extern )[^=\[(<]*?(\w*D\.\d+)(?:\[\d*\])*;$")
_PARAMETER = re.compile(r"(\w*D\.\d+)(?=[,)])")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_VALUE = re.compile(
    r"NULL|[\w.$]*_\d+(?:\(D\))?|"
    r"-?(?:\d[\w.+-]*|Inf|\+?Q?Nan|N(?:an|AN)(?:\(.*\))?)|&.*|\{[-\d., e+]*\}|\"\"|<retval>"
)
_OURS = re.compile(r"_ZNK?4simt.*")


@dataclass
class Operands:
    """The functions that the compiler has instrumented, and the calls with accesses that it has not."""

    functions: set[str] = field(default_factory=set)
    unseen: list[tuple[str, int]] = field(default_factory=list)
    """Function that is called, and line (0: not the learner's)."""


def read(dump: str, filename: str) -> Operands:
    """Read the compiler's list of statements."""
    found, name, own = Operands(), "", set()
    for line in dump.split("\n"):
        if header := _HEADER.match(line):
            name, own = header[1], set()
            found.functions.add(name)
        elif local := _LOCAL.match(line):
            own.add(local[1])
        elif "gimple_call <" in line:
            if call := _CALL.match(_STRING.sub('""', line)):
                places = [int(n) for f, n in _PLACE.findall(call[1]) if f == filename]
                callee, *operands = _split(_PLACE.sub("", call[2]))
            else:
                places, callee, operands = [], "", ["?"]
            if re.fullmatch(r"simt_collectiveD\.\d+", callee) and re.fullmatch(r"\w+D\.\d+", operands[-1]):
                operands.pop()  # a function: no kernel can write this name
            if not _OURS.fullmatch(name) and not all(_is_own(o, own) for o in operands):
                shown = re.sub(r"D\.\d+$", "", callee)
                if mangled := re.match(r"_Z(\d+)(\w+)", shown):
                    shown = mangled[2][: int(mangled[1])]
                found.unseen.append((shown, places[0] if places else 0))
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


def _split(text: str) -> list[str]:
    """Operands, at the commas outside of brackets."""
    text = re.sub(r"operator(<=>|<<=|>>=|<<|>>|<=|>=|->\*|->|<|>|,|\(\))", "operator", text).replace("->", "*")
    parts, depth, start = [], 0, 0
    for i, c in enumerate(text):
        depth += (c in "([{<") - (c in ")]}>")
        if c == "," and not depth:
            parts.append(text[start:i].strip())
            start = i + 1
    return [*parts, text[start:].strip()]


def _is_own(operand: str, own: set[str]) -> bool:
    """A number, an address, or a variable of the function, or a part of one."""
    if _VALUE.fullmatch(operand):
        return True
    variable = re.match(r"\w*D\.\d+", operand)
    return bool(variable) and variable[0] in own
