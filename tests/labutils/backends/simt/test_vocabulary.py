"""Words of CUDA C++ that kernels in public repositories use: each gives what it gives on a GPU."""

import math

import pytest
import torch

from labutils.backends import simt
from labutils.cuda import nvrtc

WORDS = """
#include <cuda.h>
#include <cuda_fp16.h>
#include <cuda_bf16.h>
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#pragma nv_diag_suppress static_var_with_dynamic_init
template <class T> struct Memory {
    __device__ operator T*() { extern __shared__ int __smem_d[]; return (T*)__smem_d; }
};
using combine_t = float (*)(float, float);
template <combine_t combine> __device__ float folded(float a, float b) { return combine(a, b); }
template <float (*f)(float)> __device__ float mapped(float x) { return f(x); }
__device__ float sum(float a, float b) { return a + b; }
__device__ float twice(float x) { return 2 * x; }

__device__ float kept(float x) {
    static __shared__ float memory[1];
    __shared__ static float more[1];
    memory[0] = x, more[0] = x;
    return memory[0] + more[0];
}

__global__ void k(float* y, unsigned* u, float* s, __nv_bfloat16* unused) {
    auto tile = cooperative_groups::tiled_partition<32>(cooperative_groups::this_thread_block());
    unsigned t = tile.thread_rank();
    float4 v = tile.shfl_xor(make_float4(t, t + 100, t + 200, t + 300), 1);
    s[t] = v.w;
    float* memory = Memory<float>();
    memory[t] = v.x;
    if (t) return;
    int exponent;
    y[0] = frexp(-12.0f, &exponent), y[1] = exponent;
    y[2] = frexp(0.0, &exponent), y[3] = exponent;
    y[4] = frexp(0x1p-140, &exponent), y[5] = exponent;
    double whole;
    y[6] = modf(-2.75, &whole), y[7] = whole;
    y[8] = folded<sum>(3, 4), y[9] = mapped<twice>(5), y[10] = M_PI, y[11] = memory[0];
    y[14] = __half2int_rz(half(-2.5f)) + 10 * __half2int_rd(half(-2.5f)) + 100 * __half2uint_ru(half(2.5f));
    y[15] = __half2short_rn(half(2.5f)) + 10 * __bfloat162int_rz(__nv_bfloat16(-7.5f)) + 100 * (int)__short2half_rn(-3);
    y[12] = kept(21), y[13] = M_LN10 * M_LOG10E + M_LN2 * M_LOG2E + M_1_PI * M_PI_4 + M_2_PI + M_2_SQRTPI;
    clock_t start = clock();
    u[0] = umin(~0u, 7u), u[1] = umax(~0u - 1, 7u), u[2] = clock() >= start;
    u[3] = atomicCAS_system(u + 4, 40u, 41u), u[5] = atomicCAS_block(u + 4, 41u, 42u);
    u[6] = ullmin(1ull << 40, 9ull), u[7] = llmax(-5ll, -6ll);
}
"""


def test_words_of_public_kernels(build):
    y, s, unused = torch.zeros(16), torch.zeros(32), torch.zeros(1, dtype=torch.bfloat16)
    u = torch.zeros(8, dtype=torch.int32)
    u[4] = 40
    assert build(WORDS)[1, 32, 128](y, u, s, unused).ok
    last = 2.25 + 2 / math.pi + 2 / math.sqrt(math.pi)
    assert y.tolist() == pytest.approx([-0.75, 4, 0, 0, 0.5, -139, -0.75, -2, 7, 10, math.pi, 1, 42, last, 268, -368])
    assert u.tolist() == [7, -2, 1, 40, 42, 41, 9, -5]
    assert s.tolist() == [300 + (t ^ 1) for t in range(32)]


PAIRS = """
#include <cuda_fp16.h>
#include <cuda_bf16.h>
#include <cuda/std/type_traits>
#include <type_traits>
template <class T, bool twice>
__device__ void add(T* p, T value, std::bool_constant<twice>) {
    static_assert(!std::is_same_v<T, float> && cuda::std::is_integral<int>::value && !std::is_pointer_v<T>);
    atomicAdd(p, value);
    if constexpr (twice) atomicAdd(p, value);
}
__global__ void k(__half2* h, __nv_bfloat162* b, unsigned short* bits) {
    add(h, __half2(1.0f, 0.5f), std::false_type{});
    add(b, __nv_bfloat162(2.0f, 0.25f), std::true_type{});
    if (threadIdx.x == 0) bits[0] = __bfloat16_as_ushort(__ushort_as_bfloat16(16320));
}
"""


def test_pairs_of_16_bit_floats_are_added_atomically(build):
    h, b, bits = torch.zeros(2).half(), torch.zeros(2).bfloat16(), torch.zeros(1, dtype=torch.int16)
    assert build(PAIRS)[2, 32, 0](h, b, bits).ok
    assert (h.tolist(), b.tolist(), bits.tolist()) == ([64, 32], [256, 32], [16320])


