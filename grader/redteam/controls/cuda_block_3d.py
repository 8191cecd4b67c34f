# tries: three-dimensional blocks and grids, and a linear index from all of them
# exercise: 02_execution_model/mirror
# expect: accepted

SOURCE = r"""
__global__ void mirror3(const float* x, float* out, int M, int N) {
    const dim3 place(blockIdx.x * blockDim.x + threadIdx.x, blockIdx.y * blockDim.y + threadIdx.y,
                     blockIdx.z * blockDim.z + threadIdx.z);
    const unsigned row = place.z * gridDim.y * blockDim.y + place.y;
    if (row < M && place.x < N) out[row * N + (N - 1 - place.x)] = x[row * N + place.x];
}
"""
mirror3 = lab.cuda.compile(SOURCE, "mirror3")


def mirror(x, out):
    M, N = x.shape
    mirror3[((N + 31) // 32, 2, (M + 15) // 16), (32, 4, 2)](x, out, M, N)
