"""Messages of compilers and of Python that say less than the mistake is simple: a sentence and advice of our own.

Those of NVIDIA's compiler are in labutils/cuda/slips.py, where a cell's own error message has them too. Whatever is not
listed keeps the compiler's own words.
"""

from __future__ import annotations

import difflib
import re

from ..cuda.slips import CUDA, Slip

NO_POINTER_INDEX = (
    "a pointer is no array in Triton, it has no [ ]",
    "Load with tl.load(x_ptr + offs, mask=mask), store with tl.store(out_ptr + offs, value, mask=mask).",
)


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
        r"'\w+' object has no attribute 'func'|only `range` and `static_range` iterators",
        "a loop in a kernel runs over range(…) or tl.static_range(…), not over a block of numbers",
        "A block is worked on at once: tl.load(x_ptr + offs, mask=mask) loads all its elements, without a loop.",
        line=r"^for\b",
    ),
    Slip(
        r"for (?:lower bound|upper bound|step) must be a scalar|'tensor' object cannot be interpreted as an integer",
        "range(…) takes single numbers, and here it gets a tensor",
        "A block of offsets is tl.arange(0, BLOCK), and it is worked on at once: most kernels need no loop over it.",
        line=r"\brange\(",
    ),
    Slip(
        "for loop bounds and step must all be ints",
        "a bound of range(…) is a float: / gives a float, also for two integers",
        "Divide by //, or round up by tl.cdiv(n, BLOCK).",
    ),
    Slip(
        "arange's arguments must be of type tl.constexpr",
        "tl.arange gets a float: / gives a float, also for two integers",
        "Divide by //: BLOCK // 2 is an integer.",
        line=r"arange\(.*(?<!/)/(?!/)",
    ),
    Slip(
        r"unexpected type (?:fp|bf)\d+",
        "// and % take integers, and one of these numbers is a float: / gives a float, also for two integers",
        "Divide by // (or tl.cdiv(n, BLOCK), which rounds up) wherever the result is an index or a count of blocks.",
        line=r"//|%",
    ),
    Slip(
        r"invalid operands of type (?:pointer<\w+> and triton\.language\.(?:float|bfloat)|"
        r"triton\.language\.(?:float|bfloat)\d+ and pointer<)",
        "a float is added to a pointer: an offset must be an integer",
        "If it is an offset: / gives a float, also for two integers, so divide by //. If it is a value: it does not "
        "belong to an address; store it by tl.store(out_ptr + offs, value, mask=mask).",
    ),
    Slip(
        "invalid operands of type (?:pointer<.* and|.* and pointer<)",
        "a pointer is an address: only integers can be added to it or taken from it",
        "Compute with what was loaded: x = tl.load(x_ptr + offs, mask=mask), then for example 2 * x.",
    ),
    Slip(
        r"invalid operands of type triton\.language\.\w+ and triton\.language\.\w+",
        "that operator takes integers or booleans, and here it gets floats",
        "Compare first, as in (a < b) & (c < d), each in parentheses; << and >> take integers.",
        line=r"<<|>>|[&|^~]",
    ),
    Slip(
        "simultaneous multiple comparison",
        "a chain of comparisons, a <= b < c, does not compile",
        "Write both: (a <= b) & (b < c), each in parentheses.",
    ),
    Slip(
        "returns a value",
        "",
        "Store the result: tl.store(out_ptr + offs, value, mask=mask). A kernel returns nothing; only functions that a "
        "kernel calls do.",
    ),
    Slip(
        r"loop-carried variable (\w+) has initial type (.+) but is re-assigned to (.+?) in loop",
        "{0} is {1} before the loop and {2} in it: a loop keeps the type and the shape of its variables",
        "Begin with what the loop makes of it: a float such as 0.0, or a block, tl.zeros((BLOCK,), tl.float32).",
    ),
    Slip(
        r"mismatched type for (\w+) between then block \((.+)\) and else block \((.+)\)",
        "{0} is {1} after if, and {2} after else: both must have the same type and shape",
        "Choose with tl.where(condition, a, b), or make both alike.",
    ),
    Slip(
        "'int' object is not iterable",
        "a shape is a tuple, and here it is a single number",
        "Write (BLOCK,), with the comma: tl.zeros((BLOCK,), tl.float32).",
        line=r"\btl\.(?:zeros|full)\(",
    ),
    Slip(
        "missing a required argument: 'dtype'",
        "",
        "tl.zeros and tl.full need a type: tl.zeros((BLOCK,), tl.float32).",
    ),
    Slip(
        r"Both operands must be same dtype\. Got (\w+) and (\w+)",
        "tl.dot takes two tiles of one type, but {0} and {1} meet here",
        "Convert one of them, as in a.to(b.dtype). What else is computed from it keeps its own type.",
    ),
    Slip(
        r"Triton requires value\.shape == desc\.block_shape: .* = (\(.*\)), .* = (\(.*\))",
        "the tile that is stored has the shape {0}, but the descriptor has tiles of {1} elements",
        "Give it the descriptor's shape by .reshape(…), also the axes of length 1.",
    ),
    Slip(
        "must be real number, not tensor",
        "functions of math work on Python's numbers, not on tensors in a kernel",
        "Use Triton's own function: tl.exp(x) in place of math.exp(x).",
    ),
    Slip(
        r"unsupported ast node type: (Import\w*|Try|Lambda|With|Raise|Assert|Yield|Dict\w*|Set\w*|Global)",
        "a kernel cannot contain this statement of Python",
        "A kernel takes assignments, arithmetic, if, for over range, while, and calls of tl's functions. All else "
        "belongs in the cell above it or in the launcher.",
    ),
    Slip(
        "only tuple comprehensions are supported",
        "lists do not exist in a kernel",
        "Work on a block, a tensor of BLOCK elements, in place of a list.",
    ),
    Slip(
        "expected dtype .*fp32.* but got u?int",
        "that function takes floats, and here it gets integers",
        "Convert first: x.to(tl.float32).",
    ),
    Slip(
        "'torch.dtype' object has no attribute",
        "a kernel takes Triton's types, not PyTorch's",
        "Write tl.float32 in place of torch.float32.",
    ),
    Slip(
        "mask must have boolean scalar type",
        "the mask is a number, not a condition",
        "Compare: mask = offs < n.",
    ),
    Slip(
        "unsupported tensor index",
        "a block has no single elements: [ ] in a kernel only adds axes, as in x[:, None]",
        "Work on the whole block. One number of it is a reduction: tl.sum, tl.max, or tl.load of its own address.",
    ),
    Slip(
        "cannot evaluate f-string",
        "an f-string cannot show what a kernel computes",
        'Write tl.device_print("pid", pid), or leave the line out.',
    ),
    Slip(
        "'int' object is not callable|list index out of range|has no attribute '(?:size|stride|numel|dim)'",
        "a kernel gets the address of an array, without its shape or strides",
        "Pass sizes and strides as arguments: the kernel's parameters name those that there are.",
        line=r"_ptr\.(?:shape|numel|size|stride|dim)\b",
    ),
    Slip(
        r"missing 1 required positional argument: 'axis'|'function' object has no attribute '[xyz]'",
        "tl.program_id takes the axis of the grid",
        "Write tl.program_id(0); the second axis of the grid is tl.program_id(1).",
        line=r"program_id",
    ),
    Slip(
        r"arange\(\) missing 1 required positional argument",
        "tl.arange takes the first number and the one behind the last",
        "Write tl.arange(0, BLOCK).",
    ),
    Slip(
        r"(\w+)\(\) got an unexpected keyword argument '(\w+)'",
        "{0} has no argument {1}",
        "Those of tl.load are pointer, mask and other; those of tl.store are pointer, value and mask.",
        line=r"\btl\.(?:load|store)\(",
    ),
    Slip(
        r"'tensor' object has no attribute '(\w+)'",
        "a tensor in a kernel has no method {0}",
        "Use operators (+, −, *, /) and tl's functions, such as tl.sum(x, axis=0); x.to(dtype) converts.",
        line=r"\.\w+\(",
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
        "boolean value of tensor with more than one value is ambiguous|'scf.if' op operand #0 must be 1-bit",
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
    *CUDA,
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
    text = cleaned(text)
    for slip in SLIPS:
        if said := slip.said_of(text, source):
            sentence = said[0] or text
            return (f"{head}: {sentence}" if head else sentence), said[1]
    if m := re.search(r"module 'triton\.language(?:\.\w+)*' has no attribute '(\w+)'", text):
        return _no_such_function(head, m[1])
    return (f"{head}: {text}" if head else text), None


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
