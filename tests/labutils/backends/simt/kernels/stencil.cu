#define SIDE 16
__global__ void stencil(const float* in, float* out, int height, int width) {
    __shared__ float s[SIDE + 2][SIDE + 2];
    int x = blockIdx.x * SIDE + threadIdx.x, y = blockIdx.y * SIDE + threadIdx.y;
    int lx = threadIdx.x + 1, ly = threadIdx.y + 1;
    auto at = [&](int row, int col) {
        return col >= 0 && col < width && row >= 0 && row < height ? in[row * width + col] : 0.0f;
    };
    s[ly][lx] = at(y, x);
    if (threadIdx.x == 0) s[ly][0] = at(y, x - 1);
    if (threadIdx.x == SIDE - 1) s[ly][SIDE + 1] = at(y, x + 1);
    if (threadIdx.y == 0) s[0][lx] = at(y - 1, x);
    if (threadIdx.y == SIDE - 1) s[SIDE + 1][lx] = at(y + 1, x);
    __syncthreads();
    if (x < width && y < height)
        out[y * width + x] = s[ly][lx] - 0.25f * (s[ly][lx - 1] + s[ly][lx + 1] + s[ly - 1][lx] + s[ly + 1][lx]);
}
