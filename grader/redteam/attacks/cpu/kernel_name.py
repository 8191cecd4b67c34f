# tries: puts code into the name by which its kernel is launched
# stopped by: a kernel's name is a name
# exercise: 07_elementwise_cuda/vector_add
# where: both
# expect: refused

import dataclasses

SOURCE = "__global__ void add(const float* x, const float* y, float* out, int n) {\n    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) out[i] = x[i] + y[i];\n}\n"
add = lab.cuda.compile(SOURCE, "add")
add = dataclasses.replace(add, name="add) asm(\"nop\"); //")


def vector_add(x, y, out):
    add[(x.numel() + 255) // 256, 256](x, y, out, x.numel())
