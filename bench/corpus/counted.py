"""Kernels of the corpus whose counters are compared with Nsight Compute: chosen before any of their counts was known,
for what they do: wide and narrow accesses, halves, atomics, transposes, tiles, asynchronous copies, tensor cores."""

CHOSEN = (
    "LeetCUDA/kernels/elementwise/elementwise.cu:elementwise_add_f16x8_pack_kernel",
    "LeetCUDA/kernels/embedding/embedding.cu:embedding_f32x4_kernel",
    "LeetCUDA/kernels/reduce/block_all_reduce.cu:block_all_reduce_sum_f32x4_f32_kernel",
    "LeetCUDA/kernels/histogram/histogram.cu:histogram_i32_kernel",
    "LeetCUDA/kernels/softmax/softmax.cu:safe_softmax_f16x2_f32_per_token_kernel",
    "LeetCUDA/kernels/layer-norm/layer_norm.cu:layer_norm_f32_kernel",
    "LeetCUDA/kernels/mat-transpose/mat_transpose.cu:mat_transpose_f32x4_shared_row2col2d_kernel",
    "LeetCUDA/kernels/mat-transpose/mat_transpose.cu:mat_transpose_f32x4_shared_bcf_merge_write_row2col2d_kernel",
    "LeetCUDA/kernels/swizzle/mat_trans_swizzle.cu:mat_trans_smem_naive_kernel",
    "LeetCUDA/kernels/sgemv/sgemv.cu:sgemv_k128_f32x4_kernel",
    "LeetCUDA/kernels/sgemm/sgemm.cu:sgemm_sliced_k_f32_kernel",
    "LeetCUDA/kernels/sgemm/sgemm_async.cu:sgemm_t_8x8_sliced_k16_f32x4_bcf_dbuf_async_kernel",
    "LeetCUDA/kernels/hgemm/mma/basic/hgemm_mma.cu:hgemm_mma_m16n8k16_mma2x4_warp4x4_kernel",
    "LeetCUDA/kernels/flash-attn/mma/basic/flash_attn_mma_split_q.cu:flash_attn_mma_stages_split_q_kernel",
    "SGEMM_CUDA/src/kernels/2_kernel_global_mem_coalesce.cuh:sgemm_global_mem_coalesce",
    "SGEMM_CUDA/src/kernels/5_kernel_2D_blocktiling.cuh:sgemm2DBlocktiling",
    "SGEMM_CUDA/src/kernels/10_kernel_warptiling.cuh:sgemmWarptiling",
    "llm.c/dev/cuda/layernorm_forward.cu:layernorm_forward_kernel3",
    "llm.c/dev/cuda/adamw.cu:adamw_kernel2",
    "cuda-samples/Samples/6_Performance/transpose/transpose.cu:transposeNoBankConflicts",
)
"""Each case as `source/path:kernel`, without template arguments."""
