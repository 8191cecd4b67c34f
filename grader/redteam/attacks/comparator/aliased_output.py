# tries: lets the output be a transposed view of the input
# stopped by: outputs are the judge's own memory
# exercise: 08_coalescing/transpose
# where: both
# expect: refused

SOURCE = "__global__ void nothing(float* out) {}"
nothing = lab.cuda.compile(SOURCE, "nothing")


def transpose(x, out):
    out.set_(x.t())
    nothing[1, 32](out)
