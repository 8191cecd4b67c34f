# expect: unfilled
# The stub.
import triton
import triton.language as tl

LOG2_E = tl.constexpr(1.4426950408889634)
LN_2 = tl.constexpr(0.6931471805599453)


@triton.jit
def join(s, v, m, l, acc, scale):
    tl.static_assert(False, "join is not written yet")


@triton.jit
def partial_kernel(
    q_ptr, k_ptr, v_ptr, lengths_ptr, part_ptr, lse_ptr, chunk, scale,
    stride_qb, stride_qh, stride_kb, stride_kh, stride_kn, stride_vb, stride_vh, stride_vn,
    stride_pb, stride_ph, stride_ps, stride_lb, stride_lh, GROUP,
    D: tl.constexpr, BLOCK_G: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    split, key_head, b = tl.program_id(0), tl.program_id(1), tl.program_id(2).to(tl.int64)
    offs_g, offs_n, offs_d = tl.arange(0, BLOCK_G), tl.arange(0, BLOCK_N), tl.arange(0, D)
    length = tl.load(lengths_ptr + b)
    m = tl.full((BLOCK_G,), -float("inf"), tl.float32)
    l = tl.zeros((BLOCK_G,), tl.float32)
    acc = tl.zeros((BLOCK_G, D), tl.float32)
    tl.static_assert(False, "partial_kernel is not written yet")


def strides(*arrays):
    """All strides but the last of each array, one after the other, as the kernels take them."""
    return [s for x in arrays for s in x.stride()[:-1]]


def constants(q, key_heads):
    group = q.shape[1] // key_heads
    return dict(GROUP=group, D=q.shape[2], BLOCK_G=max(16, triton.next_power_of_2(group)), BLOCK_N=16)


def partial(q, k, v, lengths, chunk, part, lse):
    B, HK, N, D = k.shape
    partial_kernel[part.shape[2], HK, B](
        q, k, v, lengths, part, lse, chunk, LOG2_E.value * D**-0.5, *strides(q, k, v, part, lse), **constants(q, HK)
    )
