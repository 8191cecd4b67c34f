"""A recorded run: which program touched what on which line."""

import inspect

import pytest

from labutils.check import accesses
from labutils.spec.exercise import Case, Contract, array, out
from labutils.spec.inputs import make_run, shared_bytes
from tests.labutils.check.small_exercises import small

triton = pytest.importorskip("triton")
import triton.language as tl  # noqa: E402

TOTAL = small(
    "total",
    "total",
    arguments={"x": array("n"), "out": out("k")},
    reference=lambda x: x.sum().reshape(1),
    contract=Contract(terms=lambda s: s["n"]),
    cases=(Case("n = 40", {"n": 40, "k": 1}),),
)


@triton.jit
def total_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    part = tl.sum(tl.load(x_ptr + offs, mask=offs < n, other=0.0))
    tl.atomic_add(out_ptr, part, sem="relaxed")
    tl.store(out_ptr, part, mask=n < 0)


def total(x, out):
    out.zero_()
    total_kernel[(2,)](x, out, x.numel(), 32)


def test_each_access_has_its_program_line_and_elements():
    seen = accesses.record(total, make_run(TOTAL, TOTAL.cases[0], 5, "cpu", shared_bytes), 60.0)
    lines, first = inspect.getsourcelines(total_kernel.fn)
    found = {(a.kind, a.array, a.program[0]): a for a in seen.accesses}
    load, added, stored = found["load", "x", 1], found["atomic", "out", 1], found["store", "out", 1]
    assert load.elements == tuple(range(32, 40)) and load.masked == tuple(range(40, 64))
    assert added.elements == (0,) and lines[added.line - first].strip().startswith("tl.atomic_add")
    assert stored.elements == () and stored.masked == (0,)
    assert seen.launches == [((2, 1, 1), None)]
