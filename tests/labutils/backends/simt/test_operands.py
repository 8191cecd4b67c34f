"""Structs in memory that a call takes or returns: each form of access is seen, checked and counted."""

from pathlib import Path

import pytest
import torch

from labutils.backends import simt
from labutils.backends.simt import build, operands, source
from tests.labutils.backends.simt.conftest import aligned

TYPES = """struct One { float v; };
struct alignas(16) Pack { float a, b, c, d; };
struct Seven { float v[7]; };
struct Move { float f; __device__ float operator<(One o) const { return f + o.v; } };
__device__ __noinline__ float peek(One one) { return one.v; }
__device__ __noinline__ One put(float v) { return {v}; }
__device__ __noinline__ Pack twice(Pack p) { return {p.a * 2, p.b * 2, p.c * 2, p.d * 2}; }
__device__ __noinline__ One by_pointer(const One* p) { return *p; }
__device__ __noinline__ float sum(Seven s, int k) { float t = 0; for (int i = k; i < 7; i++) t += s.v[i]; return t; }
__device__ __noinline__ float through(const One* p) { return peek(*p); }
template <class T, int N> struct Several { T v[N]; };
template <class T, int N> __device__ __noinline__ T first(Several<T, N> s) { return s.v[0]; }
__device__ One global_one = {1};
"""

# loads and stores: of a warp, requests and bytes of a lane
FORMS = {
    "argument": ("y[t] = peek(((One*)x)[t]);", (1, 4, 1, 4)),
    "result": ("((One*)y)[t] = put(x[t]);", (1, 4, 1, 4)),
    "both": ("((Pack*)y)[t] = twice(((Pack*)x)[t]);", (1, 16, 1, 16)),
    "return": ("((One*)y)[t] = by_pointer((One*)x + t);", (1, 4, 1, 4)),
    "lambda": ("auto f = [](One o) { return o.v; }; y[t] = f(((One*)x)[t]);", (1, 4, 1, 4)),
    "lambda with a qualifier": (
        "auto f = [] __device__ (One o) { return o.v; }; y[t] = f(((One*)x)[t]);",
        (1, 4, 1, 4),
    ),
    "in another function": ("y[t] = through((One*)x + t);", (1, 4, 1, 4)),
    "operator": ("y[t] = Move{0.0f} < ((One*)x)[t];", (1, 4, 1, 4)),
    "conditional": ("y[t] = peek(t < 32 ? ((One*)x)[t] : One{0.0f});", (1, 4, 1, 4)),
    "template": ("y[t] = first(((Several<float, 1>*)x)[t]);", (1, 4, 1, 4)),
    "global variable": ("y[t] = peek(global_one);", (1, 4, 1, 4)),
    "local variable": ("One o = {x[t]}; y[t] = peek(o);", (1, 4, 1, 4)),
}


def gcc():
    found = build.compiler()
    if found.family != "gcc":
        pytest.skip("asks g++")
    return found


def launch(build, text, types=TYPES):
    return build(types + text, "k")[1, 32](aligned(torch.ones(512)), aligned(torch.zeros(512)))


@pytest.mark.parametrize("alignment", ["alignas(16) ", ""])  # in a cell with such a struct others are copied whole, too
@pytest.mark.parametrize("name", FORMS)
def test_every_form_is_counted(build, name, alignment):
    if name == "both" and alignment:
        gcc()  # clang splits such a struct
    body, (loads, load_bytes, stores, store_bytes) = FORMS[name]
    members = 4 if name == "both" and not alignment else 1
    text = f"__global__ void k(float* x, float* y) {{ int t = threadIdx.x; {body} }}"
    result = launch(build, text, TYPES.replace("alignas(16) ", alignment))
    assert not result.findings
    c = result.counters
    assert (c.global_load_requests, c.global_load_bytes) == (members * loads, 32 * load_bytes)
    assert (c.global_store_requests, c.global_store_bytes) == (members * stores, 32 * store_bytes)


def test_a_large_struct_is_read_whole(build):
    result = launch(
        build, "__global__ void k(float* x, float* y) { y[threadIdx.x] = sum(((Seven*)x)[threadIdx.x], 0); }"
    )
    assert not result.findings and result.counters.global_load_bytes == 32 * 28


def test_bounds_and_races_are_found(build):
    outside = launch(
        build, "__global__ void k(float* x, float* y) { y[threadIdx.x] = peek(((One*)x)[500 + threadIdx.x]); }"
    )
    assert [f.kind for f in outside.findings] == ["out-of-bounds"]
    race = """__global__ void k(float* x, float* y) {
  __shared__ One tile[32]; int t = threadIdx.x; tile[t].v = x[t]; y[t] = peek(tile[31 - t]); }"""
    assert [f.kind for f in launch(build, race).findings] == ["missing-syncwarp"]


