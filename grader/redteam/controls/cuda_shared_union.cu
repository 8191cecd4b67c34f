// tries: a union in shared memory whose members are used one after the other, recursion of templates
// exercise: 10_reduction/sum_v3
// expect: accepted
template <int S>
struct Halve {
    __device__ static void run(float* tile, int t) {
        if (t < S) tile[t] += tile[t + S];
        __syncthreads();
        Halve<S / 2>::run(tile, t);
    }
};
template <>
struct Halve<0> {
    __device__ static void run(float*, int) {}
};

__global__ void reduce_v3(const float *x, float *partial, int n) {
    __shared__ union Storage {
        float tile[256];
        int counts[256];
    } storage;
    const int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    storage.tile[t] = i < n ? x[i] : 0.0f;
    __syncthreads();
    Halve<128>::run(storage.tile, t);
    if (t == 0) partial[blockIdx.x] = storage.tile[0];
}
