"""Small kernels for test_dodges.py: what must not escape the counters, the race detector and the bounds.

Kernels of COUNTED and REFUSED_BOUNDS copy 4096 floats from x to y, by 32 blocks of 128 threads, one element for each
thread. P(i) is a permutation by which the 32 lanes of a warp touch 32 sectors.
"""

# fmt: off
N = 4096
PLACE = """
__device__ int P(int i) { return i % 32 * 128 + i / 32; }
#define I (blockIdx.x * blockDim.x + threadIdx.x)
"""


def copy(body: str, before: str = "", includes: str = "") -> str:
    return f"{includes}{PLACE}{before}\n__global__ void k(float* x, float* y, int n) {{ int p = P(I); {body} }}"


CG = "#include <cooperative_groups.h>\n#include <cooperative_groups/reduce.h>\n"

# The uncoalesced side of each kernel: "load", "store" or both.
COUNTED = {
    "plain": (copy("y[p] = x[p];"), "load store"),
    "volatile": (copy("((volatile float*)y)[p] = ((volatile float*)x)[p];"), "load store"),
    "atomic_add_zero": (copy("y[p] = atomicAdd(&x[p], 0.0f);"), "load"),
    "atomic_or_zero": (copy("((int*)y)[p] = atomicOr((int*)&x[p], 0);"), "load"),
    "atomic_cas_load": (copy("((int*)y)[p] = atomicCAS((int*)&x[p], 0, 0);"), "load"),
    "atomic_exchange_store": (copy("atomicExch(&y[p], x[I]);"), "store"),
    "atomic_both": (copy("atomicExch(&y[p], atomicAdd(&x[p], 0.0f));"), "load store"),
    "atomic_beside_good_loads": (
        copy("float a = x[I]; atomicExch(&y[p], atomicAdd(&x[p], 0.0f) + 0.0f * a); y[I] = y[I];"), "load store"),
    "builtin_memcpy": (copy("__builtin_memcpy(y + p, x + p, n / 1024);"), "load store"),
    "builtin_memcpy_wide": (
        copy("if (I < 64) __builtin_memcpy(y + 64 * I, x + 64 * I, n / 16);"), "load store"),
    "memcpy": (copy("memcpy(y + p, x + p, n / 1024);"), "load store"),
    "builtin_memmove": (copy("__builtin_memmove(y + p, x + p, n / 1024);"), "load store"),
    "builtin_memcmp": (copy("((int*)y)[p] = __builtin_memcmp(x + p, y + p, n / 1024);"), "load store"),
    "sincos_to_memory": (copy("float c; sincosf(x[p], &y[p], &c); y[p] = x[p];"), "load store"),
    "reduce_callback_load": (
        copy("auto t = cooperative_groups::tiled_partition<32>(cooperative_groups::this_thread_block());"
             " y[I] = cooperative_groups::reduce(t, Item{x, p, 0}, Fetch{}).v;",
             "struct Item { float* x; int p; float v; }; struct Fetch {"
             " __device__ Item operator()(Item a, Item b) const { return {a.x, a.p, a.v + b.x[b.p]}; }"
            " };", CG), "load"),
    "reduce_callback_store": (
        copy("auto t = cooperative_groups::tiled_partition<32>(cooperative_groups::this_thread_block());"
             " cooperative_groups::reduce(t, Pair{x, y, p}, Put{}); if (threadIdx.x % 32 == 0) y[p] = x[p];",
             "struct Pair { float* x; float* y; int p; }; struct Put {"
             " __device__ Pair operator()(Pair a, Pair b) const { b.y[b.p] = b.x[b.p]; return b; } };", CG),
        "load store"),
    "scan_callback": (
        copy("auto t = cooperative_groups::tiled_partition<32>(cooperative_groups::this_thread_block());"
             " cooperative_groups::inclusive_scan(t, Pair{x, y, p}, Put{}); if (threadIdx.x % 32 == 0) y[p] = x[p];",
             "struct Pair { float* x; float* y; int p; }; struct Put {"
             " __device__ Pair operator()(Pair a, Pair b) const { b.y[b.p] = b.x[b.p]; return b; } };",
             CG + "#include <cooperative_groups/scan.h>\n"), "load store"),
    "runtime_shuffle_into_memory": (
        copy("int q = P(I) % 2048, low = threadIdx.x % 32 < 16; simt_shuffle(\"s\", ~0u,"
             " (unsigned long long*)(low ? x : y) + q, 16, 32, 1);"), "load store"),
    "fragment_in_memory": (
        "#include <mma.h>\nusing namespace nvcuda;\n"
        "typedef wmma::fragment<wmma::accumulator, 16, 16, 16, float> F;\n"
        "__global__ void k(float* x, float* y, int n) { wmma::fragment<wmma::matrix_a, 16, 16, 16, half,"
            " wmma::row_major> a;"
        " wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> b; wmma::fill_fragment(a, 0.0f);"
        " wmma::fill_fragment(b, 0.0f); if (blockIdx.x < 4) { int i = blockIdx.x * 128 + threadIdx.x;"
        " wmma::mma_sync(((F*)y)[i], a, b, ((F*)x)[i]); } }", "load store"),
    "copy_async_to_memory": (
        copy("if (I < 1024) { int q = I % 32 * 32 + I / 32; __pipeline_memcpy_async(y + 4 * q, x + 4 * q, 16); }", "",
             "#include <cuda_pipeline.h>\n"), "load store"),
    "group_memcpy_async": (
        copy("__shared__ float s[128 * 4]; auto g = cooperative_groups::this_thread_block();"
             " for (int r = 0; r < 1; r++) cooperative_groups::memcpy_async(g, y + blockIdx.x * 128, x +"
            " blockIdx.x * 128,"
             " 512); cooperative_groups::wait(g);", "", CG + "#include"
            " <cooperative_groups/memcpy_async.h>\n"), "load store all"),
    "copy_async_shared": (
        copy("__shared__ float s[128]; __pipeline_memcpy_async(s + threadIdx.x, x + p, 4); __pipeline_commit();"
             " __pipeline_wait_prior(0); y[p] = s[threadIdx.x];", "", "#include <cuda_pipeline.h>\n"), "load store"),
    "function_template": (
        copy("each(x, y, p, [](float* a, float* b, int i) { b[i] = a[i]; });",
             "template <class F> __device__ void each(float* a, float* b, int i, F f) { f(a, b, i); }"), "load"
            " store"),
    "cache_hints": (copy("__stcg(y + p, __ldcg(x + p));"), "load store"),
    "struct_copy": (
        copy("if (I < 256) ((S*)y)[I] = ((S*)x)[I];", "struct S { float v[16]; };"), "load store"),
}