PRODUCTS = """
#include <mma.h>
using namespace nvcuda;
__global__ void k(double* d, int* i, const double* a, const signed char* b) {
    __builtin_assume(blockDim.x == 32);
    const double* aligned = reinterpret_cast<const double*>(__builtin_assume_aligned(a, 16));
    wmma::fragment<wmma::matrix_a, 8, 8, 4, double, wmma::row_major> da;
    wmma::fragment<wmma::matrix_b, 8, 8, 4, double, wmma::col_major> db;
    wmma::fragment<wmma::accumulator, 8, 8, 4, double> dc;
    wmma::load_matrix_sync(da, aligned, 4);
    wmma::load_matrix_sync(db, aligned, 4);
    wmma::fill_fragment(dc, 0.0);
    wmma::mma_sync(dc, da, db, dc);
    wmma::store_matrix_sync(d, dc, 8, wmma::mem_row_major);
    wmma::fragment<wmma::matrix_a, 16, 16, 16, signed char, wmma::row_major> ia;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, signed char, wmma::col_major> ib;
    wmma::fragment<wmma::accumulator, 16, 16, 16, int> ic;
    wmma::load_matrix_sync(ia, b, 16);
    wmma::load_matrix_sync(ib, b, 16);
    wmma::fill_fragment(ic, (1 << 30) + 1);
    wmma::mma_sync(ic, ia, ib, ic);
    wmma::store_matrix_sync(i, ic, 16, wmma::mem_row_major);
}
"""


def test_products_of_doubles_and_of_integers_are_as_exact_as_on_a_gpu(build):
    a, b = torch.randn(8, 4, dtype=torch.float64), torch.randint(-9, 9, (16, 16), dtype=torch.int8)
    d, i = torch.zeros(8, 8, dtype=torch.float64), torch.zeros(16, 16, dtype=torch.int32)
    assert build(PRODUCTS)[1, 32, 0](d, i, a, b).ok
    assert torch.allclose(d, a @ a.T, rtol=1e-14, atol=1e-14)
    assert torch.equal(i, b.int() @ b.int().T + (1 << 30) + 1)


LIMITS = """
#include <cmath>
#include <limits>
template <class T>
__device__ void ends(double* y) {
    using limits = std::numeric_limits<T>;
    y[0] = (double)limits::lowest(), y[1] = (double)limits::max(), y[2] = (double)limits::min(), y[3] = limits::digits;
}
__global__ void k(double* y, float* special) {
    ends<float>(y), ends<double>(y + 4), ends<int>(y + 8), ends<unsigned long long>(y + 12), ends<signed char>(y + 16);
    special[0] = std::numeric_limits<float>::infinity(), special[1] = std::numeric_limits<double>::quiet_NaN();
    special[2] = std::isinf(special[0]) + 2 * std::isnan(special[1]) + 4 * std::isfinite(special[0]);
    special[3] = std::numeric_limits<float>::epsilon(), special[4] = std::numeric_limits<float>::denorm_min();
}
"""


def test_limits_of_types(build):
    y, special = torch.zeros(20, dtype=torch.float64), torch.zeros(5)
    assert build(LIMITS)[1, 1](y, special).ok
    f, d = torch.finfo(torch.float32), torch.finfo(torch.float64)
    assert y[:8].tolist() == [f.min, f.max, f.tiny, 24, d.min, d.max, d.tiny, 53]
    assert y[8:].tolist() == [-(2**31), 2**31 - 1, -(2**31), 31, 0, 2.0**64, 0, 64, -128, 127, -128, 7]
    assert special.tolist()[0] == math.inf and math.isnan(special[1])
    assert special[2:].tolist() == [3, 2**-23, 2**-149]
    if nvrtc.available():
        nvrtc.compile_source(LIMITS, ("k",), 80)


COPIES = """
#include <cuda/barrier>
__global__ void k(float4* x) {
    __shared__ cuda::barrier<cuda::thread_scope_block> bar;
    __shared__ float4 s[32];
    if (threadIdx.x == 0) init(&bar, blockDim.x);
    __syncthreads();
    const auto size = cuda::aligned_size_t<alignof(float4)>(sizeof(float4));
    cuda::memcpy_async(s + threadIdx.x, x + threadIdx.x, size, bar);
    bar.arrive_and_wait();
    x[threadIdx.x] = s[31 - threadIdx.x];
}
"""


def test_a_copy_of_known_alignment_arrives_at_a_barrier(build):
    x = torch.arange(128.0)
    assert build(COPIES)[1, 32](x).ok
    assert torch.equal(x.view(32, 4), torch.arange(128.0).view(32, 4).flip(0))


