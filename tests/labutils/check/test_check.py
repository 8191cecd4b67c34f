"""Whatever a learner hands in: one clear sentence, 0.0 as a plain float, nothing on stderr, and the notebook lives."""

import os
import sys
from pathlib import Path

import pytest

import labutils as lab
import labutils.exercises  # noqa: F401  (registered before the fixture adds its own)
from labutils.backends import child
from labutils.check.check import NotWrittenYet, evaluate
from labutils.spec import exercise as exercises
from labutils.spec.exercise import Case, Contract, Cost, KernelExercise, PlainExercise, Points, array, out

triton = pytest.importorskip("triton")
import torch  # noqa: E402
import triton.language as tl  # noqa: E402

ADD = KernelExercise(
    id="99_test/add",
    title="Add two vectors",
    entry="add",
    points=Points(correct=2),
    arguments={"x": array("n"), "y": array("n"), "out": out("n")},
    reference=lambda x, y: x + y,
    magnitude=lambda x, y: x.abs() + y.abs(),
    contract=Contract(terms=1),
    cost=lambda sizes, item: Cost(2 * item * sizes["n"], item * sizes["n"], sizes["n"]),
    cases=(Case("n = 100", {"n": 100}, "position"), Case("n = 1025", {"n": 1025}, "position")),
    draw=lambda rng: {"n": rng.randrange(1, 3000)},
    tiny=Case("ten elements", {"n": 10}, "integers"),
)

BYTES = PlainExercise(
    id="99_test/add_bytes",
    title="Bytes of an addition",
    entry="add_bytes",
    points=Points(correct=1),
    cases=(Case("n = 8", {"n": 8, "item": 4}), Case("n = 5", {"n": 5, "item": 2})),
    reference=lambda n, item: 3 * n * item,
    explain=lambda sizes, yours, expected: "You left out the store." if yours == expected * 2 / 3 else None,
)


SORTED = PlainExercise(
    id="99_test/sorts",
    title="Sort a list",
    entry="sorts",
    points=Points(correct=1),
    cases=(Case("three", {"n": 3}), Case("nine", {"n": 9})),
    make=lambda n: {"values": list(range(n, 0, -1))},
    examine=lambda sizes, arguments, yours: (
        None if yours == sorted(arguments["values"]) else (f"not sorted: {yours}", "Use sorted.")
    ),
)


SOURCE = Path(__file__).read_text().splitlines()


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    for exercise in (ADD, BYTES, SORTED):
        monkeypatch.setitem(exercises._registry, exercise.id, exercise)


@pytest.fixture(autouse=True)
def silent(capfd):
    """Nothing may reach stderr, in any of these tests."""
    yield
    assert capfd.readouterr().err == ""


def report(capfd, exercise_id="99_test/add", fn=None):
    """What lab.check prints for a function that must earn nothing."""
    points = lab.check(exercise_id, fn)
    assert type(points) is float and points == 0.0
    return capfd.readouterr().out


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    tl.store(out_ptr + offs, tl.load(x_ptr + offs, mask=mask) + tl.load(y_ptr + offs, mask=mask), mask=mask)


def add(x, y, out):
    add_kernel[(triton.cdiv(x.numel(), 256),)](x, y, out, x.numel(), BLOCK=256)


def test_right_answer_earns_all_points(capfd):
    points = lab.check("99_test/add")
    assert type(points) is float and points == 2.0
    assert "2 of 2 points" in capfd.readouterr().out


# --- the call itself -----------------------------------------------------------------------------------------------


def test_unknown_exercise_is_suggested(capfd):
    said = report(capfd, "99_test/ad")
    assert said == "lab.check: no exercise is called '99_test/ad'; did you mean '99_test/add'?\n"


def test_function_in_place_of_the_id(capfd):
    assert "the first argument is the exercise's id, as text" in report(capfd, add)


def test_missing_function_suggests_one_of_similar_name(capfd):
    def check_with(add_bites):
        return lab.check("99_test/add_bytes")

    assert check_with(lambda n, item: 0) == 0.0
    said = capfd.readouterr().out
    assert "there is no function called add_bytes" in said and "Did you mean add_bites?" in said


def test_missing_function_suggests_one_of_the_same_arguments(capfd):
    exec("def total(n, item):\n    return 0\nlab.check('99_test/add_bytes')", {"lab": lab})
    assert "Did you mean total?" in capfd.readouterr().out


def launcher_without_out(x, y):
    return x + y


def launcher_with_block(x, y, out, block):
    add(x, y, out)


@pytest.mark.parametrize(
    "fn, sentence",
    [
        (launcher_without_out, "it is called with (x, y, out), but yours takes (x, y)"),
        (launcher_with_block, "it is called with (x, y, out), but yours takes (x, y, out, block)"),
        (add_kernel, "add is a kernel; the check needs the launcher that launches it"),
        ("add", "this is a str, not a function"),
    ],
)
def test_what_cannot_be_called(capfd, fn, sentence):
    assert sentence in report(capfd, fn=fn)


