"""Functions of CUDA C++ as trees: what is an expression, what a declaration, what a template."""

import pytest

from labutils.cuda.syntax import functions

KERNEL = """\
#include <cuda_fp16.h>
template <int N>
__global__ void kernel(const float *x, float *__restrict__ out, int n) {
    __shared__ __align__(16) float tile[N][33];
    const int i = blockIdx.x * blockDim.x + threadIdx.x, j = i < n ? i : 0;
    auto at = [&](int k) { return tile[k][0] + (float)k; };
    #pragma unroll
    for (int k = 0; k < N; k += 2) out[k]++;
    if (i < n && !(j > 2)) copy<N, 4>(out + i, at(j)); else return;
}
"""


def test_statements_and_their_expressions():
    (function,) = functions(KERNEL)
    assert [(p.name, p.type) for p in function.parameters] == [
        ("N", "int"), ("x", "const float*"), ("out", "float*"), ("n", "int"),
    ]  # fmt: skip
    found = [(s.kind, [KERNEL[e.begin : e.end] for e in s.expressions]) for s in function.body.walk()]
    assert found == [
        ("block", []),
        ("declaration", []),
        ("declaration", ["blockIdx.x * blockDim.x + threadIdx.x", "i < n ? i : 0"]),
        ("declaration", ["[&](int k) { return tile[k][0] + (float)k; }"]),
        ("block", []),
        ("return", ["tile[k][0] + (float)k"]),
        ("for", ["0", "k < N", "k += 2"]),
        ("expression", ["out[k]++"]),
        ("if", ["i < n && !(j > 2)"]),
        ("expression", ["copy<N, 4>(out + i, at(j))"]),
        ("return", []),
    ]
    declared = [(n.name, n.type, n.fixed) for s in function.body.walk() for n in s.names]
    assert declared[:3] == [("tile", "float[][]", True), ("i", "int", True), ("j", "int", True)]


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("a + b * c", ["binary +", "name a", "binary *", "name b", "name c"]),
        ("a - b - c", ["binary -", "binary -", "name a", "name b", "name c"]),
        ("i<n", ["binary <", "name i", "name n"]),
        ("x[i] = y ? 1 : -z", ["assign =", "index x", "name x", "name i", "choice ?", "name y", "number 1",
                               "unary -", "name z"]),
        ("f((half)(a), p->q)", ["call f", "cast (", "paren ", "name a", "member p->q", "name p"]),
    ],
)  # fmt: skip
def test_operators_bind_as_in_cpp(text, kinds):
    (function,) = functions(f"void f() {{ {text}; }}")
    (e,) = function.body.body[0].expressions
    assert [f"{x.kind} {x.word}" for x in e.walk()] == kinds


def test_what_is_unknown_has_no_parts():
    (function,) = functions('void f() { asm volatile("x;" :: "r"(a)); a = b @ c; }')
    assert [s.expressions for s in function.body.body] == [[], []]
