// Callbacks that the compiler puts into checked kernels: before each memory access (-fsanitize=thread), at
// each basic block (-fsanitize-coverage=trace-pc), and where an array index is out of range
// (-fsanitize=bounds).
#include "core.h"

namespace simt {

// The last store has reached memory by the time of the next callback: note what it wrote.
static SIMT_HOT void settle(Worker& w) {
  if (!w.pending) return;
  u32 size = w.pending->size, first = 0;
  memcpy(&first, reinterpret_cast<const u8*>(w.pending_address), std::min(4u, size));
  w.pending->value = first;
  if (size > 4 && w.pending_more) memcpy(w.pending_more, reinterpret_cast<const u8*>(w.pending_address) + 4, size - 4);
  if (__builtin_expect(w.poisons != nullptr, 0) && w.pending != &w.shown_event && !is_shared(w.pending->array))
    check_poison(w, reinterpret_cast<const void*>(w.pending_address), size, w.module_low + w.pending->pc);
  w.pending = nullptr;
  if (w.shown_size) restore_shown(w);
}

static SIMT_COLD void trace_full(Worker& w) {
  w.current->state = State::trace_full;
  w.current->waits_at = "";
  wait(w);
}

static SIMT_HOT void push(Worker& w, uptr pc, u64 offset, u8 op, u8 flags, u8 size, u8 array) {
  settle(w);
  Lane& lane = w.lanes[w.current->lane];
  if (__builtin_expect(lane.count >= kTraceLength, 0)) trace_full(w);
  u32 place = static_cast<u32>(pc - w.module_low);
  Event& e = lane.events[lane.count++];
  e.offset = offset;
  e.op = op;
  e.flags = flags;
  e.size = size;
  e.array = array;
  e.lock = w.current->locks ? w.current->held[w.current->locks - 1] : 0;
  e.pc = place;
  e.value = 0;
  lane.path = (lane.path ^ (place | u64{array} << 32)) * 0x9E3779B97F4A7C15ull;
}

static bool inside(const Range* ranges, u32 count, u64 offset, u32 size) {
  for (u32 i = 0; i < count; i++)
    if (offset >= ranges[i].offset && offset + size <= ranges[i].offset + ranges[i].size) return true;
  return false;
}

static SIMT_COLD void wild_access(Worker& w, uptr address, u32 size, u8 op, uptr pc, Kind kind) {
  settle(w);
  Finding f = new_finding(w, kind, pc);
  f.fatal = true;
  f.op = op;
  f.size = size;
  f.address = address;
  report(w, f);
  merge_traces(w, w.current->warp);
  abandon(w);
}

// Memory that is neither an array nor shared: constants and parameters may be read, all else is out of
// bounds.
static SIMT_COLD void other_access(Worker& w, uptr address, u32 size, u8 op, uptr pc) {
  const LaunchSpec& s = *w.spec;
  uptr parameters = reinterpret_cast<uptr>(s.argument_block);
  if (address >= parameters && address + size <= parameters + s.argument_bytes) return;
  if (address >= w.module_low && address + size <= w.module_high) {
    // String literals and constant tables have no symbol: only what lies beside a __constant__ array is an
    // error.
    u64 offset = address - w.module_low, first = ~u64{0}, last = 0;
    for (u32 i = 0; i < s.object_count; i++) {
      first = std::min(first, s.objects[i].offset);
      last = std::max(last, s.objects[i].offset + s.objects[i].size);
    }
    bool beside = offset + size > first && offset < last;
    if (op == op_read && (!beside || inside(s.objects, s.object_count, offset, size))) return;
  }
  wild_access(w, address, size, op, pc, Kind::out_of_bounds);
}

static SIMT_HOT bool allowed(Worker& w, const Array& a, u64 offset, u32 size) {
  if (!a.inside) return true;
  for (u64 element = offset / a.item, last = (offset + size - 1) / a.item; element <= last; element++)
    if (!a.inside[element]) return false;
  return true;
}

// Does this lie in the thread's own variables: in the frames from the one that calls us to the kernel's, with its
// parameters above, and, if it is written to, not where a frame keeps its caller's place? `frame` is the callback's.
// Kernels are compiled with frame pointers, so each frame begins with the one before it and a return address.
static SIMT_HOT bool own_variable(Worker& w, uptr address, u64 size, bool written, uptr frame) {
  constexpr uptr kLinkage = 2 * sizeof(uptr);
  uptr low = frame + kLinkage, high = w.current->entry_frame, below = *reinterpret_cast<uptr*>(frame);
  if (address < low || address + size > high) return false;
  if (!written) return true;
  if (w.callback_low) high = w.callback_low;
  uptr kernel = 0;
  while (below >= low && below < high) {
    if (address < below + kLinkage && address + size > below) return false;
    kernel = below;
    below = *reinterpret_cast<uptr*>(below);
    if (below <= kernel) break;
  }
  if (w.callback_low) return address + size <= high;
  return address + size <= kernel + kLinkage + w.spec->argument_bytes;
}

static SIMT_HOT bool records(const Worker& w) { return w.stack_size != ~size_t{0}; }

static SIMT_HOT void access(uptr address, u32 size, u8 op, u8 flags, uptr pc, uptr frame) {
  Worker* worker_now = worker;
  if (!worker_now) return;
  Worker& w = *worker_now;
  if (address - w.stack_low < w.stack_size) {  // local variables
    if (!records(w) || own_variable(w, address, size, op != op_read, frame)) return;
    return wild_access(w, address, size, op, pc, Kind::out_of_bounds);
  }
  if (__builtin_expect(address & (size - 1), 0))
    return wild_access(w, address, size, op, pc, Kind::misaligned);
  u64 offset = address - w.shared_low;
  u8 array;
  if (offset < w.shared_size) {
    if (__builtin_expect(!inside(w.spec->shared_variables, w.spec->shared_variable_count, offset, size), 0))
      return wild_access(w, address, size, op, pc, Kind::out_of_bounds);
    array = kStaticShared;
  } else if ((offset = address - w.dynamic_low) < w.dynamic_size && offset + size <= w.dynamic_size) {
    array = kDynamicShared;
  } else {
    u32 i = w.last_array;
    const Array* a = w.arrays + i;
    offset = address - a->low;
    if (offset >= a->bytes || offset + size > a->bytes) {
      for (i = 0; i < w.array_count; i++) {
        a = w.arrays + i;
        offset = address - a->low;
        if (offset < a->bytes && offset + size <= a->bytes) break;
      }
      if (i == w.array_count) return other_access(w, address, size, op, pc);
      w.last_array = i;
    }
    if (!allowed(w, *a, offset, size)) return wild_access(w, address, size, op, pc, Kind::out_of_bounds);
    array = i;
  }
  if (__builtin_expect(w.block->arriving, 0) && is_shared(array)) check_arriving(w, address, size, op != op_read, pc);
  if (op == op_read) flags |= w.current->read_only;
  if (w.current->copying && (op == op_write ? is_shared(array) : size == 16)) flags |= kCopied;
  push(w, pc, offset, op, flags, size, array);
  Event& e = w.lanes[w.current->lane].events[w.lanes[w.current->lane].count - 1];
  if (flags & kVolatile && !is_shared(array)) return observe(w, address, size, op == op_write);
  if (op != op_write) {
    uptr to = w.current->copying, in_static = to - w.shared_low;
    if (flags & kCopied) e.value = static_cast<u32>(in_static < w.shared_size ? in_static : to - w.dynamic_low);
    if (op == op_read) {
      w.current->latest_read = (w.current->latest_read + 1) % 4;
      w.current->reads[w.current->latest_read] = {address, pc};
      if (filming(w)) memcpy(w.lanes[w.current->lane].more[w.lanes[w.current->lane].count - 1],
                             reinterpret_cast<const void*>(address), std::min(4u, size));
      if (!w.guesses.empty() && w.guesses.count(e.pc)) guess(w, address, size);
    }
    return;
  }
  if (is_shared(array)) {
    Fiber& me = *w.current;
    bool first = me.unfenced_low == me.unfenced_high;
    me.unfenced_low = first ? address : std::min(me.unfenced_low, address);
    me.unfenced_high = std::max(me.unfenced_high, address + size);
    if (!w.taken.empty()) check_taken(w, address, size, pc);
  }
  if (flags & kPiece) {
    e.value = ++w.unique_value;
  } else {
    w.pending = &e;
    w.pending_address = address;
    w.pending_more = w.lanes[w.current->lane].more[w.lanes[w.current->lane].count - 1];
  }
}

// Structs go member by member on a GPU, whose wide accesses need an alignment that the callback does not
// tell: pieces of four bytes are what members of type float and int give.
static SIMT_HOT void access_range(uptr address, u64 bytes, u8 op, uptr pc, uptr frame) {
  if (!worker || !bytes) return;
  Worker& w = *worker;
  if (!records(w)) return;
  (op == op_read ? w.read_range : w.written_range) = {address, bytes};
  if (address - w.stack_low < w.stack_size && own_variable(w, address, bytes, op != op_read, frame)) return;
  u32 piece = (address | bytes) & 1 ? 1 : (address | bytes) & 2 ? 2 : 4;
  for (; bytes; bytes -= piece, address += piece) access(address, piece, op, kPiece, pc, frame);
}

}  // namespace simt

