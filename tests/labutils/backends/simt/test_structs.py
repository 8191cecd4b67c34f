"""Structs with an alignment of their own move by one wide access, others member by member."""

import pytest
import torch

from labutils.backends import simt
from labutils.backends.simt import structs
from tests.clock import cpu_seconds
from tests.labutils.backends.simt.conftest import aligned

ALIGNED = (
    "struct alignas(16) Pack { float a, b, c, d; };",
    "struct __align__(16) Pack { float a, b, c, d; };",
    "typedef struct __attribute__((aligned(16))) { float a, b, c, d; } Pack;",
    "struct Pack { float a, b, c, d; } __attribute__((aligned(16)));",
    "struct Pack { alignas(16) float a; float b, c, d; };",
    "template <class T, int N> struct alignas(sizeof(T) * N) Pack { T v[N]; };",
    "struct Plain { float a; }; struct alignas(8) Pack : Plain { float b; };",
    "union alignas(16) Pack { float v[4]; int w[4]; };",
)
OTHERS = (
    "struct Pack { float a, b, c, d; };",
    "struct Pack { float a; }; __global__ void k(float* x) { __shared__ alignas(16) Pack tile[4]; }",
    "template <class T> __global__ void k(T* x) { extern __shared__ __align__(16) T tile[]; }",
    "struct Pack; __shared__ alignas(16) float tile[4];",
    "struct Pack { float a; }; // alignas(16)",
    "",
)


@pytest.mark.parametrize("text", ALIGNED)
def test_a_struct_with_an_alignment_is_found(text):
    assert structs.aligned(text)


@pytest.mark.parametrize("text", OTHERS)
def test_other_alignments_are_none_of_a_struct(text):
    assert not structs.aligned(text)


@pytest.mark.parametrize("text", ("alignas struct ", "alignas struct a ", "alignas struct {", "alignas {("))
def test_reading_takes_time_in_proportion_to_the_text(text):
    assert cpu_seconds(lambda: structs.aligned(text * (300_000 // len(text)))) < 10


COPY = """__global__ void k(float* x, float* y) {
  Pack p = ((Pack*)x)[threadIdx.x];
  p.a *= 2, p.b *= 2, p.c *= 2, p.d *= 2;
  ((Pack*)y)[threadIdx.x] = p;
}"""
FIRST = "__global__ void k(float* x, float* y) { Pack p = ((Pack*)x)[threadIdx.x]; y[threadIdx.x] = p.a; }"


@pytest.mark.parametrize(
    ("struct", "body", "loads", "bytes_of_a_load"),
    [
        ("struct alignas(16) Pack { float a, b, c, d; };", COPY, 1, 16),
        ("struct Pack { float a, b, c, d; };", COPY, 4, 4),
        ("struct Pack { float a, b, c, d; };", FIRST, 1, 4),
    ],
)
def test_copies_are_counted_as_nvidias_compiler_makes_them(build, struct, body, loads, bytes_of_a_load):
    if structs.aligned(struct) and simt.build.compiler().family != "gcc":
        pytest.skip("clang splits such a struct")
    result = build(f"{struct}\n{body}", "k")[1, 32](aligned(torch.ones(128)), aligned(torch.zeros(128)))
    assert not result.findings
    c = result.counters
    assert (c.global_load_requests, c.global_load_bytes) == (loads, 32 * loads * bytes_of_a_load)
    if body is COPY:
        assert (c.global_store_requests, c.global_store_bytes) == (loads, 32 * loads * bytes_of_a_load)
