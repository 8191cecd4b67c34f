"""Reading registers, shared memory and SASS out of cubins, for GPUs that are not here."""

import pytest

from labutils.cuda import cubin as look
from labutils.cuda import nvrtc

pytestmark = pytest.mark.skipif(not nvrtc.available(), reason="needs NVRTC (pip install nvidia-cuda-nvrtc)")

CAPABILITIES = [75, 80, 86, 89, 90, 100, 120]

SOURCE = """
#include <cuda_fp16.h>
#include <mma.h>
template <int BLOCK> __global__ void through_shared(float* y, const float* x) {
    __shared__ float s[BLOCK];
    s[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    y[threadIdx.x] = s[BLOCK - 1 - threadIdx.x];
}
__global__ void wide(float4* y, const float4* x) {
    y[threadIdx.x] = x[threadIdx.x];
}
__global__ void spilling(float* y, int k) {
    float a[512];
    for (int i = 0; i < 512; ++i) a[i] = y[i];
    y[0] = a[k];
}
__global__ void product(half* c, const half* a, const half* b) {
    using namespace nvcuda::wmma;
    fragment<matrix_a, 16, 16, 16, half, row_major> fa;
    fragment<matrix_b, 16, 16, 16, half, row_major> fb;
    fragment<accumulator, 16, 16, 16, half> acc;
    fill_fragment(acc, __float2half(0.0f));
    load_matrix_sync(fa, a, 16);
    load_matrix_sync(fb, b, 16);
    mma_sync(acc, fa, fb, acc);
    store_matrix_sync(c, acc, 16, mem_row_major);
}
"""
NAMES = ("through_shared<256>", "wide", "spilling", "product")


@pytest.fixture(scope="module", params=CAPABILITIES, ids=lambda c: f"sm_{c}")
def compiled(request):
    return request.param, nvrtc.compile_source(SOURCE, NAMES, request.param)


def test_capability_is_read_from_the_cubin(compiled):
    number, done = compiled
    assert look.capability(done.cubin) == divmod(number, 10)


def test_resources(compiled):
    _, done = compiled
    found = look.resources(done.cubin)
    shared = found[done.lowered["through_shared<256>"]]
    assert shared.shared == 1024 and shared.stack == 0 and 4 < shared.registers < 64
    assert found[done.lowered["spilling"]].stack >= 2048
    assert found[done.lowered["wide"]].shared == 0


def test_sass_knows_width_matrix_unit_and_lines():
    done = nvrtc.compile_source(SOURCE, NAMES, 80)
    code = look.sass(done.cubin)
    assert look.access_width(code[done.lowered["wide"]]) == 16
    assert look.access_width(code[done.lowered["through_shared<256>"]]) == 4
    assert look.matrix_instruction(code[done.lowered["product"]]) == "mma.sync"
    assert look.matrix_instruction(code[done.lowered["wide"]]) is None
    loads = [i for i in code[done.lowered["through_shared<256>"]] if i.opcode.startswith("LDG")]
    assert [SOURCE.splitlines()[i.line - 1].strip() for i in loads] == ["s[threadIdx.x] = x[threadIdx.x];"]
    assert look.mix(code[done.lowered["wide"]])["LDG.E.128"] == 1


def test_narrow_accesses_have_a_letter_before_their_bits():
    for opcode, width in (("LDG.E.U8", 1), ("LDG.E.S8.CONSTANT", 1), ("LDG.E.U16", 2), ("LDG.E", 4), ("LDG.E.64", 8)):
        assert look.access_width([look.Instruction(f"{opcode} R2, desc[UR4][R2.64]", 1)]) == width


def test_half_instruction_that_only_moves_is_no_tensor_core():
    """HFMA2.MMA is how the compiler writes a constant; it must not pass for a matrix instruction."""
    code = [look.Instruction("HFMA2.MMA R0, -RZ, RZ, 0, 0", 1)]
    assert look.matrix_instruction(code) is None


def test_occupancy_of_a_compiled_kernel():
    done = nvrtc.compile_source(SOURCE, NAMES, 80)
    r = look.resources(done.cubin)[done.lowered["through_shared<256>"]]
    assert r.occupancy((8, 0), 256).fraction == 1.0
    assert r.occupancy((8, 0), 256, dynamic_shared=100 << 10).blocks == 1
