// Kernels of the runner itself: digests of memory, and what launchers ask of PyTorch (fills, strided copies).
typedef unsigned long long u64;

__device__ u64 mixed(u64 x) {  // the finisher of splitmix64 (Steele, Lea, Flood 2014)
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return x ^ (x >> 31);
}

// One number for words[0 .. n-1] that depends on each value, its place and a key that nobody else knows.
extern "C" __global__ void digest(const unsigned* words, u64 n, u64 key, u64* sum) {
    u64 mine = 0;
    for (u64 i = blockIdx.x * (u64)blockDim.x + threadIdx.x; i < n; i += (u64)gridDim.x * blockDim.x)
        mine += mixed(mixed(key + i) ^ words[i]);
    for (int lanes = 16; lanes; lanes >>= 1) mine += __shfl_down_sync(~0u, mine, lanes);
    if (threadIdx.x % 32 == 0) atomicAdd(sum, mine);
}

struct View { u64 shape[6], strides[6]; };

__device__ u64 place(const View& v, u64 i) {
    u64 at = 0;
    for (int axis = 5; axis >= 0; --axis) { at += i % v.shape[axis] * v.strides[axis]; i /= v.shape[axis]; }
    return at;
}

template <typename T>
__device__ void copy_elements(const char* from, char* to, View a, View b, u64 n) {
    for (u64 i = blockIdx.x * (u64)blockDim.x + threadIdx.x; i < n; i += (u64)gridDim.x * blockDim.x)
        ((T*)to)[place(b, i)] = ((const T*)from)[place(a, i)];
}

extern "C" __global__ void copy(const char* from, char* to, View a, View b, u64 n, int bytes) {
    if (bytes == 8) copy_elements<u64>(from, to, a, b, n);
    else if (bytes == 4) copy_elements<unsigned>(from, to, a, b, n);
    else if (bytes == 2) copy_elements<unsigned short>(from, to, a, b, n);
    else copy_elements<unsigned char>(from, to, a, b, n);
}

extern "C" __global__ void fill(char* to, u64 bits, u64 n, int bytes) {
    for (u64 i = blockIdx.x * (u64)blockDim.x + threadIdx.x; i < n; i += (u64)gridDim.x * blockDim.x) {
        if (bytes == 8) ((u64*)to)[i] = bits;
        else if (bytes == 4) ((unsigned*)to)[i] = bits;
        else if (bytes == 2) ((unsigned short*)to)[i] = bits;
        else ((unsigned char*)to)[i] = bits;
    }
}