# --- launchers that fail -------------------------------------------------------------------------------------------


def returns_the_sum(x, y, out):
    result = torch.empty_like(x)
    add(x, y, result)
    return result


def computes_with_torch(x, y, out):
    out.copy_(x + y)


def moves_to_cuda(x, y, out):
    add(x.cuda(), y.cuda(), out.cuda())


def allocates_on_cuda(x, y, out):
    scratch = torch.empty(10, device="cuda")
    add(x, y, scratch)


def asks_in_a_forked_process(x, y, out):
    """What PyTorch says in this process if the notebook has asked for a GPU before."""
    raise RuntimeError("Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, …")


def divides_by_zero(x, y, out):
    return 1 / 0


def misspells(x, y, out):
    add_kernal[(1,)](x, y, out, x.numel(), BLOCK=256)  # noqa: F821


def never_ends(x, y, out):
    while True:
        pass


def swallows_everything(x, y, out):
    while True:
        try:
            while True:
                pass
        except BaseException:
            pass


def leaves(x, y, out):
    sys.exit(0)


def leaves_hard(x, y, out):
    os._exit(0)


def takes_all_memory(x, y, out):
    return torch.ones(2**36)


def grows(x, y, out):
    kept = []
    while True:
        kept.append(bytearray(2**26))


def recurses(x, y, out):
    return recurses(x, y, out)


def asks(x, y, out):
    return input("how many?")


def kills_itself(x, y, out):
    os.kill(os.getpid(), 11)


@pytest.mark.parametrize(
    "fn, kind, sentence, source",
    [
        (returns_the_sum, "returned", "your function returned a Tensor and left the output untouched", ""),
        (computes_with_torch, "no-kernel", "your function ran, but launched no kernel", ""),
        (moves_to_cuda, "error", "the code asks for a GPU, and there is none here", "add(x.cuda()"),
        (allocates_on_cuda, "error", "the code asks for a GPU, and there is none here", 'device="cuda"'),
        (asks_in_a_forked_process, "error", "the code asks for a GPU, and there is none here", "raise RuntimeError"),
        (divides_by_zero, "error", "ZeroDivisionError: division by zero", "return 1 / 0"),
        (misspells, "error", "NameError: name 'add_kernal' is not defined", "add_kernal[(1,)]"),
        (never_ends, "timeout", "the code did not come to an end", "while True:"),
        (swallows_everything, "timeout", "the code did not come to an end", ""),
        (leaves, "error", "the code called sys.exit()", "sys.exit(0)"),
        (leaves_hard, "died", "it ended itself with exit code 0, as os._exit does", ""),
        (takes_all_memory, "error", "the code asked for more memory than there is", "return torch.ones"),
        (grows, "error", "the code asked for more memory than there is", "kept.append"),
        (recurses, "error", "RecursionError: a function calls itself without end", "return recurses(x, y, out)"),
        (asks, "error", "input() waits for somebody to type", "return input"),
        (kills_itself, "died", "a wild memory access (SIGSEGV)", ""),
    ],
)
def test_launcher_that_fails(monkeypatch, fn, kind, sentence, source):
    monkeypatch.setattr(child, "MEMORY_LIMIT", 2**28)
    verdict = evaluate(ADD, fn, time_limit=1)
    assert verdict.headline.kind == kind
    assert sentence in verdict.headline.symptom
    assert source in verdict.headline.symptom
    if source:
        first = fn.__code__.co_firstlineno
        line = int(verdict.headline.symptom.split("(line ")[1].split(":")[0])
        assert first < line <= first + 8 and source.split("(")[0] in SOURCE[line - 1]
    assert verdict.marks == 0.0


def chatters(x, y, out):
    for i in range(100_000):
        print("line", i)
    print("to stderr", file=sys.stderr)
    os.write(2, b"straight to the descriptor\n")
    add(x, y, out)


def test_printing_a_lot_is_cut(capfd):
    assert lab.check("99_test/add", chatters) == 2.0
    said = capfd.readouterr().out
    assert "Your code printed:\nline 0\nline 1\n" in said and said.count("(more was printed)") == 1
    assert len(said) < 4000


# --- kernels that fail ---------------------------------------------------------------------------------------------


@triton.jit
def endless_kernel(x_ptr, out_ptr, n):
    i = 0
    while i < n:
        tl.store(out_ptr, i)


@triton.jit
def wild_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    tl.store(out_ptr + 1_000_000_000_000 + offs, tl.load(x_ptr + offs))


@triton.jit
def undefined_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    tl.store(out_ptr + offs, value, mask=offs < n)  # noqa: F821


@triton.jit
def hundred_kernel(x_ptr, out_ptr, n):
    offs = tl.arange(0, 100)
    tl.store(out_ptr + offs, tl.load(x_ptr + offs))


