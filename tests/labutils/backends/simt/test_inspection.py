"""No way out of a kernel's language passes both readings; and what header templates do counts."""

import pytest
import torch

from labutils.backends import simt
from labutils.backends.simt import build, elf, expansion, inspection, rules, source
from tests.labutils.backends.simt.escapes import DODGES, NATIVE
from tests.labutils.backends.simt.kernel_cases import KERNELS

ALL = NATIVE | DODGES


def _unread(text: str, checked: bool = True):
    """Build a text that nobody has read, as if the first layer were not there."""
    return build.kernel(build.compiler(), source.prepare(text).text, ["k"], checked, "cell")


@pytest.mark.parametrize("name", ALL)
def test_an_escape_is_refused_by_reading_or_by_inspection(name):
    with pytest.raises(simt.CompileError) as e:
        simt.compile(ALL[name].text)
    assert (ALL[name].read or ALL[name].inspected) in str(e.value)


@pytest.mark.parametrize("name", [n for n in ALL if ALL[n].read])
def test_the_text_alone_tells(name):
    with pytest.raises(simt.CompileError) as e:
        rules.check(expansion.expand(ALL[name].text))
    assert ALL[name].read in str(e.value)


@pytest.mark.parametrize("name", [n for n in ALL if ALL[n].inspected])
def test_the_object_alone_tells(name):
    with pytest.raises(simt.CompileError) as e:
        _unread(ALL[name].text)
    assert ALL[name].inspected in str(e.value)


@pytest.mark.parametrize("name", ["cast and call", "virtual function", "constructor", "system call"])
def test_the_fast_build_is_inspected_too(name):
    with pytest.raises(simt.CompileError) as e:
        _unread(ALL[name].text, checked=False)
    assert ALL[name].inspected in str(e.value)


def test_what_only_a_gpu_can_run_is_not_called_wrong():
    for name in ("cast and call", "alias of a type", "virtual function", "system call"):
        with pytest.raises(simt.NeedsGpu, match="GPU"):
            simt.compile(ALL[name].text)
    for name in ("value from a call", "attribute", "new"):
        with pytest.raises(simt.CompileError) as e:
            simt.compile(ALL[name].text)
        assert not isinstance(e.value, simt.NeedsGpu)


HONEST = {
    "many cases": "switch (n) { case 0: x[0] = 1; break; case 1: x[1] = 2; break; case 2: x[2] = 5; break; "
    "case 3: x[0] += 1; break; case 4: x[4] *= 2; break; case 5: x[5] = -1; break; default: x[9] = 0; }",
    "struct of 160 bytes": "struct S { float a[40]; }; ((S*)x)[n] = ((S*)x)[0];",
    "lambda": "auto f = [&](int i) { return x[i] * 2; }; x[n] = f(n + 1);",
    "pointer to rows": "float (*rows)[32] = (float (*)[32])x; const float (&row)[32] = rows[1]; x[n] = row[n];",
    "sine and cosine": "x[0] = sinf(x[1]) + cosf(x[1]); sincosf(x[2], x + 3, x + 4);",
    "parenthesised value": "float sum = 0; float* p = x; sum += (*p) * (n); x[1] = (sum) + (*p);",
    "and": "bool a = n > 1, b = n < 9; if (a && b and not (a && !b)) x[0] = 1;",
    "names of functions as variables": "float mask = x[0], *p = &mask; x[1] = *p;",
}  # fmt: skip


@pytest.mark.parametrize("name", HONEST)
@pytest.mark.parametrize("checked", [True, False])
def test_honest_kernels_pass(name, checked):
    text = "__device__ float mask(float v) { return v; }\n__global__ void k(float* x, long n) { " + HONEST[name] + " }"
    assert simt.compile(text, checked=checked).kernels


def test_variadic_macros_joined_names_and_stringed_words_are_honest():
    text = """#define CALL(f, ...) f(__VA_ARGS__)
#define NAME(a, n) a##n
#define SHOW(x) printf(#x)
__global__ void NAME(k, 1)(float* x) { x[0] = CALL(fmaf, x[1], x[2], x[3]); SHOW(x[0] "a@b"); }
"""
    assert "k1" in simt.compile(text).kernels


def test_every_kernel_of_the_tests_passes_the_rules():
    texts = [p.read_text() for p in sorted(KERNELS.glob("*.cu"))]
    assert texts
    for text in texts:
        rules.check(expansion.expand(text))