extern "C" {
using namespace simt;

void simt_copying(const void* to) {
  Worker* w = worker;
  if (!w) return;
  uptr address = uptr(to);
  bool shared = address - w->shared_low < w->shared_size || address - w->dynamic_low < w->dynamic_size;
  w->current->copying = shared ? address : 0;  // elsewhere it is a load and a store
}

void simt_copy_check(const void* to, const void* from, size_t bytes) {
  Worker* w = worker;
  if (!w || !w->checked || (bytes != 4 && bytes != 8 && bytes != 16)) return;
  for (uptr address : {uptr(from), uptr(to)})
    if (address & (bytes - 1))
      wild_access(*w, address, bytes, address == uptr(to) ? op_write : op_read, SIMT_CALLER, Kind::misaligned);
}

// Around a load by __ldg or ld.global.nc.
void simt_read_only(int begins) { worker->current->read_only = begins ? kReadOnly : 0; }

void simt_square_root() { worker->square_roots++; }

void simt_enter(void* frame, void*) { worker->current->entry_frame = uptr(frame); }

// A collective's function calls the learner's: what that does is recorded.
void simt_callback(int begins) {
  Worker& w = *worker;
  w.stack_low = begins ? reinterpret_cast<uptr>(w.current->stack) : 0;
  w.stack_size = begins ? kStackBytes + kPage : ~size_t{0};
}


#define SIMT_ACCESS(size)                                                                                            \
  void __tsan_read##size(void* p) { access(uptr(p), size, op_read, 0, SIMT_CALLER, SIMT_FRAME); }                    \
  void __tsan_write##size(void* p) { access(uptr(p), size, op_write, 0, SIMT_CALLER, SIMT_FRAME); }                  \
  void __tsan_volatile_read##size(void* p) { access(uptr(p), size, op_read, kVolatile, SIMT_CALLER, SIMT_FRAME); }   \
  void __tsan_volatile_write##size(void* p) { access(uptr(p), size, op_write, kVolatile, SIMT_CALLER, SIMT_FRAME); } \
  void __tsan_unaligned_read##size(void* p) { access_range(uptr(p), size, op_read, SIMT_CALLER, SIMT_FRAME); }       \
  void __tsan_unaligned_write##size(void* p) { access_range(uptr(p), size, op_write, SIMT_CALLER, SIMT_FRAME); }     \
  void __tsan_unaligned_volatile_read##size(void* p) {                                                               \
    access_range(uptr(p), size, op_read, SIMT_CALLER, SIMT_FRAME);                                                   \
  }                                                                                                                  \
  void __tsan_unaligned_volatile_write##size(void* p) {                                                              \
    access_range(uptr(p), size, op_write, SIMT_CALLER, SIMT_FRAME);                                                  \
  }                                                                                                                  \
  void __tsan_read_write##size(void* p) {                                                                            \
    access(uptr(p), size, op_read, 0, SIMT_CALLER - 1, SIMT_FRAME);                                                  \
    access(uptr(p), size, op_write, 0, SIMT_CALLER, SIMT_FRAME);                                                     \
  }                                                                                                                  \
  void __tsan_unaligned_read_write##size(void* p) {                                                                  \
    access_range(uptr(p), size, op_read, SIMT_CALLER - 1, SIMT_FRAME);                                               \
    access_range(uptr(p), size, op_write, SIMT_CALLER, SIMT_FRAME);                                                  \
  }
