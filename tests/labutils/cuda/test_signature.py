"""Reading kernel signatures from CUDA C++ and checking arguments against them."""

import ctypes

import pytest
import torch

from labutils.cuda.signature import ArgumentError, convert, signatures

SOURCE = """
// __global__ void commented(float* x) {}
template <typename T, int BLOCK = 256>
__global__ void __launch_bounds__(256) scale(T* __restrict__ y, const T* x, T factor, int n) { }

__device__ float helper(float a) { return a; }
extern "C" __global__ void plain(const float4 *x, unsigned long long count, bool flag, half h[], float f = 1.0f) {
    printf("__global__ void in_text(int)");
}
/* __global__ void also_commented(int n) {} */
__global__ void nothing() {}
static __global__ void grid(dim3 d, const __nv_bfloat16* __restrict__ a,
                            int n /* a comment, with (brackets) */) {}
"""


def test_every_kernel_is_found_with_its_parameters():
    found = signatures(SOURCE)
    assert list(found) == ["scale", "plain", "nothing", "grid"]
    assert found["scale"].template == ("T", "BLOCK")
    assert [(p.name, p.kind, p.is_pointer, p.is_const) for p in found["scale"].parameters] == [
        ("y", "T", True, False),
        ("x", "T", True, True),
        ("factor", "T", False, False),
        ("n", "int", False, False),
    ]
    assert [(p.name, p.kind, p.is_pointer) for p in found["plain"].parameters] == [
        ("x", "float4", True),
        ("count", "unsigned long long", False),
        ("flag", "bool", False),
        ("h", "half", True),
        ("f", "float", False),
    ]
    assert found["nothing"].parameters == ()
    assert [p.name for p in found["grid"].parameters] == ["d", "a", "n"]


def test_a_declaration_without_names_gives_way_to_the_definition():
    found = signatures("__global__ void k(float *, int); __global__ void k(float *y, ptrdiff_t n) {}")["k"]
    assert [(p.name, p.kind) for p in found.parameters] == [("y", "float"), ("n", "ptrdiff_t")]


def test_a_tag_without_a_name_is_passed_as_a_byte():
    k = signatures("template <bool b> __global__ void k(float* y, std::bool_constant<b>) {}")["k"]
    y = torch.zeros(1)
    assert convert(k, (y, True), "cpu") == [(y.data_ptr(), ctypes.c_void_p), (0, ctypes.c_uint8)]


K = signatures("__global__ void k(float* y, const float4* x, int n, float f) {}")["k"]


def test_arguments_that_fit():
    y, x = torch.zeros(8), torch.zeros(8)
    values = convert(K, (y, x, 8, 2), "cpu")
    assert values == [
        (y.data_ptr(), ctypes.c_void_p),
        (x.data_ptr(), ctypes.c_void_p),
        (8, ctypes.c_int32),
        (2.0, ctypes.c_float),
    ]


def test_numbers_of_sixteen_bits_are_passed_as_their_bits():
    k = signatures("__global__ void k(half a, __nv_bfloat16 b, uint n, uint16_t m, int8_t z) {}")["k"]
    assert convert(k, (1.5, -2, 7, 65535, -3), "cpu") == [
        (0x3E00, ctypes.c_uint16),
        (0xC000, ctypes.c_uint16),
        (7, ctypes.c_uint32),
        (65535, ctypes.c_uint16),
        (-3, ctypes.c_int8),
    ]


def test_vectors_are_passed_as_tuples():
    k = signatures("__global__ void k(const int2 size, float3 x, dim3 grid) {}")["k"]
    values = [make(value) for value, make in convert(k, ((3, -4), (1.5, 2, 0.25), [7, 8, 9]), "cpu")]
    assert [tuple(v) for v in values] == [(3, -4), (1.5, 2.0, 0.25), (7, 8, 9)]
    assert [ctypes.sizeof(v) for v in values] == [8, 12, 12]
    for wrong, message in (
        (3, r"int2 size must be a tuple of 2 numbers, not 3"),
        ((1, 2, 3), "must be a tuple of 2 numbers"),
        ((1, 2.5), r"int size\[1\] is 2.5; an integer is needed"),
    ):
        with pytest.raises(ArgumentError, match=message):
            convert(k, (wrong, (1, 2, 3), (1, 1, 1)), "cpu")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((torch.zeros(8),), r"k takes 4 arguments \(float\* y, float4\* x, int n, float f\), but 1 were given"),
        ((3, torch.zeros(8), 8, 1.0), r"float\* y must be a tensor, not a int"),
        ((torch.zeros(8).double(), torch.zeros(8), 8, 1.0), r"y has dtype float64, but float\* needs float32"),
        ((torch.zeros(8, 2)[:, 0], torch.zeros(8), 8, 1.0), r"y is not contiguous"),
        ((torch.zeros(8), torch.zeros(9)[1:], 8, 1.0), r"x starts at an address that is not a multiple of 16 bytes"),
        ((torch.zeros(8), torch.zeros(8), 8.5, 1.0), r"int n is 8.5; an integer is needed"),
        ((torch.zeros(8), torch.zeros(8), 2**31, 1.0), r"int n is 2147483648, which does not fit into int"),
        ((torch.zeros(8), torch.zeros(8), torch.tensor(8), 1.0), r"int n is a tensor; pass a number"),
        ((torch.zeros(8), torch.zeros(8), "8", 1.0), r"int n must be a number, not a str"),
        ((torch.zeros(8, device="meta"), torch.zeros(8), 8, 1.0), r"y is on meta, but the kernel runs on cpu"),
    ],
)
def test_arguments_that_do_not_fit(arguments, message):
    with pytest.raises(ArgumentError, match=message):
        convert(K, arguments, "cpu")


def test_register_limits_are_no_part_of_the_name():
    found = signatures(
        "__global__ void __maxnreg__(64) f(float* x) {} __global__ __launch_bounds__(256, 2) void g() {}"
        "__global__ void __launch_bounds__((A * B) / (C * (D)), 1) h(int n) {}"
    )
    assert {name: len(s.parameters) for name, s in found.items()} == {"f": 1, "g": 0, "h": 1}


def test_a_macro_with_arguments_is_no_part_of_the_name():
    found = signatures(
        "#define BOUNDS(warps) __launch_bounds__(32 * (warps))\n"
        "__global__ void BOUNDS(2)\nf(float* x) {} __global__ void g(int n) __launch_bounds__(64) {}"
    )
    assert {name: [p.name for p in s.parameters] for name, s in found.items()} == {"f": ["x"], "g": ["n"]}
