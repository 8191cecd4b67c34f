# tries: a row in chunks that a static loop keeps in a tuple of registers
# exercise: 13_fusion/layer_norm
# expect: accepted

import triton
import triton.language as tl


@triton.jit
def layer_norm_kernel(x_ptr, w_ptr, b_ptr, out_ptr, N, stride_x, stride_o, CHUNK: tl.constexpr, CHUNKS: tl.constexpr):
    row = tl.program_id(0)
    total = 0.0
    chunks = ()
    for i in tl.static_range(CHUNKS):
        cols = i * CHUNK + tl.arange(0, CHUNK)
        x = tl.load(x_ptr + row * stride_x + cols, mask=cols < N, other=0.0).to(tl.float32)
        total += tl.sum(x)
        chunks = chunks + (x,)
    mean = total / N
    square = 0.0
    for i in tl.static_range(0, CHUNKS, 1):
        cols = i * CHUNK + tl.arange(0, CHUNK)
        d = tl.where(cols < N, chunks[i] - mean, 0.0)
        square += tl.sum(d * d)
    rstd = tl.rsqrt(square / N + 1e-5)
    for i in tl.static_range(CHUNKS):
        cols = i * CHUNK + tl.arange(0, CHUNK)
        w = tl.load(w_ptr + cols, mask=cols < N).to(tl.float32)
        b = tl.load(b_ptr + cols, mask=cols < N).to(tl.float32)
        tl.store(out_ptr + row * stride_o + cols, (chunks[i] - mean) * rstd * w + b, mask=cols < N)


def layer_norm(x, w, b, out):
    M, N = x.shape
    layer_norm_kernel[(M,)](x, w, b, out, N, x.stride(0), out.stride(0), CHUNK=1024, CHUNKS=triton.cdiv(N, 1024))