SIMT_ACCESS(1)
SIMT_ACCESS(2)
SIMT_ACCESS(4)
SIMT_ACCESS(8)
SIMT_ACCESS(16)

void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_vptr_update(void**, void*) {}
void __tsan_vptr_read(void**) {}
void __tsan_read_range(void* p, u64 n) { access_range(uptr(p), n, op_read, SIMT_CALLER, SIMT_FRAME); }
void __tsan_write_range(void* p, u64 n) { access_range(uptr(p), n, op_write, SIMT_CALLER, SIMT_FRAME); }

// What is read and what is written are two instructions to the counters: one of them counts a byte earlier,
// still in the call.
void* __tsan_memcpy(void* to, const void* from, size_t n) {
  access_range(uptr(from), n, op_read, SIMT_CALLER - 1, SIMT_FRAME);
  access_range(uptr(to), n, op_write, SIMT_CALLER, SIMT_FRAME);
  return memcpy(to, from, n);
}
void* __tsan_memmove(void* to, const void* from, size_t n) {
  access_range(uptr(from), n, op_read, SIMT_CALLER - 1, SIMT_FRAME);
  access_range(uptr(to), n, op_write, SIMT_CALLER, SIMT_FRAME);
  return memmove(to, from, n);
}
void* __tsan_memset(void* to, int value, size_t n) {
  access_range(uptr(to), n, op_write, SIMT_CALLER, SIMT_FRAME);
  return memset(to, value, n);
}

