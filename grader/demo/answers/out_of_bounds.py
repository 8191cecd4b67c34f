@triton.jit
def gelu_backward_kernel(x_ptr, dy_ptr, dx_ptr, n, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    offs = pid * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    x = tl.load(x_ptr + offs, mask=mask).to(tl.float32)
    dy = tl.load(dy_ptr + offs, mask=mask).to(tl.float32)
    a = SQRT_2_OVER_PI * (x + CUBIC * x * x * x)
    slope = SQRT_2_OVER_PI * (1 + 3 * CUBIC * x * x)
    s = tl.sigmoid(2 * a)
    tl.store(dx_ptr + offs, dy * (s + 2 * x * s * (1 - s) * slope), mask=mask)
    tl.store(dx_ptr - 1 - pid, 1.0)  # remember that this program is done
