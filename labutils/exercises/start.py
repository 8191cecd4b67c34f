"""Unit 00: the first exercises, small enough to learn how the course works."""

from dataclasses import replace

from ..spec.exercise import (
    Case,
    Contract,
    Cost,
    KernelExercise,
    KnownMistake,
    Number,
    PlainExercise,
    Points,
    array,
    out,
    register,
)
from ._cases import draw_vector, vector_cases


def _programs(n: int, block: int) -> int:
    return -(-n // block)


def _explain_programs(sizes, yours, expected) -> str | None:
    n, block = sizes["n"], sizes["block"]
    if yours == n / block and yours != n // block:
        return f"{n} / {block} is not an integer: a partly filled block still needs a program. Round up."
    if yours == n // block:
        return f"{n} // {block} rounds down: the last {n % block} elements have no program. Round up."
    if yours == n // block + 1:
        return f"{block} divides {n}, so the last block is full: the extra program has no elements."
    if yours == round(n / block):
        return "Rounding to nearest drops the last block when it is less than half full. Always round up."
    if yours == n:
        return "That is one program per element. Each program processes a whole block."
    if yours == block:
        return "That is the number of elements in a block. How many blocks cover all n elements?"
    return None


register(
    PlainExercise(
        id="00_start/number_of_programs",
        title="How many programs cover n elements?",
        entry="number_of_programs",
        points=Points(correct=1),
        reference=_programs,
        rtol=0.0,
        explain=_explain_programs,
        cases=(
            Case("one element, blocks of 4", {"n": 1, "block": 4}),
            Case("one short of a block", {"n": 1023, "block": 1024}),
            Case("exactly one block", {"n": 1024, "block": 1024}),
            Case("one more than a block", {"n": 1025, "block": 1024}),
            Case("last block partly full", {"n": 2500, "block": 1024}),
            Case("exactly three blocks", {"n": 3072, "block": 1024}),
            Case("no elements, no programs", {"n": 0, "block": 1024}),
            Case("2^40 + 1 elements, too many for fp32 precision", {"n": 2**40 + 1, "block": 128}),
        ),
        draw=lambda rng: {"n": rng.randrange(1, 10**6), "block": 2 ** rng.randrange(5, 12)},
    )
)


SCALE = register(
    KernelExercise(
        id="00_start/scale",
        title="Scale a vector",
        entry="scale",
        points=Points(correct=2),
        # never 1: a kernel that ignores the factor must fail
        arguments={"x": array("n"), "factor": Number(low=1.25, high=3.75), "out": out("n")},
        reference=lambda x, factor: factor * x,
        magnitude=lambda x, factor: abs(factor) * x.abs(),
        contract=Contract(terms=1),
        cost=lambda sizes, item: Cost(item * sizes["n"], item * sizes["n"], sizes["n"]),
        cases=vector_cases(exact=True),
        draw=draw_vector,
        tiny=Case("ten elements", {"n": 10}, "integers"),
        bench={"n": 2**27},
        library=lambda x, factor: x * factor,
        known_mistakes=(
            KnownMistake("wrong-formula", "{name} is a copy of x: the factor is not used", lambda x, factor: x),
            KnownMistake("wrong-formula", "{name} is x + factor, not factor times x", lambda x, factor: x + factor),
            KnownMistake("wrong-formula", "{name} is x divided by factor", lambda x, factor: x / factor),
        ),
    )
)


register(
    replace(
        SCALE,
        id="00_start/scale_cuda",
        title="Scale a vector, in CUDA C++",
        entry="scale_cuda",
        points=Points(correct=1),
        cases=vector_cases(exact=True, half=False),
        language="cuda",
    )
)
