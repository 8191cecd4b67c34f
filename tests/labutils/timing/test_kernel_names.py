"""Names as profilers have shown them, collected from public traces and issue threads."""

import pytest

from labutils.timing.kernel_names import RULES, decode, short

# name, library, operation, architecture, tile, types
NAMES = """\
sm90_xmma_gemm_f16f16_f16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_segment_k_off_kernel__5x_cublas | cuBLAS | matmul | 90 | 128x128x64 | fp16
sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize64x64x64_warpgroupsize1x1x1_execute_segment_k_off_kernel__5x_cublas | cuBLAS | matmul | 90 | 64x64x64 | bf16
sm90_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize128x128x32_warpgroupsize1x1x1_execute_segment_k_off_kernel__5x_cublas | cuBLAS | matmul | 90 | 128x128x32 | tf32
sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize128x64x8_stage3_warpsize2x2x1_ffma_aligna4_alignc4_execute_kernel__51_cublas | cuBLAS | matmul | 80 | 128x64x8 | fp32
sm80_xmma_gemm_f16f16_f16f32_f32_tn_n_tilesize64x64x32_stage3_warpsize2x2x1_tensor16x8x16_kernel | cuBLAS | matmul | 80 | 64x64x32 | fp16
sm86_xmma_fprop_implicit_gemm_tf32f32_tf32f32_f32_nhwckrsc_nchw_tilesize128x128x16_stage4_warpsize2x2x1_g1_tensor16x8x8_kernel_cudnn | cuDNN | fprop implicit gemm | 86 | 128x128x16 | tf32
nvjet_tst_256x128_64x4_1x2_h_bz_coopA_NNT | cuBLAS | matmul | 90 | 256x128x64 | bf16
nvjet_tst_192x192_64x4_2x1_v_bz_coopB_TNN | cuBLAS | matmul | 90 | 192x192x64 | bf16
nvjet_tst_128x128_64x6_2x1_v_bz_bias_TNT | cuBLAS | matmul + bias | 90 | 128x128x64 | bf16
nvjet_hsh_128x256_64x4_1x2_h_bz_coopA_NTT | cuBLAS | matmul | 90 | 128x256x64 | fp16
nvjet_sm100_tst_64x16_64x16_2x4_2cta_h_bz_splitK_TNT | cuBLAS | matmul | 100 | 64x16x64 | bf16
nvjet_sm120_tst_mma_64x64x128_3_32x32x128_tmaAB_alignCD4_bz_TNNN | cuBLAS | matmul | 120 | 64x64x128 | bf16
ampere_sgemm_128x64_tn | cuBLAS | matmul | 80 | 128x64 | fp32
ampere_sgemm_64x32_sliced1x4_nn | cuBLAS | matmul | 80 | 64x32 | fp32
ampere_fp16_s16816gemm_fp16_128x128_ldg8_f2f_stages_32x5_nn | cuBLAS | matmul | 80 | 128x128x32 | fp16
ampere_bf16_s16816gemm_bf16_256x128_ldg8_f2f_stages_32x3_nn | cuBLAS | matmul | 80 | 256x128x32 | bf16
turing_fp16_s1688gemm_fp16_128x128_ldg8_f2f_tn | cuBLAS | matmul | 75 | 128x128 | fp16
volta_sgemm_128x64_nn | cuBLAS | matmul | 70 | 128x64 | fp32
void cutlass::Kernel2<cutlass_80_tensorop_f16_s16816gemm_f16_128x128_32x4_tn_align8>(T1::Params) | CUTLASS or cuBLAS | matmul | 80 | 128x128x32 | fp16
void cutlass::Kernel2<cutlass_80_tensorop_s1688gemm_128x256_16x3_nn_align4>(cutlass_80_tensorop_s1688gemm_128x256_16x3_nn_align4::Params) | CUTLASS or cuBLAS | matmul | 80 | 128x256x16 | tf32
void cutlass::Kernel<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_256x128_32x3_tn_align8>(T1::Params) | CUTLASS or cuBLAS | matmul + relu | 80 | 256x128x32 | bf16
void cutlass::Kernel2<cutlass_80_simt_sgemm_128x256_8x4_nt_align1>(T1::Params) | CUTLASS or cuBLAS | matmul | 80 | 128x256x8 | fp32
cutlass_75_tensorop_bf16_s1688gemm_bf16_256x128_nn_align1 | CUTLASS or cuBLAS | matmul | 75 | 256x128 | bf16
void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul> >(int, ...) | PyTorch | elementwise (add) | None | None | fp32
void at::native::vectorized_elementwise_kernel<4, at::native::GeluCUDAKernelImpl(at::TensorIteratorBase&, at::native::GeluType)::{lambda()#1}::operator()() const::{lambda(float)#1}, std::array<char*, 2ul> >(int, ...) | PyTorch | elementwise (Gelu) | None | None | fp32
void at::native::elementwise_kernel<128, 4, at::native::gpu_kernel_impl_nocast<at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)::{lambda()#3}::operator()() const::{lambda(c10::BFloat16)#1}>(...) | PyTorch | elementwise, strided (direct_copy) | None | None | bf16
void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::func_wrapper_t<float, at::native::sum_functor<float, float, float>::operator()(at::TensorIterator&)::{lambda(float, float)#1}>, unsigned int, float, 4, 4> >(...) | PyTorch | reduction (sum) | None | None | fp32
void at::native::(anonymous namespace)::cunn_SoftMaxForward<4, float, float, float, at::native::(anonymous namespace)::SoftMaxForwardEpilogue>(float*, float const*, int) | PyTorch | softmax | None | None | fp32
void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<(int)128, (int)128, (int)64, (int)4, (bool)0, (bool)0, cutlass::bfloat16_t>>(Flash_fwd_params) | FlashAttention-2 | attention | 80 | 128x64 | bf16
void flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel<Flash_bwd_kernel_traits<(int)64, (int)128, (int)128, (int)8, cutlass::half_t>> | FlashAttention-2 | attention backward | 80 | 128x128 | fp16
cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7_64x128x128_4x1x1_kernel0_0 | cuDNN | attention | 90 | 64x128x128 | fp16
cudnn_generated_fort_native_sdpa_sm80_flash_fprop_wmma_f16_knob_3_64x64x128_4x1x1_kernel0_0 | cuDNN | attention | 80 | 64x64x128 | fp16
fmha_cutlassF_f16_aligned_64x128_rf_sm80(PyTorchMemEffAttention::AttentionKernel<cutlass::half_t>::Params) | PyTorch (memory-efficient attention) | attention | 80 | 64x128 | fp16
triton_poi_fused_add_gelu_0 | torch.compile | elementwise (add_gelu) | None | None | None
triton_red_fused__to_copy_add_mean_mul_pow_rsqrt_1 | torch.compile | reduction in a loop (to_copy_add_mean_mul_pow_rsqrt) | None | None | None
Memcpy DtoD (Device -> Device) | CUDA | copy DtoD | None | None | None
void cublasLt::splitKreduce_kernel<32, 16, int, float, __nv_bfloat16, float>(cublasLt::cublasSplitKParams<float>, ...) | cuBLAS | sum of the parts of a matmul with split K | None | None | None
ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>) | NCCL | all-reduce | None | None | None
vector_add_kernel | your own, or a library not known here | vector_add_kernel | None | None | None"""  # noqa: E501


