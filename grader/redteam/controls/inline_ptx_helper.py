# tries: fast exponentials in inline PTX, in a helper, in an exercise with points for speed
# exercise: 06_elementwise_triton/gelu
# expect: accepted
# without a gpu: needs-gpu

import triton
import triton.language as tl


@triton.jit
def fast_exp2(x):
    return tl.inline_asm_elementwise(
        """
        {
            ex2.approx.ftz.f32 $0, $1;
        }
        """,
        "=f,f",
        [x],
        dtype=tl.float32,
        is_pure=True,
        pack=1,
    )


@triton.jit
def gelu_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n).to(tl.float32)
    a = 0.7978845608028654 * (x + 0.044715 * x * x * x)
    tl.store(out_ptr + offs, x / (1.0 + fast_exp2(-2.8853900817779268 * a)), mask=offs < n)


def gelu(x, out):
    n = x.numel()
    gelu_kernel[(triton.cdiv(n, 1024),)](x, out, n, BLOCK=1024)
