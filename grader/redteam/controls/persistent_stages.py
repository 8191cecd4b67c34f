# tries: a persistent loop with stages, as in Triton's softmax tutorial
# exercise: 11_softmax/persistent_softmax
# expect: accepted

import torch
import triton
import triton.language as tl


def num_programs():
    if torch.cuda.is_available():
        return 4 * torch.cuda.get_device_properties(torch.cuda.current_device()).multi_processor_count
    return 8


@triton.jit
def softmax_kernel(
    output_ptr, input_ptr, input_row_stride, output_row_stride, n_rows, n_cols,
    BLOCK_SIZE: tl.constexpr, num_stages: tl.constexpr,
):  # fmt: skip
    row_start = tl.program_id(0)
    row_step = tl.num_programs(0)
    for row_idx in tl.range(row_start, n_rows, row_step, num_stages=num_stages):
        row_start_ptr = input_ptr + row_idx * input_row_stride
        col_offsets = tl.arange(0, BLOCK_SIZE)
        input_ptrs = row_start_ptr + col_offsets
        mask = col_offsets < n_cols
        row = tl.load(input_ptrs, mask=mask, other=-float("inf")).to(tl.float32)
        row_minus_max = row - tl.max(row, axis=0)
        numerator = tl.exp(row_minus_max)
        denominator = tl.sum(numerator, axis=0)
        softmax_output = numerator / denominator
        output_row_start_ptr = output_ptr + row_idx * output_row_stride
        output_ptrs = output_row_start_ptr + col_offsets
        tl.store(output_ptrs, softmax_output, mask=mask)


def persistent_softmax(x, out):
    n_rows, n_cols = x.shape
    BLOCK_SIZE = triton.next_power_of_2(n_cols)
    grid = (min(num_programs(), n_rows), 1, 1)
    softmax_kernel[grid](out, x, x.stride(0), out.stride(0), n_rows, n_cols, BLOCK_SIZE, 2, num_warps=8)