def test_the_headers_declare_what_the_runtime_has():
    exported = {s.name for s in elf.Image(str(build.runtime(build.compiler()))).symbols(11) if s.section}
    of_headers = {"simt_keep", "simt_mask", "simt_first", "simt_lane_of", "simt_lanes", "simt_packed", "simt_part",
                  "simt_parts", "simt_pieces", "simt_tile_place"}  # fmt: skip
    functions = inspection.declared() - of_headers
    assert functions - {"simt_entry_", "simt_describe_"} <= exported


# --- callbacks of header templates -----------------------------------------------------------------------------------

_GROUPS = (
    "#include <cooperative_groups.h>\n#include <cooperative_groups/reduce.h>\nnamespace cg = cooperative_groups;\n"
)

_LAMBDA = (
    _GROUPS
    + """__global__ void k(const float* x, float* y) {
  auto warp = cg::tiled_partition<32>(cg::this_thread_block());
  float found = cg::reduce(warp, (float)threadIdx.x, [=](float a, float b) { return a + x[(int)b] + x[0]; });
  y[threadIdx.x] = found;
}
"""
)

_OPERATOR = (
    _GROUPS
    + """struct Number { const float* at; float v; };
__device__ Number operator+(Number a, Number b) { return {a.at, a.v + b.at[(int)b.v]}; }
__global__ void k(const float* x, float* y) {
  auto warp = cg::tiled_partition<32>(cg::this_thread_block());
  y[threadIdx.x] = cg::reduce(warp, Number{x, (float)threadIdx.x}, cg::plus<Number>()).v;
}
"""
)

_OWN_PLUS = (
    _GROUPS
    + """__device__ const float* data;
template <> struct cg::plus<float> {
  __device__ float operator()(float a, float b) const { return a + b * 100; }
};
__global__ void k(const float* x, float* y) {
  auto warp = cg::tiled_partition<32>(cg::this_thread_block());
  y[threadIdx.x] = cg::reduce(warp, x[threadIdx.x], cg::plus<float>());
}
"""
)

_PLAIN = (
    _GROUPS
    + """__global__ void k(const float* x, float* y) {
  auto warp = cg::tiled_partition<32>(cg::this_thread_block());
  y[threadIdx.x] = cg::reduce(warp, x[threadIdx.x], cg::plus<float>());
}
"""
)


def _run(text: str):
    x, y = torch.arange(512, dtype=torch.float32), torch.zeros(64)  # a tree reads x at sums, up to 496
    kernel = simt.compile(text).kernels["k"]
    arrays = {"x": (x.data_ptr(), 512, 4), "y": (y.data_ptr(), 64, 4)}
    result = kernel.launch(1, 32, 0, [x.data_ptr(), y.data_ptr()], arrays=arrays)
    assert result.ok, result.findings
    return result.counters, y


def test_loads_in_an_operator_of_a_reduction_count():
    counts, y = _run(_LAMBDA)
    assert counts.global_load_requests == 5 * 2 and y[0] == sum(range(32))
    counts, y = _run(_OPERATOR)
    assert counts.global_load_requests == 5 and y[5] == sum(range(32))


def test_our_own_operators_count_as_before():
    counts, y = _run(_PLAIN)
    assert (counts.global_load_requests, counts.collectives) == (1, 1) and y[7] == sum(range(32))
    _, y = _run(_OWN_PLUS)  # another meaning of plus changes nothing that runs unrecorded
    assert y[0] == sum(range(32))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("#include <mma.h>\nstruct T { float v; };\n__global__ void k(float* x) { "
         "nvcuda::wmma::fragment<nvcuda::wmma::accumulator, 16, 16, 16, T> f; }", "Stored"),
        ("#include <lab/mma.cuh>\nstruct T { short v; };\n__global__ void k(float* x) { float d[4]; unsigned a[4]; "
         "mma_m16n8k16<T>(d, a, 0, 0); }", "multiplies"),
        ("struct T { float* p; __device__ T(const T& t) : p(t.p) { p[0] = 1; } };\n"
         "__global__ void k(T t) { t.p[1] = 2; }", "copied as bytes"),
    ],
)  # fmt: skip
def test_no_code_of_a_kernel_runs_where_nothing_is_recorded(text, words):
    with pytest.raises(simt.CompileError, match=words):
        simt.compile(text)