# Orders that nobody established: (source, grid, block). `data`, `flag` and `out` are int arrays of 1024.
HEAD = "__global__ void k(int* data, int* flag, int* out) { "
RACES = {
    "flag_read_once_and_ignored": (
        HEAD + "if (threadIdx.x) return; if (blockIdx.x == 0) { data[0] = 42; __threadfence(); atomicExch(flag, 1); }"
        " else { atomicAdd(flag, 0); out[0] = data[0]; } }", 2, 32),
    "flag_read_once_volatile": (
        HEAD + "if (threadIdx.x) return; if (blockIdx.x == 0) { data[0] = 42; __threadfence(); *(volatile"
            " int*)flag = 1; }"
        " else { int f = *(volatile int*)flag; __threadfence(); out[1] = f; out[0] = data[0]; } }", 2, 32),
    "fence_alone": (
        HEAD + "if (threadIdx.x) return; __threadfence(); if (blockIdx.x == 0) data[0] = 42; else out[0] ="
            " data[0]; }",
        2, 32),
    "fence_on_both_sides": (
        HEAD + "if (threadIdx.x) return; if (blockIdx.x == 0) { data[0] = 42; __threadfence(); } else {"
            " __threadfence();"
        " out[0] = data[0]; } }", 2, 32),
    "another_flag": (
        HEAD + "if (threadIdx.x) return; if (blockIdx.x == 0) { data[0] = 42; __threadfence(); atomicExch(flag, 1); }"
        " else { __threadfence(); atomicAdd(flag + 5, 1); out[0] = data[0]; } }", 2, 32),
    "flag_before_data": (
        HEAD + "if (threadIdx.x) return; if (blockIdx.x == 0) { __threadfence(); atomicExch(flag, 1); data[0] = 42; }"
        " else { while (atomicAdd(flag, 0) == 0) { } __threadfence(); out[0] = data[0]; } }", 2, 32),
    "no_release_fence": (
        HEAD + "if (threadIdx.x) return; if (blockIdx.x == 0) { data[0] = 42; atomicExch(flag, 1); }"
        " else { while (atomicAdd(flag, 0) == 0) { } __threadfence(); out[0] = data[0]; } }", 2, 32),
    "fence_before_the_data": (
        HEAD + "if (threadIdx.x) return; if (blockIdx.x == 0) { __threadfence(); data[0] = 42; atomicExch(flag, 1); }"
        " else { while (atomicAdd(flag, 0) == 0) { } __threadfence(); out[0] = data[0]; } }", 2, 32),
    "another_thread_waited": (
        HEAD + "if (blockIdx.x == 0) { if (threadIdx.x == 0) { data[0] = 42; __threadfence(); atomicExch(flag,"
            " 1); } }"
        " else if (threadIdx.x == 0) { while (atomicAdd(flag, 0) == 0) { } __threadfence(); }"
        " else if (threadIdx.x == 33) out[0] = data[0]; }", 2, 64),
    "another_thread_wrote": (
        HEAD + "if (blockIdx.x == 0) { if (threadIdx.x == 33) data[0] = 42; if (threadIdx.x == 0) { __threadfence();"
        " atomicExch(flag, 1); } } else if (threadIdx.x == 0) { while (atomicAdd(flag, 0) == 0) { } __threadfence();"
        " out[0] = data[0]; } }", 2, 64),
    "dummy_locks": (
        HEAD + "if (threadIdx.x) return; atomicCAS(flag + 7 + blockIdx.x, 0, 1); data[0] = data[0] + 1; }", 4, 32),
    "lock_of_the_writer_only": (
        HEAD + "if (threadIdx.x) return; if (blockIdx.x == 0) { while (atomicCAS(flag, 0, 1)) { } data[0] = 1;"
        " __threadfence(); atomicExch(flag, 0); } else out[0] = data[0]; }", 2, 32),
    "lock_of_the_reader_only": (
        HEAD + "if (threadIdx.x) return; if (blockIdx.x == 0) data[0] = 1; else { while (atomicCAS(flag, 0, 1)) { }"
        " out[0] = data[0]; __threadfence(); atomicExch(flag, 0); } }", 2, 32),
    "volatile_against_plain": (
        HEAD + "if (threadIdx.x) return; if (blockIdx.x == 0) data[0] = 42; else out[0] = *(volatile int*)data; }",
        2, 32),
    "lost_update_after_a_fence": (
        HEAD + "if (threadIdx.x) return; __threadfence(); data[0] = data[0] + 1; }", 4, 32),
    "wide_store_over_a_narrow_one": (
        HEAD + "if (blockIdx.x == 0) { if (threadIdx.x == 0) data[3] = 1; } else if (threadIdx.x == 0)"
        " *(int4*)data = make_int4(1, 2, 3, 4); }", 2, 32),
    "wide_load_of_a_narrow_store": (
        HEAD + "__shared__ __align__(16) int s[8]; if (threadIdx.x < 8) s[threadIdx.x] = 1; __syncthreads();"
        " if (threadIdx.x == 0) s[7] = 5; if (threadIdx.x == 64) { int4 v = *(int4*)(s + 4); out[0] = v.w; }"
            " }", 1, 128),
    "wide_atomic_over_a_narrow_store": (
        HEAD + "if (threadIdx.x == 0) data[1] = 1; if (threadIdx.x == 64)"
        " atomicAdd((unsigned long long*)data, 1ull << 40); }", 1, 128),
    "bytes_of_a_word": (
        HEAD + "if (threadIdx.x == 0) data[0] = 1; if (threadIdx.x == 64) ((char*)data)[2] = 7; }", 1, 128),
}

