# tries: rsqrt from libdevice's CUDA module, and settings by row length
# exercise: 13_fusion/rms_norm
# expect: accepted

import torch
import triton
import triton.language as tl
from triton.language.extra.cuda.libdevice import rsqrt

MAX_FUSED_SIZE = 65536


def calculate_settings(n):
    BLOCK_SIZE = triton.next_power_of_2(n)
    if BLOCK_SIZE > MAX_FUSED_SIZE:
        raise RuntimeError(f"Cannot launch Triton kernel since n = {n} exceeds {MAX_FUSED_SIZE}.")
    num_warps = 4
    if BLOCK_SIZE >= 32768:
        num_warps = 32
    elif BLOCK_SIZE >= 8192:
        num_warps = 16
    elif BLOCK_SIZE >= 2048:
        num_warps = 8
    return BLOCK_SIZE, num_warps


@triton.jit
def _rms_norm_forward_kernel(
    Y_ptr, Y_row_stride, X_ptr, X_row_stride, W_ptr, n_cols, eps, offset, BLOCK_SIZE: tl.constexpr
):
    row_idx = tl.program_id(0).to(tl.int64)
    col_offsets = tl.arange(0, BLOCK_SIZE)
    mask = col_offsets < n_cols
    X_row = tl.load(X_ptr + row_idx * X_row_stride + col_offsets, mask=mask, other=0).to(tl.float32)
    W_row = tl.load(W_ptr + col_offsets, mask=mask, other=0)
    mean_square = tl.sum(X_row * X_row, axis=0) / n_cols
    rstd = rsqrt(mean_square + eps)
    X_row = X_row * rstd
    tl.store(Y_ptr + row_idx * Y_row_stride + col_offsets, X_row * (offset + W_row), mask=mask)


def rms_norm(x, w, out):
    shape = x.shape
    n_rows, n_cols = shape[0], shape[-1]
    BLOCK_SIZE, num_warps = calculate_settings(n_cols)
    assert x.shape[1] == w.shape[0], "Incompatible hidden size dimension between tensor1.shape[1] and tensor2.shape[0]"
    assert isinstance(x, torch.Tensor)
    _rms_norm_forward_kernel[(n_rows,)](
        out, out.stride(0), x, x.stride(0), w, n_cols, 1e-6, 0.0, BLOCK_SIZE=BLOCK_SIZE, num_warps=num_warps
    )