@pytest.mark.parametrize(
    "use",
    [
        "F f = h; x[0] = f(x[1]);",
        "x[0] = ((F)(long)x[1])(x[2]);",
        "F table[2] = {h, h}; x[0] = table[(int)x[1]](x[2]);",
    ],
)
def test_a_function_pointer_that_is_more_than_a_template_parameter_is_refused(use):
    before = "using F = float (*)(float);\ntemplate <F f> __device__ float g(float x) { return f(x); }\n"
    before += "__device__ float h(float x) { return x + 1; }\n"
    with pytest.raises(simt.NeedsGpu, match="line 1: function pointers"):
        simt.compile(before + "__global__ void k(float* x) { " + use + " }")


def test_using_in_a_template_list_names_no_type():
    text = "template <using F = float (*)(float)> __device__ float g();\n"
    with pytest.raises(simt.CompileError, match="line 1"):
        simt.compile(text + "__global__ void k(float* x) { x[0] = 1; }")


@pytest.mark.parametrize("first", ["1 < 2", "(1 < 2)", "(3 >> 1)"])
def test_a_comparison_in_a_template_list_hides_no_pointer_behind_it(first):
    text = f"template <bool B = {first}> __device__ float g() {{ return B; }}\n"
    text += "__device__ float h(float x) { return x; }\n"
    with pytest.raises((simt.NeedsGpu, simt.CompileError), match="function pointers|expected"):
        simt.compile(text + "__global__ void k(float* x) { float (*f)(float) = h; x[0] = f(x[1]); }")


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("cudaTextureObject_t t = 0; x[0] = tex2D<float>(t, 0, 0);", "textures"),
        ("auto role = cuda::pipeline_role::producer;", "only produce"),
    ],
)
def test_what_the_emulator_lacks_is_named(body, words):
    with pytest.raises(simt.NeedsGpu, match=words):
        simt.compile("#include <cuda/pipeline>\n__global__ void k(float* x) { " + body + " }")


EIGHT_BITS = """
#include <cuda_fp8.h>
template <__nv_fp8_interpretation_t kind, class One, class Two, class Four>
__global__ void k(const double* x, unsigned char* stored, unsigned char* saturated, float* widened, unsigned* packed) {
    int i = threadIdx.x;
    stored[i] = __nv_cvt_double_to_fp8(x[i], __NV_NOSAT, kind);
    saturated[i] = One(x[i]).__x;
    One one;
    one.__x = (unsigned char)i;
    widened[i] = float(one);
    half h = __nv_cvt_fp8_to_halfraw(one.__x, kind);
    if (__half_raw(h).x != __half_raw(half(float(one))).x && float(h) == float(h)) widened[i] = -1;
    if (i) return;
    float4 f = float4(Four(make_float4(1, -2, 3, 0.5f)));
    float2 g = float2(Two(__floats2half2_rn(f.x, f.y)));
    packed[0] = Four(f).__x, packed[1] = Two(g).__x;
}
"""


@pytest.mark.parametrize(("kind", "dtype"), [("e4m3", torch.float8_e4m3fn), ("e5m2", torch.float8_e5m2)])
def test_numbers_of_8_bits(build, kind, dtype):
    codes = torch.arange(256, dtype=torch.uint8)
    numbers = codes.view(dtype).double()
    middles = (numbers[:-1] + numbers[1:]) / 2  # ties, and beyond the largest
    beside = middles.float().nextafter(torch.tensor(0.0)).double()
    x = torch.cat([numbers, middles, beside, torch.tensor([math.inf, -math.inf, 1e9, 1e-9])])[:1024].contiguous()
    stored, saturated = torch.zeros(1024, dtype=torch.uint8), torch.zeros(1024, dtype=torch.uint8)
    widened, packed = torch.zeros(1024), torch.zeros(2, dtype=torch.int32)
    n, up = len(x), kind.upper()
    kernel = build(EIGHT_BITS, f"k<__NV_{up}, __nv_fp8_{kind}, __nv_fp8x2_{kind}, __nv_fp8x4_{kind}>")
    assert kernel[1, n](x, stored, saturated, widened, packed).ok
    expected, largest = x.to(dtype).double(), numbers[numbers.isfinite()].max()
    given = stored[:n].view(dtype).double()
    if kind == "e4m3":  # PyTorch gives no NaN beyond the largest number there
        expected[x.abs() > 464] = math.nan
    assert torch.equal(given.nan_to_num(9e9), expected.nan_to_num(9e9))
    inside = saturated[:n].view(dtype).double()
    assert torch.equal(inside[~x.isnan()], torch.where(expected.isfinite(), expected, largest * x.sign())[~x.isnan()])
    assert torch.equal(widened[:256].double().nan_to_num(9e9), numbers.nan_to_num(9e9))
    parts = torch.tensor([1, -2, 3, 0.5]).to(dtype).view(torch.uint8).view(torch.int32)
    assert packed.tolist() == [int(parts[0]), int(parts[0]) & 0xFFFF]
