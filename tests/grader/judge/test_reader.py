"""A limited child reads; what stops it stops itself, and what it says has a size and a depth."""

import json
import os
import time

import pytest

from grader.judge import isolation, reader
from grader.judge.plan import Plan
from grader.judge.sandbox import SandboxLimits
from grader.judge.wire import answers_in, plan_in
from labutils.backends import Problem

READER = "grader.judge.reading"


def said(content: bytes, **payload):
    with reader.in_memory(content) as fd:
        return list(reader.read(READER, payload, fd))


def test_a_notebook_is_read_in_a_child():
    cell = {"cell_type": "code", "id": "f", "metadata": {}, "source": ["def f():\n", "    return 1"]}
    text = json.dumps({"cells": [cell], "nbformat": 4, "nbformat_minor": 5, "metadata": {}}).encode()
    assert said(text, what="cells") == [
        {"checks": [], "cells": [["setup", "import labutils as lab"], ["f", "def f():\n    return 1"]]}
    ]
    assert said(b"[]", what="cells") == [{"failed": "it is no notebook"}]


@pytest.mark.skipif(bool(isolation.bubblewrap()), reason="is how it is elsewhere")
def test_without_namespaces_it_is_a_forked_child():
    test_a_notebook_is_read_in_a_child()


def test_without_bubblewrap_a_server_forks(monkeypatch):
    monkeypatch.setattr(reader, "bubblewrap", lambda: None)
    monkeypatch.setattr("grader.judge.sandbox.bubblewrap", lambda: None)
    test_a_notebook_is_read_in_a_child()
    first = reader._server()
    test_a_notebook_is_read_in_a_child()
    assert reader._server() is first
    first._process.kill()
    first._process.wait()
    test_a_notebook_is_read_in_a_child()


def test_a_file_of_gigabytes_is_refused_and_harms_nobody():
    """By the limits of the child, or as no notebook where it gets that far."""
    begin, told = time.monotonic(), "could not be read within 1 s and 1 GB"
    with reader.in_memory() as fd:
        os.ftruncate(fd, 3 << 30)
        try:
            (answer,) = reader.read(READER, {"what": "cells"}, fd, SandboxLimits(seconds=60, cpu_seconds=1))
            assert answer == {"failed": "it is no notebook"}
        except reader.Unread as why:
            assert told in str(why)
    assert time.monotonic() - begin < 60


@pytest.mark.parametrize(
    "text", [b"[" * 100, b'{"a":' * 100 + b"1" + b"}" * 100, b"[" * 100_000, b'"' + b"x" * 5_000_000]
)
def test_an_answer_has_a_size_and_a_depth(text):
    begin = time.process_time()
    with pytest.raises((json.JSONDecodeError, RecursionError)):
        reader.parsed(text + (b"]" * 100 if text == b"[" * 100 else b""))
    assert time.process_time() - begin < 0.5
    assert reader.parsed(b'{"a": [1, {"b": "c"}]}') == {"a": [1, {"b": "c"}]}


# --- plans -----------------------------------------------------------------------------------------------------------

ARGUMENT = {"name": "x", "dtype": "float32", "length": 4096, "shape": [64], "strides": [1], "start": 1024}
TASK = {"id": "u/t", "entry": "t", "kind": "kernel", "cases": [[ARGUMENT], [ARGUMENT]]}
SOURCE = "__global__ void k(float* x, float scale, int n) { if (threadIdx.x < n) x[threadIdx.x] *= scale; }"


def _line(case: int, source: str = SOURCE, **more) -> dict:
    pointer = {"pointer": {"argument": 0, "offset": 1024, "dtype": "float32"}}
    args = {"x": pointer, "scale": {"number": 2.0}, "n": {"number": 64}}
    launch = {"kernel": 0, "grid": [1], "block": [64, 1, 1], "shared": 0, "args": args}
    spec = {"language": "cuda", "source": source, "name": "k", "options": [], "abi": [["forged", "pointer"]]}
    plan = {"steps": [launch], "specs": [spec], "scratch": [], "problem": None, "printed": "", "returned": ""}
    return {"task": "u/t", "case": case} | plan | more


def _found(*lines, raw: bytes = b""):
    text = b"".join(json.dumps(line).encode() + b"\n" for line in lines) + raw
    with reader.in_memory(text) as fd:
        return answers_in(fd, [TASK], "died: nothing")


def test_plans_come_back_with_what_the_runner_must_know():
    found, why = _found(_line(0), _line(1))
    plans = [plan_in([ARGUMENT], found["u/t"][case]) for case in (0, 1)]
    assert all(isinstance(p, Plan) for p in plans) and why == "died: nothing"
    assert plans[0].specs[0]["abi"] == [["x", "pointer"], ["scale", "float"], ["n", "as it is"]]
    assert plans[0].specs == plans[1].specs


def test_a_kernel_that_is_none_is_refused():
    found, _ = _found(_line(0, "#include <unistd.h>\n" + SOURCE))
    problem = plan_in([ARGUMENT], found["u/t"][0])
    assert isinstance(problem, Problem) and problem.kind == "does-not-compile" and "headers" in problem.message


@pytest.mark.parametrize(
    "raw",
    [
        b"no json\n", b"[]\n", b"[" * 100_000 + b"\n", b'{"task": "other", "case": 0}\n',
        b'{"task": "u/t", "case": -1}\n', b'{"task": "u/t", "case": 7, "steps": [], "specs": [], "scratch": []}\n',
        b'{"task": "u/t", "case": 1, "signature": 5}\n',
        b'{"task": "u/t", "case": 1, "printed": "' + b"x" * (5 << 20) + b'"}\n',
    ],
    ids=range(8),
)  # fmt: skip
def test_a_forged_line_ends_what_comes_after_it(raw):
    found, why = _found(_line(0), raw=raw)
    assert set(found["u/t"]) == {0} and why == "died: it wrote into the place of its answer"


def test_work_by_pytorch_is_no_kernel_of_theirs():
    """The kind that decides the advice."""
    copy = {"argument": 0, "offset": 1024, "dtype": "float32", "shape": [64], "strides": [1]}
    found, _ = _found(_line(0, steps=[{"copy": copy, "to": copy}]), _line(1, problem={"kind": "accepted"}))
    problem = plan_in([ARGUMENT], found["u/t"][0])
    assert problem.kind == "no-kernel" and "with PyTorch, which is the kernel's work" in problem.message
    assert plan_in([ARGUMENT], found["u/t"][1]).kind == "error"


def test_a_plan_of_a_million_steps_is_refused_in_a_sentence():
    launch = {"kernel": 0, "grid": [1], "block": [1, 1, 1], "shared": 0, "args": {}}
    found, _ = _found(_line(0, steps=[launch] * 30_000), _line(1))
    assert "30000 launches in one call; at most 128" in plan_in([ARGUMENT], found["u/t"][0]).message
    assert isinstance(plan_in([ARGUMENT], found["u/t"][1]), Plan)


def test_text_that_is_hard_to_read_costs_its_plan():
    source = "__global__ void k(float* x, float scale, int n) { int a = " + "(" * 200_000 + "; }"
    begin = time.process_time()
    found, why = _found(_line(0, source), _line(1))
    assert time.process_time() - begin < 1
    assert isinstance(plan_in([ARGUMENT], found["u/t"][1]), Plan)
    assert 0 not in found["u/t"] and "to be read" in why or "plan" in found["u/t"][0] or "problem" in found["u/t"][0]