CLEAN = {
    "flag_waited_for": (
        HEAD + "if (threadIdx.x) return; if (blockIdx.x == 0) { data[0] = 42; __threadfence(); atomicExch(flag, 1); }"
        " else { while (atomicAdd(flag, 0) == 0) { } __threadfence(); out[0] = data[0]; } }", 2, 32),
    "volatile_flag_waited_for": (
        HEAD + "if (threadIdx.x) return; if (blockIdx.x == 0) { data[0] = 42; __threadfence(); *(volatile"
            " int*)flag = 1; }"
        " else { while (*(volatile int*)flag == 0) { } __threadfence(); out[0] = data[0]; } }", 2, 32),
    "last_block": (
        HEAD + "__shared__ bool last; if (threadIdx.x == 0) { data[blockIdx.x] = blockIdx.x; __threadfence();"
        " last = atomicAdd(flag, 1) == gridDim.x - 1; } __syncthreads(); if (last) { int s = 0;"
        " for (int b = 0; b < gridDim.x; b++) s += data[b]; if (threadIdx.x == 0) out[0] = s; } }", 8, 64),
    "last_block_all_threads_write": (
        HEAD + "__shared__ bool last; data[blockIdx.x * 64 + threadIdx.x] = threadIdx.x; __threadfence();"
        " __syncthreads(); if (threadIdx.x == 0) last = atomicInc((unsigned*)flag, gridDim.x - 1) == gridDim.x - 1;"
        " __syncthreads(); if (last) { int s = 0; for (int b = threadIdx.x; b < gridDim.x * 64; b += 64) s +="
            " data[b];"
        " atomicAdd(out, s); } }", 8, 64),
    "last_block_fence_by_one": (
        HEAD + "__shared__ bool last; data[blockIdx.x * 64 + threadIdx.x] = threadIdx.x;"
        " __syncthreads(); if (threadIdx.x == 0) { __threadfence(); last = atomicAdd(flag, 1) == gridDim.x - 1;"
        " __threadfence(); } __syncthreads(); if (last) atomicAdd(out, data[threadIdx.x * 8]); }", 8, 64),
    "look_back": (
        HEAD + "if (threadIdx.x) return; int before = 0; if (blockIdx.x) { while (atomicAdd(flag + blockIdx.x -"
            " 1, 0) == 0)"
        " { } __threadfence(); before = data[blockIdx.x - 1]; } data[blockIdx.x] = before + 1; __threadfence();"
        " atomicExch(flag + blockIdx.x, 1); }", 16, 32),
    "look_back_volatile": (
        HEAD + "if (threadIdx.x) return; int before = 0; volatile int* f = flag; if (blockIdx.x) {"
        " while (f[blockIdx.x - 1] == 0) { } __threadfence(); before = ((volatile int*)data)[blockIdx.x - 1]; }"
        " data[blockIdx.x] = before + 1; __threadfence(); f[blockIdx.x] = 1; }", 16, 32),
    "look_back_packed": (
        HEAD + "if (threadIdx.x) return; int sum = 1; volatile int* f = flag; for (int b = (int)blockIdx.x - 1;"
            " b >= 0;) {"
        " int v = f[b]; if (v == 0) continue; sum += v & 0xffff; if (v >> 16 == 2) break; b--; }"
        " f[blockIdx.x] = 2 << 16 | sum; out[blockIdx.x] = sum; }", 16, 32),
    "transitive": (
        HEAD + "if (threadIdx.x) return; if (blockIdx.x == 0) { data[0] = 1; __threadfence(); atomicExch(flag, 1); }"
        " if (blockIdx.x == 1) { while (atomicAdd(flag, 0) == 0) { } __threadfence(); atomicExch(flag + 1, 1); }"
        " if (blockIdx.x == 2) { while (atomicAdd(flag + 1, 0) == 0) { } __threadfence(); out[0] = data[0]; }"
            " }", 3, 32),
    "spin_lock": (
        HEAD + "if (threadIdx.x % 32) return; while (atomicCAS(flag, 0, 1)) { } data[0] = data[0] + 1;"
            " __threadfence();"
        " atomicExch(flag, 0); }", 4, 64),
    "spin_lock_exchange": (
        HEAD + "if (threadIdx.x) return; while (atomicExch(flag, 1)) { } __threadfence(); data[0] += 1;"
            " __threadfence();"
        " atomicExch(flag, 0); }", 4, 32),
    "atomics_alone": (HEAD + "atomicAdd(data + threadIdx.x % 8, 1); }", 4, 64),
    "cas_loop": (
        HEAD + "int old = *(volatile int*)data, seen; do { seen = old; old = atomicCAS(data, seen, seen + 1); }"
        " while (old != seen); }", 2, 64),
    "flag_within_a_block": (
        HEAD + "if (threadIdx.x == 32) { data[0] = 42; __threadfence(); atomicExch(flag, 1); }"
        " if (threadIdx.x == 0) { while (atomicAdd(flag, 0) == 0) { } __threadfence(); out[0] = data[0]; } }", 1, 64),
    "dynamic_block_numbers": (
        HEAD + "__shared__ int me; if (threadIdx.x == 0) me = atomicAdd(flag + 100, 1); __syncthreads();"
        " if (threadIdx.x == 0) { if (me) { while (atomicAdd(flag + me - 1, 0) == 0) { } __threadfence();"
        " out[me] = data[me - 1]; } data[me] = me; __threadfence(); atomicExch(flag + me, 1); } }", 8, 32),
    "same_word_twice": (HEAD + "data[threadIdx.x] = 1; __syncthreads(); out[threadIdx.x] = data[127 -"
            " threadIdx.x]; }",
                        1, 128),
}

