"""A launch is described so that a compiler elsewhere can judge it, and its refusals name the learner's line."""

import json
import linecache
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from labutils.backends import compiler, interpreter, offline
from labutils.backends.compiler import _place
from labutils.backends.extract import NotExtractable

triton = pytest.importorskip("triton")
import torch  # noqa: E402
import triton.language as tl  # noqa: E402
from triton.tools.tensor_descriptor import TensorDescriptor  # noqa: E402

TARGETS = (75, 80, 90, 100)
SOURCE = Path(__file__).read_text().splitlines()
WIDTH = tl.constexpr(128)

if os.environ.get("TRITON_INTERPRET") != "1":
    pytest.skip("Triton's interpreter is off where there is a GPU", allow_module_level=True)
interpreter.require()


@triton.jit
def scaled(x, factor):
    return x * factor


@triton.jit
def scale_kernel(x_ptr, out_ptr, n, stride, factor, dtype: tl.constexpr, act: tl.constexpr, BLOCK: tl.constexpr = 256):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    tl.store(out_ptr + offs * stride, act(tl.load(x_ptr + offs, mask=mask), factor).to(dtype), mask=mask)


def spec_of(kernel, *args, **kwargs):
    """The spec as the child would send it: by way of JSON."""
    return json.loads(json.dumps(offline.launch_spec(kernel, args, kwargs)))


def test_spec_says_types_constants_alignment_and_options():
    x = torch.empty(64, dtype=torch.float16)
    spec = spec_of(scale_kernel, x, x[1:], 48, 1, 0.5, tl.float16, scaled, num_warps=8, num_stages=None)
    assert spec["kernel"] == "scale_kernel"
    assert spec["signature"] == {
        "x_ptr": "*fp16",
        "out_ptr": "*fp16",
        "n": "i32",
        "stride": "constexpr",
        "factor": "fp32",
        "dtype": "constexpr",
        "act": "constexpr",
        "BLOCK": "constexpr",
    }
    assert spec["constants"] == {"stride": 1, "dtype": {"dtype": "fp16"}, "act": {"function": "scaled"}, "BLOCK": 256}
    assert spec["aligned"] == ["x_ptr", "n"]
    assert spec["options"] == {"num_warps": 8}


def test_a_launch_that_cannot_be_told_says_why():
    with pytest.raises(NotExtractable, match="scale_kernel was launched without out_ptr"):
        spec_of(scale_kernel, torch.empty(4))
    local = 3

    @triton.jit
    def closure_kernel(x_ptr):
        tl.store(x_ptr, local)

    with pytest.raises(NotExtractable, match="closure_kernel uses variables of an enclosing function"):
        spec_of(closure_kernel, torch.empty(4))


def problem_of(*launches):
    specs = [spec_of(*args, **kwargs) for *args, kwargs in launches]
    return offline.Compiler(TARGETS).problems(specs)


@triton.jit
def hundred(x_ptr):
    offs = tl.arange(0, 100)
    tl.store(x_ptr + offs, offs)


@triton.jit
def calls_helper(x_ptr):
    tl.store(x_ptr, bad_helper(tl.load(x_ptr)))


@triton.jit
def bad_helper(x):
    y = x.no_such_method()
    return y


@triton.jit
def uses_library_wrongly(x_ptr):
    x = tl.load(x_ptr + tl.arange(0, 16))
    tl.store(x_ptr, tl.sum(x, axis=3))


@triton.jit
def copies_tile(a: tl.tensor, out_ptr, BLOCK: tl.constexpr):
    tile = a.load([0, 0])
    offs = tl.arange(0, BLOCK)
    tl.store(out_ptr + offs[:, None] * WIDTH + offs[None, :], tile)


