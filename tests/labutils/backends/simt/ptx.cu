// Inline PTX that the lanes of a warp, or the threads of a block, execute together; for test_ptx.py.

__global__ void matrices(const unsigned short* in, unsigned short* plain, unsigned short* turned, unsigned* pieces) {
  __shared__ alignas(16) unsigned short s[256], back[256];
  int t = threadIdx.x;
  unsigned to = (unsigned)__cvta_generic_to_shared(s + t * 8), m[4], w[2];
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;\n cp.async.commit_group;\n cp.async.wait_group %2;\n"
               :: "r"(to), "l"(in + t * 8), "n"(0) : "memory");
  __syncwarp();
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3]) : "r"(to));
  for (int i = 0; i < 4; i++) pieces[t * 4 + i] = m[i];
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};"
               :: "r"((unsigned)__cvta_generic_to_shared(back + t * 8)), "r"(m[0]), "r"(m[1]), "r"(m[2]), "r"(m[3]));
  for (int i = 0; i < 8; i++) plain[t * 8 + i] = back[t * 8 + i];
  asm volatile("ldmatrix.sync.aligned.x2.trans.m8n8.shared.b16 {%0, %1}, [%2];" : "=r"(w[0]), "=r"(w[1]) : "r"(to));
  for (int i = 0; i < 2; i++) ((unsigned*)turned)[i * 32 + t] = w[i];
}

__global__ void lanes(unsigned* out) {
  unsigned t = threadIdx.x, v[13], lane, warp, below;
  asm volatile("mov.u32 %0, %%laneid; mov.u32 %1, %%warpid; mov.u32 %2, %%lanemask_lt;" : "=r"(lane), "=r"(warp), "=r"(below));
  v[0] = lane, v[1] = warp, v[2] = below;
  asm volatile("shfl.sync.bfly.b32 %0, %1, 3, 0x1f, 0xffffffff;" : "=r"(v[3]) : "r"(t));
  asm volatile("{ .reg .pred p; shfl.sync.up.b32 %0|p, %1, 1, 0x1800, -1; selp.u32 %0, %0, 99, p; }" : "=r"(v[4]) : "r"(t));
  asm volatile("shfl.sync.down.b32 %0, %1, 1, 0x181f, 0xffffffff;" : "=r"(v[5]) : "r"(t));
  asm volatile("shfl.sync.idx.b32 %0, %1, 2, 0x1c1f, 0xffffffff;" : "=r"(v[6]) : "r"(t));
  asm volatile("{ .reg .pred p; setp.lt.u32 p, %1, 40; vote.sync.ballot.b32 %0, p, -1; }" : "=r"(v[7]) : "r"(t));
  asm volatile("{ .reg .pred p; setp.lt.u32 p, %1, 40; vote.sync.all.pred p, p, -1; selp.u32 %0, 1, 0, p; }" : "=r"(v[8]) : "r"(t));
  asm volatile("match.any.sync.b32 %0, %1, -1;" : "=r"(v[9]) : "r"(t % 4));
  asm volatile("redux.sync.add.u32 %0, %1, -1;" : "=r"(v[10]) : "r"(t));
  asm volatile("activemask.b32 %0;" : "=r"(v[11]));
  asm volatile("{ .reg .pred p; elect.sync _|p, -1; selp.u32 %0, 1, 0, p; }" : "=r"(v[12]));
  for (int i = 0; i < 13; i++) out[t * 13 + i] = v[i];
}

__global__ void memory(const float* x, float* y, unsigned* sum, unsigned* flags) {
  __shared__ alignas(16) float s[512];
  unsigned t = threadIdx.x, at, old;
  float a, b, c, d;
  asm("{ .reg .u64 wide; cvta.to.shared.u64 wide, %1; cvt.u32.u64 %0, wide; }" : "=r"(at) : "l"(s));
  asm volatile("griddepcontrol.wait; prefetch.global.L2 [%0];" :: "l"(x));
  asm volatile("ld.global.nc.L1::no_allocate.v4.f32 {%0, %1, %2, %3}, [%4];" : "=f"(a), "=f"(b), "=f"(c), "=f"(d) : "l"(x + 4 * t));
  asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" :: "r"(at + 16 * t), "f"(a), "f"(b), "f"(c), "f"(d) : "memory");
  asm volatile("bar.sync 0;" ::: "memory");
  asm volatile("ld.shared.f32 %0, [%1 + 4];" : "=f"(a) : "r"(at + 16 * (127 - t)));
  if (t < 64) asm volatile("bar.arrive 3, 128;"); else asm volatile("bar.sync 3, 128;");
  asm volatile("st.global.cs.f32 [%0], %1;" :: "l"(y + t), "f"(a) : "memory");
  asm volatile("red.global.add.u32 [%0], %1;" :: "l"(sum), "r"(t) : "memory");
  asm volatile("atom.global.max.u32 %0, [%1], %2;" : "=r"(old) : "l"(sum + 1), "r"(t) : "memory");
  asm volatile("fence.acq_rel.gpu; membar.cta; barrier.sync 0;" ::: "memory");
  if (t == 0) {
    asm volatile("nanosleep.u32 100;");
    asm volatile("st.release.gpu.global.u32 [%0], %1;" :: "l"(flags), "r"(7) : "memory");
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(old) : "l"(flags) : "memory");
    asm volatile("st.global.u8 [%0], %1;" :: "l"((char*)(flags + 1) + 1), "r"(old) : "memory");
  }
}

__global__ void arrivals(float* y) {
  __shared__ unsigned long long bar;
  __shared__ float s[64];
  int t = threadIdx.x;
  unsigned at = (unsigned)__cvta_generic_to_shared(&bar);
  if (t == 0) asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(at), "r"(64));
  __syncthreads();
  s[t] = t;
  asm volatile("{ .reg .b64 state; .reg .pred p;\n mbarrier.arrive.shared.b64 state, [%0];\n"
               "WAIT: mbarrier.test_wait.shared.b64 p, [%0], state;\n @p bra DONE;\n bra WAIT;\n DONE: }" :: "r"(at) : "memory");
  y[t] = s[63 - t];
}