# (source, block, elements of x, kind): float* x and float* y of 64 elements, one block.
WIDE_HEAD = "__global__ void k(float* x, float* y) { int t = threadIdx.x; "
WIDE = {
    "float4_over_the_end": (WIDE_HEAD + "if (t == 0) *(float4*)y = ((float4*)x)[7]; }", 32, 30, "out-of-bounds"),
    "float2_over_the_end": (WIDE_HEAD + "if (t == 0) *(float2*)y = ((float2*)x)[15]; }", 32, 31, "out-of-bounds"),
    "float4_store_over_the_end": (WIDE_HEAD + "if (t == 0) ((float4*)x)[7] = *(float4*)y;"
            " }", 32, 30, "out-of-bounds"),
    "int_of_chars_over_the_end": (
        WIDE_HEAD + "char* c = (char*)x; if (t == 0) *(int*)y = *(int*)(c + 120); }", 32, 30, "out-of-bounds"),
    "misaligned_int": (WIDE_HEAD + "char* c = (char*)x; if (t == 0) *(int*)y = *(int*)(c + 2);"
            " }", 32, 32, "misaligned"),
    "misaligned_float4": (WIDE_HEAD + "if (t == 0) *(float4*)y = *(float4*)(x + 1); }", 32, 32, "misaligned"),
    "misaligned_float2_store": (WIDE_HEAD + "if (t == 0) *(float2*)(y + 1) = *(float2*)x; }", 32, 32, "misaligned"),
    "misaligned_half2": (
        "#include <cuda_fp16.h>\n" + WIDE_HEAD
        + "half* h = (half*)x; if (t == 0) *(half2*)y = *(half2*)(h + 1); }", 32, 32, "misaligned"),
    "misaligned_double_atomic": (
        WIDE_HEAD + "if (t == 0) atomicAdd((unsigned long long*)(x + 1), 1ull); }", 32, 32, "misaligned"),
    "wide_atomic_over_the_end": (
        WIDE_HEAD + "if (t == 0) atomicAdd((unsigned long long*)(x + 30), 1ull); }", 32, 31, "out-of-bounds"),
    "aligned_struct_over_the_end": (
        "struct S { float v[8]; };\n" + WIDE_HEAD + "if (t == 0) *(S*)y = ((S*)x)[3]; }", 32, 30, "out-of-bounds"),
    "memcpy_over_the_end": (WIDE_HEAD + "if (t == 0) memcpy(y, x + 24, 32); }", 32, 30, "out-of-bounds"),
    "builtin_memcpy_over_the_end": (
        WIDE_HEAD + "if (t == 0) __builtin_memcpy(y, x + 24, 32 + (int)(x[0] != x[0])); }", 32, 30, "out-of-bounds"),
    "builtin_memset_over_the_end": (
        WIDE_HEAD + "if (t == 0) __builtin_memset(x + 24, 0, 32 + (int)(y[0] != y[0])); }", 32, 30, "out-of-bounds"),
    "float4_over_a_shared_array": (
        WIDE_HEAD + "__shared__ __align__(16) float s[30]; if (t < 30) s[t] = x[t]; __syncthreads();"
        " if (t == 0) *(float4*)y = ((float4*)s)[7]; }", 32, 32, "out-of-bounds"),
    "float4_over_dynamic_shared": (
        WIDE_HEAD + "extern __shared__ __align__(16) float s[]; if (t < 30) s[t] = x[t]; __syncthreads();"
        " if (t == 0) *(float4*)y = ((float4*)s)[7]; }", 32, 32, "out-of-bounds"),
    "uninitialized_part_of_a_float4": (
        WIDE_HEAD + "__shared__ __align__(16) float s[32]; if (t < 30) s[t] = x[t]; __syncthreads();"
        " if (t == 0) *(float4*)y = ((float4*)s)[7]; }", 32, 32, "uninitialized-shared"),
    "another_threads_stack": (
        WIDE_HEAD + "__shared__ float* keep[32]; float mine[4] = {x[t], 0, 0, 0}; keep[t] = mine; __syncthreads();"
        " y[t] = keep[t ^ 1][0] + mine[t & 3]; }", 32, 32, "out-of-bounds"),
    "return_address": (
        "__device__ __noinline__ void fill(char* m, int n) { for (int i = 0; i < n; i++) m[i] = 0; }\n"
        + WIDE_HEAD + "float mine[4] = {x[t]}; if (t == 0) fill((char*)mine, 300); y[t] = mine[t & 3]; }",
        32, 32, "out-of-bounds"),
    "below_the_stack": (
        "__device__ __noinline__ void poke(float* m, int i) { m[i] = 1; }\n"
        + WIDE_HEAD + "float mine[4] = {x[t]}; if (t == 0) poke(mine, -4096); y[t] = mine[t & 3]; }",
        32, 32, "out-of-bounds"),
    "below_the_callback": (
        "__device__ __noinline__ void poke(float* m, int i) { m[i] = 1; }\n"
        + WIDE_HEAD + "float mine[4] = {x[t]}; if (t == 0) poke(mine, -14); y[t] = mine[t & 3]; }",
        32, 32, "out-of-bounds"),
    "copy_async_over_the_end": (
        "#include <cuda_pipeline.h>\n" + WIDE_HEAD + "__shared__ __align__(16) float s[64]; if (t == 0)"
        " __pipeline_memcpy_async(s, x + 28, 16); __syncthreads(); y[t] = s[0]; }", 32, 30, "out-of-bounds"),
    "copy_async_misaligned": (
        "#include <cuda_pipeline.h>\n" + WIDE_HEAD + "__shared__ __align__(16) float s[64]; if (t == 0)"
        " __pipeline_memcpy_async(s, x + 1, 16); __syncthreads(); y[t] = s[0]; }", 32, 32, "misaligned"),
}

