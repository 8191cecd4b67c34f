# tries: random numbers by tl.philox and uint_to_uniform_float
# exercise: 13_fusion_dropout/dropout_gelu
# expect: accepted

import triton
import triton.language as tl


@triton.jit
def dropout_kernel(h_ptr, bias_ptr, out_ptr, p, seed, N, stride_h, stride_o, QUADS: tl.constexpr):
    row = tl.program_id(0)
    quads = tl.program_id(1) * QUADS + tl.arange(0, QUADS)
    counter = row * tl.cdiv(N, 4) + quads
    r = tl.philox(seed, counter, counter * 0, counter * 0, counter * 0)
    for i in tl.static_range(4):
        u = tl.uint_to_uniform_float(r[i])
        cols = quads * 4 + i
        mask = cols < N
        x = tl.load(h_ptr + row * stride_h + cols, mask=mask, other=0.0).to(tl.float32)
        x += tl.load(bias_ptr + cols, mask=mask, other=0.0).to(tl.float32)
        y = x * tl.sigmoid(1.5957691216057308 * x * (1 + 0.044715 * x * x))
        tl.store(out_ptr + row * stride_o + cols, tl.where(u >= p, y / (1 - p), 0.0), mask=mask)


def dropout_gelu(h, bias, p, seed, out):
    M, N = h.shape
    grid = (M, triton.cdiv(N, 1024))
    dropout_kernel[grid](h, bias, out, p, seed, N, h.stride(0), out.stride(0), QUADS=256)
