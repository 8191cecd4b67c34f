"""Kernels that are right and slow: every program does the whole work, or one element at a time."""

import importlib
from dataclasses import replace
from types import SimpleNamespace

import pytest

from labutils.check import slowness
from labutils.spec.exercise import Case
from labutils.spec.verdict import Diagnosis
from tests.labutils.check.small_exercises import SCALE

triton = pytest.importorskip("triton")
import triton.language as tl  # noqa: E402

evaluate = importlib.import_module("labutils.check.evaluate").evaluate

LARGE = replace(SCALE, cases=(*SCALE.cases, Case("n = 200000", {"n": 200_000}, "position")))
LIMIT = 1.0


@triton.jit
def kernel(x_ptr, out_ptr, factor, n, what: tl.constexpr, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    if what == "whole":
        for i in range(0, n, BLOCK):
            offs = i + tl.arange(0, BLOCK)
            tl.store(out_ptr + offs, tl.load(x_ptr + offs, mask=offs < n) * factor, mask=offs < n)
    elif what == "halves":  # two programs for each part
        offs = pid // 2 * 2 * BLOCK + tl.arange(0, 2 * BLOCK)
        tl.store(out_ptr + offs, tl.load(x_ptr + offs, mask=offs < n) * factor, mask=offs < n)
    elif what == "one by one":
        for i in range(pid * BLOCK, min(n, pid * BLOCK + BLOCK)):
            tl.store(out_ptr + i, tl.load(x_ptr + i) * factor)
    else:
        offs = pid * BLOCK + tl.arange(0, BLOCK)
        tl.store(out_ptr + offs, tl.load(x_ptr + offs, mask=offs < n) * factor, mask=offs < n)
        while (what == "endless") & (n > 10_000):
            tl.store(out_ptr, tl.load(out_ptr))


def launcher(what, block=128):
    def scale(x, factor, out):
        n = x.numel()
        kernel[(2 * triton.cdiv(n, 2 * block),)](x, out, factor, n, what, block)

    return scale


@pytest.mark.parametrize(
    "what, symptom, advice",
    [
        (
            "whole",
            "not endless: every program does the whole work, each of the 8 programs stores all of out",
            "must contain tl.program_id",
        ),
        ("one by one", "not endless: each program stores one element of out at a time, up to 128", "block at once"),
        ("endless", "the kernel is slow, or a loop has no end at this size (line", "can its condition stay true"),
    ],
)
def test_a_kernel_that_runs_out_of_time_in_the_large_case(what, symptom, advice):
    verdict = evaluate(LARGE, launcher(what), time_limit=LIMIT, explain=True)
    assert (verdict.headline.kind, verdict.marks) == ("timeout", 0.0)
    assert symptom in verdict.headline.symptom and 'the case "n = 200000" was stopped' in verdict.headline.symptom
    assert advice in verdict.headline.advice


@pytest.mark.parametrize(
    "what, notes",
    [
        ("whole", ["Right, but slow: every program does the whole work, each of the 8 programs stores all of out"]),
        ("halves", ["Right, but slow: each element of out is stored by 2 or more of 8 programs"]),
        ("right", []),
    ],
)
def test_a_kernel_that_passes(what, notes):
    verdict = evaluate(SCALE, launcher(what), explain=True)
    assert verdict.passed and verdict.marks == verdict.points
    assert [a.startswith(b) for a, b in zip(verdict.notes, notes, strict=True)] == [True] * len(notes), verdict.notes


def test_a_quoted_statement_may_hold_brackets(monkeypatch):
    place = " (line 33: `while (what == 1) & (n > 10_000):`)"
    found = Diagnosis("timeout", f"took longer than 1 s; 1 of 4 programs were begun{place}", "")
    small, large = (SimpleNamespace(case=case) for case in (LARGE.cases[0], LARGE.cases[-1]))
    monkeypatch.setattr(slowness, "_serial", lambda *run: None)
    told = slowness.out_of_time(kernel, found, large, [(small, SimpleNamespace(counts={}))], 0.0)
    assert told.symptom.endswith("has no end at this size" + place)
