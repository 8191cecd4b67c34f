# tries: a launcher inside a torch.autograd.Function, as Liger and unsloth have it
# exercise: 13_fusion/rms_norm
# expect: accepted

import functools

import torch
import triton
import triton.language as tl


def ensure_contiguous(fn):
    @functools.wraps(fn)
    def wrapper(ctx, *args, **kwargs):
        return fn(ctx, *args, **kwargs)

    return wrapper


@triton.jit
def _rms_layernorm_forward(
    Y, Y_row_stride: tl.constexpr, X, X_row_stride: tl.constexpr, W, n_cols: tl.constexpr, eps: tl.constexpr,
    BLOCK_SIZE: tl.constexpr,
):  # fmt: skip
    row_idx = tl.program_id(0)
    col_offsets = tl.arange(0, BLOCK_SIZE)
    mask = col_offsets < n_cols
    Y += row_idx * Y_row_stride
    X += row_idx * X_row_stride
    X_row = tl.load(X + col_offsets, mask=mask, other=0).to(tl.float32)
    W_row = tl.load(W + col_offsets, mask=mask, other=0)
    row_var = tl.sum(X_row * X_row, axis=0) / n_cols
    inv_var = tl.math.rsqrt(row_var + eps)
    normed = X_row * inv_var
    tl.store(Y + col_offsets, normed * W_row, mask=mask)


class Fast_RMS_Layernorm(torch.autograd.Function):
    @staticmethod
    @ensure_contiguous
    def forward(ctx, X, W, Y, eps: float):
        n_rows, n_cols = X.shape
        BLOCK_SIZE = triton.next_power_of_2(n_cols)
        _rms_layernorm_forward[(n_rows,)](
            Y, Y.stride(0), X, X.stride(0), W, n_cols, eps, BLOCK_SIZE=BLOCK_SIZE, num_warps=4
        )
        ctx.eps = eps
        return Y

    @staticmethod
    def backward(ctx, dY):
        raise NotImplementedError


@torch.no_grad()
def rms_norm(x, w, out):
    Fast_RMS_Layernorm.apply(x, w, out, 1e-6)
