// two dimensions, bytes
__global__ void grey(const unsigned char* rgb, unsigned char* out, int height, int width) {
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height) return;
    const unsigned char* p = rgb + 3 * (y * width + x);
    out[y * width + x] = (unsigned char)(0.25f * p[0] + 0.5f * p[1] + 0.25f * p[2]);
}