def row(line):
    name, library, operation, architecture, tile, types = line.split(" | ")
    size = None if tile == "None" else tuple(map(int, tile.split("x")))
    return name, (library, operation, None if architecture == "None" else int(architecture), size, types)


@pytest.mark.parametrize("name, expected", [row(line) for line in NAMES.splitlines()], ids=lambda v: v[:40])
def test_a_name_says_who_what_where(name, expected):
    k = decode(name)
    assert (k.library, k.operation, k.architecture, k.tile, str(k.types)) == expected


def test_pipes():
    assert "ordinary" in decode("ampere_sgemm_128x64_tn").pipe
    assert "tensor" in decode("ampere_fp16_s16816gemm_fp16_128x128_ldg8_f2f_stages_32x5_nn").pipe
    assert decode("nvjet_tst_64x24_64x16_4x1_v_bz_splitK_TNT").notes[-1] == "K split over blocks"


@pytest.mark.parametrize("name", ["", "kernel", "triton_", "nvjet", "sm90_xmma_gemm_", "cutlass", "void f<int>(int)"])
def test_any_name_is_read_without_an_error(name):
    assert decode(name).name == name and all(rule(name) is None or rule(name).name == name for rule in RULES)


def test_short_names_fit():
    assert len(short(NAMES.splitlines()[23], 40)) == 40 and short("add_kernel") == "add_kernel"