WIDE_CLEAN = {
    "float4_inside": (WIDE_HEAD + "if (t < 8) ((float4*)y)[t] = ((float4*)x)[t]; }", 32, 32),
    "chars_of_floats": (WIDE_HEAD + "for (int i = t; i < 128; i += 32) ((char*)y)[i] = ((char*)x)[i]; }", 32, 32),
    "memcpy_inside": (WIDE_HEAD + "if (t == 0) memcpy(y, x, 120); }", 32, 30),
    "unaligned_memcpy": (WIDE_HEAD + "float v; memcpy(&v, (char*)x + 1, 4); y[t] = v; }", 32, 32),
    "local_array_by_pointer": (
        "__device__ void fill(float* m, float v) { for (int i = 0; i < 8; i++) m[i] = v + i; }\n" + WIDE_HEAD
        + "float mine[8]; fill(mine, x[t]); y[t] = mine[t & 7]; }", 32, 32),
    "recursion": (
        "__device__ __noinline__ float down(float* m, int n) { float here[2]; here[n & 1] = m[0]; here[~n & 1] = 1;"
        " return n ? down(here, n - 1) + here[1] : m[0]; }\n" + WIDE_HEAD
        + "float first[1] = {x[t]}; y[t] = down(first, 5); }", 32, 32),
}
