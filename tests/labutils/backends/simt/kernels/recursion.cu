// a device function that calls itself
__device__ int fibonacci(int n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }
__global__ void recursion(int* out) { out[threadIdx.x] = fibonacci(threadIdx.x % 12); }