@triton.jit
def large_tiles(a_ptr, b_ptr, c_ptr, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    at = offs[:, None] * BLOCK + offs[None, :]
    acc = tl.zeros((BLOCK, BLOCK), tl.float32)
    for k in range(0, 4 * BLOCK, BLOCK):
        acc = tl.dot(tl.load(a_ptr + k + at), tl.load(b_ptr + k + at), acc)
    tl.store(c_ptr + at, acc)


def test_what_a_gpu_takes_and_what_it_refuses():
    x, half = torch.empty(4096), torch.empty(128, 128, dtype=torch.float16)
    good, arange, helper, library, tile = problem_of(
        (scale_kernel, x, x, 100, 1, 0.5, tl.float32, scaled, {}),
        (hundred, x, {}),
        (calls_helper, x, {}),
        (uses_library_wrongly, x, {}),
        (copies_tile, TensorDescriptor.from_tensor(half, [32, 32]), half, 32, {}),
    )
    assert good is None and tile is None
    for problem, line, text in (
        (arange, "offs = tl.arange(0, 100)", "hundred does not compile for sm_75: arange's range must be a power of 2"),
        (helper, "y = x.no_such_method()", "'tensor' object has no attribute 'no_such_method'"),
        (library, "tl.store(x_ptr, tl.sum(x, axis=3))", "axis"),
    ):
        assert problem.kind == "does-not-compile" and text in problem.message
        assert problem.source == line and SOURCE[problem.line - 1].strip() == line


def test_a_refused_call_names_a_line_whoever_is_called():
    """Triton tells of a call with the line of the caller, beside the text of the function that is called."""
    linecache.cache["<cell>"] = (9, None, ["def f(x):\n", "    return x\n"], "<cell>")
    assert _place("def f(x):\n    return x\n", SimpleNamespace(lineno=2)) == (2, "return x")
    assert _place("def f(x):\n    return x\n", SimpleNamespace(lineno=7)) is None


def test_more_shared_memory_than_any_gpu_has_is_refused():
    x = torch.empty(256 * 1024)
    compiler = offline.Compiler((80, 90))
    (problem,) = compiler.problems([spec_of(large_tiles, x, x, x, 256, num_stages=3, num_warps=8)])
    assert problem.kind == "does-not-compile"
    assert "KB of shared memory, and a GPU has at most 227 KB for a block" in problem.message


def test_a_broken_compiler_is_not_the_learners_fault(monkeypatch):
    spec = spec_of(hundred, torch.empty(4))
    spec["module"][0][0] = "import no_such_module"
    with pytest.raises(offline.CompilerFailed, match="no_such_module"):
        offline.Compiler((80,)).problems([spec])
    monkeypatch.setattr(offline, "_idle", [])
    monkeypatch.setattr(offline.sys, "executable", "/bin/false")
    with pytest.raises(offline.CompilerFailed):
        offline.Compiler((80,)).problems([])


def test_a_compiler_serves_the_next_one_and_survives_a_kernel_that_kills_it(monkeypatch):
    monkeypatch.setattr(offline, "_idle", [])
    first = offline.Compiler((80,))
    process = first._process
    assert first.problems([spec_of(hundred, torch.empty(4))])[0].kind == "does-not-compile"
    deadly = spec_of(hundred, torch.empty(4))
    deadly["module"][0][0] = "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)"
    second = offline.Compiler((80,))
    assert second._process is process
    with pytest.raises(offline.CompilerFailed, match="died"):
        second.problems([deadly])
    third = offline.Compiler((80,))
    assert third._process is process and third.problems([]) == []
    process.kill()
    process.wait()
    assert offline.Compiler((80,))._process is not process


def test_the_compilers_process_does_once_what_no_kernel_changes():
    """Else each child that compiles would do it: Triton's digest of itself takes longer than a small kernel."""
    text = f"""
import json, sys
sys.path.insert(0, {str(Path(compiler.__file__).parent)!r})
import compiler
compiler.prepare()
from triton.runtime.cache import triton_key
before = set(sys.modules)
(result,) = compiler.compile_all(json.loads(sys.argv[1]))
imported = [name for name in set(sys.modules) - before if "triton" in name]
print(sorted(result["targets"]), triton_key.cache_info().misses, imported)
"""
    x = torch.empty(64, dtype=torch.float16)
    job = {"specs": [spec_of(scale_kernel, x, x, 48, 1, 0.5, tl.float16, scaled)], "targets": [80]}
    plain = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    done = subprocess.run([sys.executable, "-c", text, json.dumps(job)], env=plain, capture_output=True, text=True)
    assert done.stdout == "[80] 1 []\n", done.stderr


@pytest.mark.parametrize(("cores", "sizes"), [(1, [5]), (2, [2, 3]), (3, [1, 2, 2]), (16, [1, 1, 1, 2])])
def test_each_core_compiles_specs_that_follow_one_another(cores, sizes, monkeypatch):
    monkeypatch.setattr(compiler.os, "sched_getaffinity", lambda pid: range(cores))
    shares = compiler.shares({"specs": list("abcde"), "targets": [80]})
    assert [len(share["specs"]) for share in shares] == sizes
    assert "".join("".join(share["specs"]) for share in shares) == "abcde"
    assert compiler.shares({"specs": [], "targets": [80]}) == [{"specs": [], "targets": [80]}]


def test_what_several_processes_compile_stays_in_order(monkeypatch):
    monkeypatch.setattr(compiler.os, "sched_getaffinity", lambda pid: range(2))

    def compile_all(job):
        for spec in job["specs"]:
            os.write(2, f"{spec} ".encode())
            yield {"kernel": spec}

    monkeypatch.setattr(compiler, "compile_all", compile_all)
    found = compiler.answer({"specs": list("abc"), "targets": [80]})
    assert found == {"results": [{"kernel": name} for name in "abc"], "noise": "a b c "}


def test_a_compiler_that_never_ends_is_ended(monkeypatch):
    monkeypatch.setattr(offline, "_idle", [])
    monkeypatch.setattr(offline, "TIME_LIMIT", 4.0)
    endless = spec_of(hundred, torch.empty(4))
    endless["module"][0][0] = "while True: pass"
    compiler = offline.Compiler((80,))
    process = compiler._process
    with pytest.raises(offline.CompilerFailed, match="more than 4 s"):
        compiler.problems([endless])
    assert process.poll() is not None and not offline._idle


@triton.jit
def tuple_kernel(ptrs, sizes, out_ptr, LIMITS: tl.constexpr, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(ptrs[0] + offs * sizes[1], mask=offs < sizes[0])
    tl.store(out_ptr + offs, tl.minimum(x + tl.load(ptrs[1]), LIMITS[1]), mask=offs < sizes[0])


def test_tuples_of_arguments_compile():
    x = torch.ones(64)
    spec = offline.launch_spec(tuple_kernel, ((x, x), (64, 1), x, (0, 3)), {"BLOCK": 64})
    assert spec["signature"] == {
        **{"ptrs.0": "*fp32", "ptrs.1": "*fp32", "sizes.0": "i32", "sizes.1": "constexpr", "out_ptr": "*fp32"},
        **{"LIMITS.0": "constexpr", "LIMITS.1": "constexpr", "BLOCK": "constexpr"},
    }
    assert spec["constants"] == {"sizes.1": 1, "LIMITS.0": 0, "LIMITS.1": 3, "BLOCK": 64}
    assert offline.Compiler((90,)).problems([spec]) == [None]
