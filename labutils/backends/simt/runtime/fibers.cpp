// Fibers: a stack for each thread that has to wait, and the switch between them.
#include "core.h"

#ifdef __APPLE__
#define SIMT_SYMBOL(name) "_" name
#else
#define SIMT_SYMBOL(name) name
#endif

// simt_switch(save, to): keep this stack pointer in *save and go on where `to` stopped. Only what the calling
// convention says a callee must keep is kept.
extern "C" void simt_switch(void** save, void* to);
#if defined(__x86_64__)
asm(".text\n.globl " SIMT_SYMBOL("simt_switch") "\n" SIMT_SYMBOL("simt_switch") ":\n"
    "  push %rbp\n  push %rbx\n  push %r12\n  push %r13\n  push %r14\n  push %r15\n"
    "  mov %rsp, (%rdi)\n  mov %rsi, %rsp\n"
    "  pop %r15\n  pop %r14\n  pop %r13\n  pop %r12\n  pop %rbx\n  pop %rbp\n  ret\n");
#elif defined(__aarch64__)
asm(".text\n.globl " SIMT_SYMBOL("simt_switch") "\n.p2align 2\n" SIMT_SYMBOL("simt_switch") ":\n"
    "  sub sp, sp, #160\n"
    "  stp x19, x20, [sp]\n  stp x21, x22, [sp, #16]\n  stp x23, x24, [sp, #32]\n  stp x25, x26, [sp, #48]\n"
    "  stp x27, x28, [sp, #64]\n  stp x29, x30, [sp, #80]\n"
    "  stp d8, d9, [sp, #96]\n  stp d10, d11, [sp, #112]\n"
    "  stp d12, d13, [sp, #128]\n  stp d14, d15, [sp, #144]\n"
    "  mov x9, sp\n  str x9, [x0]\n  mov sp, x1\n"
    "  ldp x19, x20, [sp]\n  ldp x21, x22, [sp, #16]\n  ldp x23, x24, [sp, #32]\n  ldp x25, x26, [sp, #48]\n"
    "  ldp x27, x28, [sp, #64]\n  ldp x29, x30, [sp, #80]\n"
    "  ldp d8, d9, [sp, #96]\n  ldp d10, d11, [sp, #112]\n"
    "  ldp d12, d13, [sp, #128]\n  ldp d14, d15, [sp, #144]\n"
    "  add sp, sp, #160\n  ret\n");
#else
#error "simt_switch is not written for this processor"
#endif

namespace simt {

// What simt_switch pops on its first visit: zeroed registers, then a return into `function`.
static void* first_frame(char* top, void (*function)()) {
#if defined(__x86_64__)
  u64* p = reinterpret_cast<u64*>(reinterpret_cast<uptr>(top) & ~uptr{15});
  *--p = 0;  // keeps the stack aligned as after a call
  *--p = reinterpret_cast<u64>(function);
  for (int i = 0; i < 6; i++) *--p = 0;
#else
  u64* p = reinterpret_cast<u64*>((reinterpret_cast<uptr>(top) & ~uptr{15}) - 160);
  memset(p, 0, 160);
  p[11] = reinterpret_cast<u64>(function);
#endif
  return p;
}

// Stacks come in slabs that outlive a launch. Each has a guard page below, so that running over ends in a
// signal. No more than kKeptSlabs stay: a stack is two mappings, and Linux allows a process 65530.
constexpr size_t kSlot = kPage + kStackBytes + kPage, kSlabStacks = 64, kKeptSlabs = 64;
static std::mutex slab_mutex;
static std::vector<char*> free_slabs;

static char* new_slab() {
  void* p = mmap(nullptr, kSlot * kSlabStacks, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) return nullptr;
  char* slab = static_cast<char*>(p);
  for (size_t i = 0; i < kSlabStacks; i++) mprotect(slab + i * kSlot, kPage, PROT_NONE);
  return slab;
}

static char* take_stack(Worker& w) {
  if (w.free_stacks.empty()) {
    char* slab = nullptr;
    {
      std::lock_guard<std::mutex> lock(slab_mutex);
      if (!free_slabs.empty()) slab = free_slabs.back(), free_slabs.pop_back();
    }
    if (!slab) slab = new_slab();
    if (!slab) {
      fprintf(stderr, "simt: no memory for the stacks of a block's threads\n");
      abort();
    }
    w.slabs.push_back(slab);
    // Stacks at one distance of a power of two would compete for the same cache lines: stagger their tops.
    for (size_t i = kSlabStacks; i-- > 0;) w.free_stacks.push_back(slab + i * kSlot + kPage);
  }
  char* stack = w.free_stacks.back();
  w.free_stacks.pop_back();
  return stack;
}

static char* stack_top(char* stack) {
  size_t number = reinterpret_cast<uptr>(stack) / kSlot;
  return stack + kStackBytes + kPage - 256 - (number * 5 % 56) * 64;
}

static void return_slabs(Worker& w) {
  std::lock_guard<std::mutex> lock(slab_mutex);
  for (char* slab : w.slabs)
    if (free_slabs.size() < kKeptSlabs)
      free_slabs.push_back(slab);
    else
      munmap(slab, kSlot * kSlabStacks);
  w.slabs.clear();
  w.free_stacks.clear();
}

static SIMT_HOT void set_current(Worker& w, Fiber* fiber) {
  w.current = fiber;
  w.stack_low = reinterpret_cast<uptr>(fiber->stack);
}

// Leave the fibers as they are and go back to the loop over blocks.
[[noreturn]] static void abandon(Worker& w) {
  void* unused;
  simt_switch(&unused, w.main_stack_pointer);
  __builtin_unreachable();
}

}  // namespace simt