@triton.jit
def counting_kernel(x_ptr, out_ptr, n):
    for i in range(10):
        if i == 5:
            break
    tl.store(out_ptr + tl.program_id(0), i)


@triton.jit
def recursive(x):
    return recursive(x + 1)


@triton.jit
def recursive_kernel(x_ptr, out_ptr, n):
    tl.store(out_ptr, recursive(tl.load(x_ptr)))


@triton.jit
def empty_kernel(x_ptr, out_ptr, n):
    pass


@triton.jit
def negated(x):
    return tl.inline_asm_elementwise("neg.f32 $0, $1;", "=f,f", [x], tl.float32, True, 1)


@triton.jit
def returning_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, BLOCK), mask=tl.arange(0, BLOCK) < n)
    return x * 2


@triton.jit
def either_kernel(x_ptr, out_ptr, n):
    offs = tl.arange(0, 8)
    x = tl.load(x_ptr + offs, mask=offs < n)
    x = x if x > 0 else -x
    tl.store(out_ptr + offs, x, mask=offs < n)


@triton.jit
def ptx_kernel(x_ptr, out_ptr, n):
    tl.store(out_ptr, negated(tl.load(x_ptr)))


def launch(kernel, grid=(1,), **constants):
    def launcher(x, y, out):
        kernel[grid](x, out, x.numel(), **constants)

    return launcher


@pytest.mark.parametrize(
    "fn, kind, sentence, source",
    [
        (launch(endless_kernel), "timeout", "the code did not come to an end", ("while i < n", "tl.store(out_ptr, i)")),
        (launch(wild_kernel, BLOCK=16), "out-of-bounds", "outside the array", "tl.store(out_ptr + 1_000_000"),
        (launch(undefined_kernel, BLOCK=128), "does-not-compile", "value is not defined", "tl.store(out_ptr + offs, v"),
        (launch(hundred_kernel), "does-not-compile", "arange's range must be a power of 2", "offs = tl.arange(0, 100)"),
        (launch(counting_kernel, (100,)), "does-not-compile", "unsupported AST node type: Break", "break"),
        (launch(recursive_kernel), "does-not-compile", "recursive calls itself", "return recursive(x + 1)"),
        (launch(returning_kernel, BLOCK=128), "does-not-compile", "this one returns a value", "return x * 2"),
        (launch(either_kernel), "does-not-compile", "this condition is a block", "x = x if x > 0 else -x"),
        (launch(ptx_kernel), "needs-gpu", "runs on an NVIDIA GPU only", "return tl.inline_asm_elementwise("),
        (launch(empty_kernel, (2**31 - 1,)), "timeout", "of 2147483647 programs were begun", ""),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_kernel_that_fails(fn, kind, sentence, source):
    """`source`: the line that is named; several where time may run out in any of them."""
    verdict = evaluate(ADD, fn, time_limit=1.5)
    assert (verdict.headline.kind, verdict.marks) == (kind, 0.0)
    assert sentence in verdict.headline.symptom
    assert "\n" not in verdict.headline.symptom
    if source:
        line = int(verdict.headline.symptom.split("(line ")[1].split(":")[0])
        possible = [source] if isinstance(source, str) else source
        assert any(s in SOURCE[line - 1] and s in verdict.headline.symptom for s in possible)


# --- stubs ---------------------------------------------------------------------------------------------------------


@triton.jit
def stub_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    tl.static_assert(False, "stub_kernel is not written yet")


def launches_stub(x, y, out):
    stub_kernel[(1,)](x, y, out, x.numel(), BLOCK=256)


def plain_stub(n, item):
    raise NotImplementedError("add_bytes is not written yet")


@pytest.mark.parametrize(
    "exercise_id, fn, name",
    [("99_test/add", launches_stub, "stub_kernel"), ("99_test/add_bytes", plain_stub, "add_bytes")],
)
def test_unfilled_exercise_stops_the_notebook_with_our_message(exercise_id, fn, name):
    with pytest.raises(NotWrittenYet, match=f"{name} is not written yet") as caught:
        lab.check(exercise_id, fn)
    (message,) = caught.value._render_traceback_()
    assert "0 of " in message and "Traceback" not in message


# --- tiny ----------------------------------------------------------------------------------------------------------


def test_tiny_shows_yours_beside_expected(capfd):
    lab.tiny("99_test/add")
    lines = capfd.readouterr().out.splitlines()
    assert [line.strip().split("  ")[0] for line in lines] == ["x", "y", "out (yours)", "out (expected)"]
    assert lines[2].split()[2:] == lines[3].split()[2:]


@pytest.mark.parametrize("bad", ["99_test/ad", "99_test/add_bytes"])
def test_tiny_of_what_has_no_kernel_says_so(capfd, bad):
    lab.tiny(bad)
    assert capfd.readouterr().out.startswith("lab.tiny: ")