def test_bank_conflicts_are_counted(build):
    column = """__global__ void k(float* x, float* y) {
  __shared__ float tile[32][32]; int t = threadIdx.x;
  for (int i = 0; i < 32; i++) tile[i][t] = x[t];
  __syncwarp();
  y[t] = peek(*(One*)&tile[t][5]); }"""
    result = launch(build, column)
    assert not result.findings and result.counters.shared_load_wavefronts == 32


RECURSION = """struct One { float v; };
__device__ float walk(One one, float* x, int n) { return n ? walk(*(One*)(x + n), x, n - 1) + one.v : 0.0f; }
__global__ void k(float* x, float* y) { y[0] = walk(*(One*)x, x, 9); }
"""


def test_what_stays_a_call_is_refused():
    gcc()
    with pytest.raises(simt.CompileError, match=r"line 2: `walk` takes or returns a struct") as e:
        simt.compile(RECURSION)
    assert e.value.line == 2


ONCE = {
    "numbers": "__device__ float f(float v) { return v; }\n__global__ void k(float* x, float* y) { y[0] = f(x[0]); }",
    "results that are handed on": """
__device__ float2 merged(float2 v) { v.x += __shfl_xor_sync(~0u, v.x, 1); return v; }
__device__ float2 of_all(float2* p, int n) { return merged(threadIdx.x < n ? p[threadIdx.x] : make_float2(0, 1)); }
__global__ void k(float* x, float* y) { y[threadIdx.x] = of_all((float2*)x, 5).x; }""",
    "a struct of its own": """struct Place { int a, b, c, d, e; };
__device__ __noinline__ Place place(int n) { return {n, 2 * n, 3, n + 4, threadIdx.x}; }
__global__ void k(float* x, float* y) { Place p = place(blockDim.x); y[p.e] = x[p.e] + p.a; }""",
}


@pytest.mark.parametrize("name", ONCE)
def test_a_kernel_without_such_calls_is_built_once(name, monkeypatch, tmp_path):
    found = gcc()
    monkeypatch.setenv("GPULAB_CACHE", str(tmp_path))
    commands, plain = [], build._run
    monkeypatch.setattr(build, "_run", lambda command, cwd=None: commands.append(command) or plain(command, cwd))
    build.kernel(found, source.prepare(ONCE[name]).text, ["k"], True, "cell")
    assert sum("-c" in c for c in commands) == 1


def test_a_list_of_statements_that_is_cut_off_builds_nothing(monkeypatch, tmp_path):
    found = gcc()
    monkeypatch.setenv("GPULAB_CACHE", str(tmp_path))
    plain = build._run

    def on_a_full_disk(command, cwd=None):
        done = plain(command, cwd)
        for flag in command:
            if flag.startswith(operands.FLAG):
                path = Path(flag.removeprefix(operands.FLAG))
                path.write_text(path.read_text()[:-40])
        return done

    monkeypatch.setattr(build, "_run", on_a_full_disk)
    with pytest.raises(simt.NoCompiler, match="cut off"):
        build.kernel(found, source.prepare(ONCE["numbers"]).text, ["k"], True, "cell")


DUMP = """;; Function k (_Z1kPf, funcdef_no=1, decl_uid=2)

void kD.1 (floatD.2 * xD.3)
{
  struct OneD.4 ownD.5;
  static struct OneD.4 sharedD.6;
  floatD.2 _1;

  <bb 2> :
  [cell:7:3] gimple_call <%s>
}
"""


@pytest.mark.parametrize(
    ("call", "seen"),
    [
        ("fD.9, _1, ownD.5, 3, -1.0e+0, 0B", True),
        ("fD.9, ownD.5, v.0_1, n_2(D), [cell:7:9] &sharedD.6, NULL", True),
        ('printfD.9, NULL, [cell:7:9] "a, *b (\\" >", _1', True),
        ("f<int, 2>D.9, _1, ownD.5", True),
        ("operator<D.9, _1, ownD.5.vD.7", True),
        ("operator,D.9, _1, ownD.5", True),
        ("operator->*D.9, _1, ownD.5", True),
        ("operator()D.9, _1, &ownD.5, ownD.5", True),
        ("fD.9, *_2(D), ownD.5", True),
        ("fD.9, *_2, ownD.5", False),
        ("fD.9, *x_2(D), ownD.5", False),
        ("fD.9, _1, *_2(D)", False),
        ("f<D.9, _1, &ownD.5", False),
        ("fD.9>, _1, ownD.5", False),
        ("fD.9", False),
        ("operator,D.9, _1, sharedD.6", False),
        ("fD.9, _1, sharedD.6", False),
        ("fD.9, _1, *x_1(D)", False),
        ("fD.9, [cell:7:3] MEM[(struct OneD.4 *)_1], 3.0e+0", False),
        ("fD.9, _1, x_1->vD.7", False),
        ("fD.9, _1, otherD.8", False),
    ],
)
def test_operands_that_are_not_the_functions_own_are_told(call, seen):
    found = operands.read(DUMP % call, "cell")
    assert found.functions == {"_Z1kPf"} and bool(found.unseen) != seen
    assert seen or found.unseen[0][1] == 7
