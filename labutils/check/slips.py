"""Messages of compilers and of Python that say less than the mistake is simple: a sentence and advice of our own.

Each entry is a pattern in the message, optionally one in the learner's line, and what to say. Whatever is not listed
keeps the compiler's own words.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass

NO_POINTER_INDEX = (
    "a pointer is no array in Triton, it has no [ ]",
    "Load with tl.load(x_ptr + offs, mask=mask), store with tl.store(out_ptr + offs, value, mask=mask).",
)


@dataclass(frozen=True)
class Slip:
    """`message` and `line` are patterns; groups of `message` fill the sentence and the advice as {0}, {1}."""

    message: str
    sentence: str
    advice: str
    line: str = ""


SLIPS = (
    Slip("did you forget to add @triton.jit", *NO_POINTER_INDEX, line=r"\w+\s*\[[^\]]*\]"),
    Slip(r"__(?:set|get)item__ is not supported", *NO_POINTER_INDEX),
    Slip("unsupported tensor index", *NO_POINTER_INDEX, line=r"_ptr\w*\s*\["),
    Slip(r"'(?:pointer_type|tensor)' object is not subscriptable", *NO_POINTER_INDEX),
    Slip(
        "'function' object is not subscriptable",
        "what is launched is a plain Python function: the decorator @triton.jit is missing above its def",
        "Put @triton.jit on the line above the kernel's def, run its cell, then check again.",
    ),
    *(
        Slip(
            "",
            f"tl.{name}(a, b) of two tensors: tl.{name} reduces one tensor along an axis",
            f"For the {what} of two tensors, element by element, use tl.{name}imum(a, b).",
            line=rf"\btl\.{name}\((?:[^(),]|\([^()]*(?:\([^()]*\)[^()]*)*\))+,(?!\s*(?:-?\d+\s*[,)]|[A-Z_]+\s*[,)]|axis\b|None\b|keep_dims\b|return_))",
        )
        for name, what in (("max", "larger"), ("min", "smaller"))
    ),
    Slip(
        "did you forget to add @triton.jit",
        "a function of tl runs outside of a kernel",
        "Put @triton.jit above every function that uses tl, also above helpers that a kernel calls.",
    ),
    Slip(
        "__r?pow__",
        "Triton has no power operator **",
        "Multiply: x**3 is x * x * x. For other exponents use tl.exp and tl.log.",
    ),
    Slip(
        r"unsupported function referenced: <built-in method (\w+) of type",
        "a kernel cannot call torch.{0}: PyTorch runs on the host, not in a kernel",
        "Use Triton's own function, tl.{0} if there is one.",
    ),
    Slip(
        r"unsupported function referenced: <(?:ufunc|built-in function|function) '?(\w+)",
        "a kernel cannot call {0}: only functions of tl and functions under @triton.jit",
        "Use Triton's own function, tl.{0} if there is one.",
    ),
    Slip(
        "cannot add pointers together",
        "two pointers are added: that adds addresses, not the numbers behind them",
        "Load both first: x = tl.load(x_ptr + offs, mask=mask), and the same for the other.",
    ),
    Slip(
        r"cannot cast pointer<",
        "what is stored is a pointer, an address, and not a number",
        "Load first: tl.load(pointer, mask=mask) gives the numbers.",
    ),
    Slip(
        r"(?:value|mask|other) argument cannot be block type if pointer argument is not a block",
        "a block of values meets a single address: the pointer has no offsets",
        "Add the offsets to the pointer, as in out_ptr + offs: a block of values needs a block of addresses.",
    ),
    Slip(
        r"unsupported ptr type",
        "the first argument of tl.load or tl.store is no pointer",
        "The order is tl.load(pointer, mask=…) and tl.store(pointer, value, mask=…).",
    ),
    Slip(
        "boolean value of tensor with more than one value is ambiguous",
        "`if` and `while` need one number, and this condition is a block of them",
        "Pass the condition as mask=… to the load and the store, or choose values with tl.where.",
    ),
    Slip(
        r"(?:shape element \d+ must be a power of 2|range must be a power of 2)",
        "",
        "Take the next power of two, and mask the lanes beyond the data.",
    ),
    Slip(
        "arange's arguments must be of type tl.constexpr",
        "tl.arange needs sizes that are known when the kernel is compiled",
        "Use a constant such as BLOCK (a tl.constexpr argument), and mask with offs < n.",
    ),
    Slip(
        r"unsupported ast node type: (?:break|continue)",
        "",
        "Triton's loops have no break and no continue: compute where the loop ends beforehand, or mask the work.",
    ),
    Slip(
        "has no len",
        "len() does not work on a tensor in a kernel",
        "Pass the size as an argument of the kernel, or use the constant BLOCK.",
    ),
    Slip(
        "is not string",
        "print in a kernel needs a text first, or tl.device_print",
        'Write tl.device_print("offs", offs), or leave the line out.',
        line=r"\bprint\(",
    ),
    Slip(
        r"(?:float|int)\(\) argument must be",
        "float() and int() do not convert tensors in a kernel",
        "Convert with x.to(tl.float32) or x.to(tl.int32).",
    ),
    Slip(
        r"invalid axis (-?\d+)\. expected .* < (\d+)",
        "there is no axis {0}: the tensor has {1} (axes count from 0)",
        "A sum over a block of one axis is axis=0; over the columns of a tile [:, None], [None, :] it is axis=1.",
    ),
    Slip(
        r"incompatible dimensions at index (\d+): (\d+) and (\d+)",
        "two tensors are combined whose sizes along axis {0} are {1} and {2}",
        "Give each one the axis that it runs along: rows are [:, None], columns [None, :].",
    ),
    Slip(
        r"cannot access global variable (\w+)",
        "a kernel cannot read the global variable {0}",
        "Pass {0} as an argument, or define it as {0} = tl.constexpr(…).",
    ),
    Slip(
        r"(?:missing|too many|takes) .*positional argument",
        "",
        "Compare the call on that line with the function's parameters, one by one.",
    ),
    # --- CUDA C++ -----------------------------------------------------------------------------------------------
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
    Slip(r'expected a "?[;)}]', "", "Look at the end of the line before: a ; or a bracket is missing there."),
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

HEAD = re.compile(r"^(.*?does not compile(?: for sm_\w+)?): (.*)$", re.DOTALL)

GENERAL = {
    "triton": "Correct the line that is named. A GPU's compiler wants constant shapes, powers of two in tl.arange, and "
    "Triton's own functions.",
    "cuda": "Correct the first line that is named: errors below it often follow from it.",
}

HOW_TANH = "tanh(a) is 2 * tl.sigmoid(2 * a) - 1."


def explained(message: str, source: str) -> tuple[str, str | None]:
    """The message with our sentence in place of the compiler's, where one is known; and the advice, or None."""
    head, text = m.groups() if (m := HEAD.match(message)) else ("", message)
    for slip in SLIPS:
        found = re.search(slip.message, text, re.IGNORECASE)
        if found and (not slip.line or re.search(slip.line, source)):
            sentence = slip.sentence.format(*found.groups()) or cleaned(text)
            return (f"{head}: {sentence}" if head else sentence), slip.advice.format(*found.groups())
    if m := re.search(r"module 'triton\.language(?:\.\w+)*' has no attribute '(\w+)'", text):
        return _no_such_function(head, m[1])
    clean = cleaned(text)
    return (f"{head}: {clean}" if head else clean), None


def _no_such_function(head: str, name: str) -> tuple[str, str]:
    near = []
    try:
        import triton.language as tl

        near = difflib.get_close_matches(name, [n for n in dir(tl) if n.islower()], n=1, cutoff=0.75)
    except ImportError:
        pass
    advice = HOW_TANH if name == "tanh" else "Build it from tl.exp, tl.log, tl.sqrt and arithmetic."
    if near:
        advice = f"Did you mean tl.{near[0]}?"
    sentence = f"Triton has no function tl.{name}"
    return (f"{head}: {sentence}" if head else sentence), advice


def cleaned(text: str) -> str:
    """A message without the wrapping that only its authors need."""
    text = re.sub(r"^(?:\w*Error|NotImplementedError)\((['\"])(.*)\1\)$", r"\2", text.strip())
    text = re.sub(r"\bconstexpr\[(\d+)\]", r"\1", text)
    text = re.sub(r"<\['(\d+)'\], (\w+)>", r"a block of \1 \2", text)
    return re.sub(r"\s*\(`_semantic` argument must be provided outside of JIT functions\.?\)", "", text)
