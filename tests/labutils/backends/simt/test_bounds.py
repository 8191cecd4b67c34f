"""Launch bounds: what the qualifier says, and that no launch has more threads."""

import pytest
import torch

from labutils.backends import simt

BODY = "{ x[threadIdx.x] = 1; }"

FORMS = {
    "a number": (f"__global__ void __launch_bounds__(64) k(int* x) {BODY}", "k", 64),
    "before the type": (f"__global__ __launch_bounds__(64, 2) void k(int* x) {BODY}", "k", 64),
    "before the kernel's own word": (f"__launch_bounds__(64) static __global__ void k(int* x) {BODY}", "k", 64),
    "a macro": (f"#define MOST 2 * 32\n__global__ void __launch_bounds__(MOST) k(int* x) {BODY}", "k", 64),
    "a macro of it all": (f"#define KERNEL __global__ void __launch_bounds__(64)\nKERNEL k(int* x) {BODY}", "k", 64),
    "a constant": (
        f"constexpr int WARPS = 2;\n__global__ void __launch_bounds__(32 * WARPS) k(int* x) {BODY}", "k", 64
    ),
    "a function, and a parameter of the constant's name": (
        "constexpr int N = 2;\nconstexpr int most(int warps) { return 32 * warps; }\n"
        "__global__ void __launch_bounds__(most(N)) k(int* N) { N[threadIdx.x] = 1; }", "k", 64
    ),
    "a template's parameter": (
        f"template <int N, int M = 1> __global__ void __launch_bounds__(N / M) k(int* x) {BODY}", "k<128, 2>", 64
    ),
    "a template's default": (
        f"template <int N = 64, bool B = (N > 4)> __global__ void __launch_bounds__(N) k(int* x) {BODY}", "k<>", 64
    ),
    "a specialization": (
        f"template <int N> __global__ void __launch_bounds__(N) k(int* x) {BODY}\n"
        f"template <> __global__ void __launch_bounds__(64) k<256>(int* x) {BODY}", "k<256>", 64
    ),
    "a namespace": (
        f"namespace a {{ namespace b {{ enum {{ N = 64 }}; __global__ void __launch_bounds__(N) k(int* x) {BODY} }} }}",
        "a::b::k", 64,
    ),
    "a declaration": (
        f"__global__ void __launch_bounds__(64) k(int* x);\n__global__ void k(int* x) {BODY}", "k", 64
    ),
    "another kernel's": (
        f"__global__ void __launch_bounds__(64) other(int* x) {BODY}\n__global__ void k(int* x) {BODY}", "k", 0
    ),
    "C linkage": (f'extern "C" __global__ void __launch_bounds__(64) k(int* x) {BODY}', "k", 64),
    "none": (f"__global__ void k(int* x) {BODY}", "k", 0),
}  # fmt: skip


@pytest.mark.parametrize("form", sorted(FORMS))
def test_bounds_are_read(form):
    text, name, bound = FORMS[form]
    assert simt.compile(text, [name]).kernels[name].bound == bound


@pytest.mark.parametrize("checked", [True, False])
def test_a_block_has_as_many_threads_as_its_bounds_say(build, checked):
    x = torch.zeros(128, dtype=torch.int32)
    launcher = build(FORMS["a template's parameter"][0], "k<128, 2>", checked)
    assert launcher[1, (8, 8)](x).ok
    for block in (65, (8, 9), 128):
        with pytest.raises(simt.LaunchError, match=r"threads: k<128, 2> has __launch_bounds__\(64\)"):
            launcher[1, block](x)


def test_lines_stay_where_they_are():
    text = "__global__ void __launch_bounds__(64)\nk(int* x) {\n  x[0] = 1; }\n__global__ void j(int* x) {\n  y = 1; }"
    with pytest.raises(simt.CompileError, match="line 5"):
        simt.compile(text, ["j"])


def test_bounds_that_are_no_constant_are_an_error():
    with pytest.raises(simt.CompileError, match="line 1"):
        simt.compile("__device__ int n; __global__ void __launch_bounds__(n) k(int* x) { x[0] = 1; }", ["k"])
