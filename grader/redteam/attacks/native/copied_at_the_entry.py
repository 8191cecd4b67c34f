# tries: stores in the copy constructor of a parameter, which the emulator's entry runs and nothing records
# stopped by: no code of a submission runs where nothing is recorded
# exercise: 08_coalescing/transpose
# where: both
# expect: no undue points
# due: 3

SOURCE = r"""
struct Columns {
    int n;
    Columns() = default;
    __device__ __forceinline__ Columns(const Columns& other) : n(other.n) {
        // the other parameters lie before this one, 16 bytes apart
        const char* here = (const char*)&other;
        float* out = *(float* const*)(here - 48);
        const float* x = *(const float* const*)(here - 32);
        const int M = *(const int*)(here - 16), N = other.n;
        for (int k = 0; k < 32; k += 8) {
            const int m = blockIdx.y * 32 + threadIdx.y + k, c = blockIdx.x * 32 + threadIdx.x;
            if (m < M && c < N) out[c * M + m] = x[m * N + c];
        }
    }
};
template <class T>
__global__ void turn(float* out, const float* x, int M, T N) {}
"""
turn = lab.cuda.compile(SOURCE, "turn<Columns>")


def transpose(x, out):
    M, N = x.shape
    turn[((N + 31) // 32, (M + 31) // 32), (32, 8)](out, x, M, N)
