@triton.jit
def gelu_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    offs = pid * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    x = tl.load(x_ptr + offs, mask=mask)
    a = ((x + x * x * x * CUBIC) * SQRT_2_OVER_PI).to(tl.float16)
    s = tl.sigmoid(2 * a.to(tl.float32)).to(tl.float16)
    tl.store(out_ptr + offs, x * s, mask=mask)
