// libcu++'s atomic_ref: a sum, a maximum, and a value that is handed on by release and acquire.
#include <cuda/atomic>

__global__ void library_atomics(const int* x, int* sum, int* largest, int* handed, int* flag, int* got, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) {
    cuda::atomic_ref<int, cuda::thread_scope_device>(*sum).fetch_add(x[i], cuda::memory_order_relaxed);
    cuda::atomic_ref<int>(*largest).fetch_max(x[i]);
  }
  cuda::atomic_ref<int, cuda::thread_scope_device> ready(*flag);
  if (blockIdx.x == 0 && threadIdx.x == 0) {
    *handed = 42;
    ready.store(1, cuda::memory_order_release);
  }
  if (blockIdx.x == 1 && threadIdx.x == 0) {
    while (ready.load(cuda::memory_order_acquire) == 0) {
    }
    *got = *handed;
  }
}
