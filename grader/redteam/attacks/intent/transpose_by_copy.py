# tries: lets PyTorch's copy_ transpose, beside a kernel that does nothing
# stopped by: a copy reaches no output
# exercise: 08_coalescing/transpose
# where: both
# expect: refused

nothing = lab.cuda.compile("__global__ void nothing(float* out) {}", "nothing")


def transpose(x, out):
    out.copy_(x.t())
    nothing[1, 32](out)
