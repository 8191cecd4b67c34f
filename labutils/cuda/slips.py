"""Common slips in CUDA C++: what to try where NVIDIA's compiler names the consequence and not the cause.

Each entry is a pattern in the message, optionally one in the learner's line, and what to say.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Slip:
    """`message` and `line` are patterns; groups of `message` fill the sentence and the advice as {0}, {1}. An empty
    sentence leaves the message as it is."""

    message: str
    sentence: str
    advice: str
    line: str = ""

    def said_of(self, message: str, line: str) -> tuple[str, str] | None:
        """The sentence and the advice, if this is the slip behind a message about a line."""
        found = re.search(self.message, message, re.IGNORECASE)
        if not found or (self.line and not re.search(self.line, line)):
            return None
        if not found.groups():  # braces are C++ then
            return self.sentence, self.advice
        return self.sentence.format(*found.groups()), self.advice.format(*found.groups())


CUDA = (
    Slip(
        r'expected an? "?\("?',
        "",
        "C++ has the condition in parentheses, and no colon: if (i < n) { … }; for (int i = 0; i < n; i++) { … }.",
        line=r"^(?:else )?(?:if|while|for)\b\s*(?!\()",
    ),
    Slip(
        r'a value of type "[^"]*\*[^"]*" cannot be (?:assigned to|used to initialize) an entity of type "float"',
        "",
        "A pointer stands where a number belongs: it lacks its index, as in x[i].",
    ),
    Slip(
        r'a value of type "float" cannot be (?:assigned to|used to initialize) an entity of type "(?:const )?float \*',
        "",
        "A number is assigned to the pointer itself: index it, as in out[i] = ….",
    ),
    Slip(
        r'expected a "?}',
        "",
        "A brace { is never closed: count the braces, and close each block that if, for or the kernel opens.",
    ),
    Slip(
        r'expected a "?[;)]', "", "Look at that place and at the end of the line before: a ; or a bracket is missing."
    ),
    Slip(
        r"must have integral or unscoped enum type",
        "",
        "An index must be an integer: declare it as int, not as float. Between integers / is an integer division.",
        line=r"\[",
    ),
    Slip(
        r'no operator "[^"]+" matches',
        "",
        "blockIdx, blockDim, threadIdx and gridDim have components: write blockIdx.x, or .y and .z.",
        line=r"\b(?:blockIdx|blockDim|threadIdx|gridDim)\b(?!\s*\.)",
    ),
    Slip(
        "return value type does not match the function type",
        "",
        "A kernel is void and returns nothing: store the result, as in out[i] = …;.",
    ),
    Slip(
        r'operand of "\*" must be a pointer',
        "",
        "C++ has no power operator **: multiply, x * x, or call powf(x, y).",
        line=r"\*\*",
    ),
    Slip(
        "a directive can only stand on a line of its own",
        "",
        "A comment of C++ begins with //, not with #.",
    ),
    Slip(
        "expression must have a constant value",
        "",
        "The size of an array must be known when the kernel is compiled: a number or a constexpr int.",
        line=r"\[",
    ),
    Slip('has no member "(?:cout|cerr|endl)"', "", 'Print with printf("%d\\n", i); there are no streams in a kernel.'),
    Slip(
        r'identifier "(True|False|None)" is undefined',
        "",
        "That is Python's: C++ has true, false and nullptr.",
    ),
    Slip(
        r'identifier "(\w+)" is undefined',
        "",
        "{0} has no type yet: where it is assigned first, write int {0} = … or float {0} = ….",
        line=r"^\w+\s*=(?!=)",
    ),
    Slip(r'identifier "(\w+)" is undefined', "", "Declare {0} before it is used, or correct its name."),
    Slip(
        "expression must have pointer-to-object type",
        "",
        "Only arrays and pointers take [ ]: the name before the bracket is a single number.",
    ),
    Slip(
        "expression must be a modifiable lvalue",
        "",
        "What stands left of = cannot be assigned: a const array, or an expression.",
    ),
    Slip("expression must have arithmetic", "", "One side of that operator is a pointer: index it, as in x[i]."),
)

BUILT_IN = (
    "threadIdx", "blockIdx", "blockDim", "gridDim", "warpSize", "__syncthreads", "__syncwarp", "__shfl_down_sync",
    "__shfl_xor_sync", "__shfl_sync", "__ballot_sync", "__ldg", "atomicAdd", "atomicMax", "expf", "sqrtf", "fmaxf",
    "fminf", "tanhf", "rsqrtf", "INFINITY",
)  # fmt: skip
"""Names of CUDA C++ that are often spelled nearly right."""

_FIRST = re.compile(r"^line (\d+): (.*)$")


def advice(text: str) -> str:
    """What to try for the first error of a compiler's messages in the form "line 7: …", the line and a caret below it;
    "" where nothing is known."""
    lines = text.splitlines()
    first = next((k for k, line in enumerate(lines) if _FIRST.match(line)), None)
    if first is None:
        return _of(text, "")
    number, message = _FIRST.match(lines[first]).groups()
    carets = [k for k in range(first + 1, len(lines)) if lines[k].strip() == "^"][:1]
    source = lines[carets[0] - 1] if carets else ""
    if carets and re.match(r'expected a "?;', message) and not source[: lines[carets[0]].index("^")].strip():
        return f"The ; is missing before line {number}: at the end of the statement above it."
    return _of(message, source.strip())


def _of(message: str, source: str) -> str:
    if m := re.match(r'identifier "(\w+)" is undefined', message):
        near = {n.lower(): n for n in BUILT_IN}
        if found := difflib.get_close_matches(m[1].lower(), near, n=1, cutoff=0.8):
            return f"Did you mean {near[found[0]]}?"
    for slip in CUDA:
        if said := slip.said_of(message, source):
            return said[1]
    return ""