// Calls that the compiler makes of copies, and those that a kernel makes itself. g++ has recorded what it knew of the
// copy of a struct before it calls memcpy for it.
void* __wrap_memcpy(void* to, const void* from, size_t n) {
  if (Worker* w = worker) {
    bool was_read = w->read_range == Span{uptr(from), n}, was_written = w->written_range == Span{uptr(to), n};
    if (!was_read) access_range(uptr(from), n, op_read, SIMT_CALLER - 1, SIMT_FRAME);
    if (!was_written) access_range(uptr(to), n, op_write, SIMT_CALLER, SIMT_FRAME);
    w->read_range = w->written_range = Span{};
  }
  return memcpy(to, from, n);
}
void* __wrap_memmove(void* to, const void* from, size_t n) __attribute__((alias("__tsan_memmove")));
void* __wrap_memset(void* to, int value, size_t n) __attribute__((alias("__tsan_memset")));
int __wrap_memcmp(const void* a, const void* b, size_t n) {
  access_range(uptr(a), n, op_read, SIMT_CALLER - 1, SIMT_FRAME);
  access_range(uptr(b), n, op_read, SIMT_CALLER, SIMT_FRAME);
  return memcmp(a, b, n);
}
int __wrap_bcmp(const void* a, const void* b, size_t n) __attribute__((alias("__wrap_memcmp")));

// memcpy and its relatives as kernels call them, in checked and in fast builds.
void* simt_memcpy(void* to, const void* from, size_t n) {
  if (worker->checked) {
    access_range(uptr(from), n, op_read, SIMT_CALLER - 1, SIMT_FRAME);
    access_range(uptr(to), n, op_write, SIMT_CALLER, SIMT_FRAME);
  }
  return memcpy(to, from, n);
}
void* simt_memmove(void* to, const void* from, size_t n) {
  if (worker->checked) {
    access_range(uptr(from), n, op_read, SIMT_CALLER - 1, SIMT_FRAME);
    access_range(uptr(to), n, op_write, SIMT_CALLER, SIMT_FRAME);
  }
  return memmove(to, from, n);
}
void* simt_memset(void* to, int value, size_t n) {
  if (worker->checked) access_range(uptr(to), n, op_write, SIMT_CALLER, SIMT_FRAME);
  return memset(to, value, n);
}
int simt_memcmp(const void* a, const void* b, size_t n) {
  if (worker->checked) {
    access_range(uptr(a), n, op_read, SIMT_CALLER - 1, SIMT_FRAME);
    access_range(uptr(b), n, op_read, SIMT_CALLER, SIMT_FRAME);
  }
  return memcmp(a, b, n);
}

void __sanitizer_cov_trace_pc() {
  Worker* w = worker;
  if (w && w->checked && records(*w)) push(*w, SIMT_CALLER, 0, op_block, 0, 0, 0);
}

// -fsanitize=bounds
struct BoundsPlace {
  const char* file;
  u32 line, column;
};
struct BoundsType {
  u16 kind, info;
  char name[1];
};
struct BoundsData {
  BoundsPlace place;
  BoundsType *array, *index;
};

void __ubsan_handle_out_of_bounds(BoundsData* data, uptr index) {
  if (!worker) return;
  Worker& w = *worker;
  settle(w);
  Finding f = new_finding(w, Kind::out_of_bounds, SIMT_CALLER);
  f.fatal = true;
  f.line = data->place.line;
  f.offset = index;
  f.relation = 'i';
  f.detail = std::string(data->array->name) + "@" + std::to_string(data->place.column);
  report(w, f);
  merge_traces(w, w.current->warp);
  abandon(w);
}
void __ubsan_handle_out_of_bounds_abort(BoundsData* data, uptr index) {
  __ubsan_handle_out_of_bounds(data, index);
}
}
