// What kernels call: indices, barriers, shuffles, votes, printf, assert, clocks.
#include "core.h"

namespace simt {

enum ShuffleMode { shuffle_index, shuffle_up, shuffle_down, shuffle_xor };

struct Shuffle {
  u64* value;
  int argument, width, mode;
  uptr pc;
};

static void combine_shuffle(void** payloads, u32 mask, u32 present) {
  u64 values[kLanes];
  for (u32 m = present; m; m &= m - 1) {
    u32 lane = __builtin_ctz(m);
    values[lane] = *static_cast<Shuffle*>(payloads[lane])->value;
  }
  for (u32 m = present; m; m &= m - 1) {
    int lane = __builtin_ctz(m);
    Shuffle& s = *static_cast<Shuffle*>(payloads[lane]);
    int first = lane & ~(s.width - 1), end = first + s.width, source = lane;
    switch (s.mode) {
      case shuffle_index: source = first + (s.argument & (s.width - 1)); break;
      case shuffle_up: source = lane - s.argument; break;
      case shuffle_down: source = lane + s.argument; break;
      case shuffle_xor: source = lane ^ s.argument; break;
    }
    // Up stops at its segment's start, down and xor at its end: such a lane keeps its value.
    if (s.mode == shuffle_up ? source < first : source >= end || source < 0) continue;
    *s.value = present >> source & 1 ? values[source] : poison(*worker, s.pc, mask, lane, source);
  }
}

enum VoteMode {
  vote_ballot,
  vote_any,
  vote_all,
  vote_match,
  vote_add,
  vote_max,
  vote_min,
  vote_and,
  vote_or,
  vote_xor,
  vote_max_signed,
  vote_min_signed,
  vote_match_all
};

struct Vote {
  u64 value;
  int mode;
};

static void combine_vote(void** payloads, u32, u32 present) {
  u64 in[kLanes], ballot = 0, sum = 0, most = 0, least = ~u64{0}, all = ~u64{0}, any = 0, parity = 0;
  int64_t most_signed = INT64_MIN, least_signed = INT64_MAX;
  bool equal = true;
  u32 first = __builtin_ctz(present);
  for (u32 m = present; m; m &= m - 1) {
    u32 lane = __builtin_ctz(m);
    u64 v = in[lane] = static_cast<Vote*>(payloads[lane])->value;
    if (v) ballot |= u64{1} << lane;
    sum += v;
    most = std::max(most, v);
    least = std::min(least, v);
    all &= v;
    any |= v;
    parity ^= v;
    most_signed = std::max<int64_t>(most_signed, static_cast<int32_t>(v));
    least_signed = std::min<int64_t>(least_signed, static_cast<int32_t>(v));
    equal = equal && v == in[first];
  }
  for (u32 m = present; m; m &= m - 1) {
    u32 lane = __builtin_ctz(m);
    Vote& vote = *static_cast<Vote*>(payloads[lane]);
    switch (vote.mode) {
      case vote_ballot: vote.value = ballot; break;
      case vote_any: vote.value = ballot != 0; break;
      case vote_all: vote.value = ballot == present; break;
      case vote_add: vote.value = sum; break;
      case vote_max: vote.value = most; break;
      case vote_min: vote.value = least; break;
      case vote_and: vote.value = all; break;
      case vote_or: vote.value = any; break;
      case vote_xor: vote.value = parity; break;
      case vote_max_signed: vote.value = most_signed; break;
      case vote_min_signed: vote.value = least_signed; break;
      case vote_match_all: vote.value = equal ? present : 0; break;
      case vote_match: {
        u64 same = 0;
        for (u32 k = present; k; k &= k - 1)
          if (in[__builtin_ctz(k)] == in[lane]) same |= u64{1} << __builtin_ctz(k);
        vote.value = same;
      }
    }
  }
}

constexpr u32 kStaticWindow = 1u << 23;  // in addresses of shared memory: of the static arrays, not of the dynamic ones

constexpr size_t kPrintLimit = 1 << 20;  // as a GPU's printf buffer: what does not fit is dropped

}  // namespace simt

extern "C" {
using namespace simt;

Index3 simt_thread_index() { return worker->current->thread; }
Index3 simt_block_index() {
  Index3 place = worker->block->place;  // of the cluster's first block
  place.x += worker->current->linear / worker->block_threads;
  return place;
}
Index3 simt_block_size() { return worker->block_size; }
Index3 simt_grid_size() { return worker->grid; }
void* simt_dynamic_shared() {
  return reinterpret_cast<void*>(worker->dynamic_low +
                                 worker->current->linear / worker->block_threads * worker->dynamic_stride);
}
// An address in shared memory as PTX has it, of 32 bits, and the pointer that it stands for.
u32 simt_shared_address(const void* p) {
  Worker& w = *worker;
  uptr address = uptr(p);
  if (address - w.shared_low < w.shared_size) return kStaticWindow | u32(address - w.shared_low);
  return u32(address - uptr(simt_dynamic_shared()));
}
void* simt_shared_pointer(u32 address) {
  if (address & kStaticWindow) return reinterpret_cast<void*>(worker->shared_low + (address - kStaticWindow));
  return reinterpret_cast<void*>(uptr(simt_dynamic_shared()) + address);
}
u32 simt_lane() { return worker->current->lane; }
u32 simt_rank() { return worker->current->linear % worker->block_threads; }

void simt_barrier(const char* what, u32 line) { arrive(what, line, SIMT_CALLER, barrier_plain, 0, nullptr); }

int simt_barrier_vote(const char* what, int kind, int predicate, u32 line) {
  int result = 0;
  arrive(what, line, SIMT_CALLER, static_cast<BarrierKind>(kind), predicate, &result);
  return result;
}

void simt_grid_barrier(u32 line) {
  if (!worker->spec->cooperative) {
    Finding f = new_finding(*worker, Kind::barrier_divergence, SIMT_CALLER);
    f.line = line;
    f.fatal = true;
    f.detail = "not cooperative";
    report(*worker, f);
    abandon(*worker);
  }
  arrive("grid.sync", line, SIMT_CALLER, barrier_grid, 0, nullptr);
}

void simt_collective(const char* what, u32 mask, void* payload, Combine combine) {
  meet(what, mask, payload, combine, SIMT_CALLER);
}

void simt_shuffle(const char* what, u32 mask, u64* value, int argument, int width, int mode) {
  if (worker->checked) {  // a lane's own variable, unless somebody calls this in place of __shfl_sync
    access(uptr(value), sizeof *value, op_read, 0, SIMT_CALLER - 1, SIMT_FRAME);
    access(uptr(value), sizeof *value, op_write, 0, SIMT_CALLER - 2, SIMT_FRAME);
  }
  Shuffle s{value, argument, width, mode, SIMT_CALLER};
  meet(what, mask, &s, combine_shuffle, SIMT_CALLER);
}

u64 simt_vote(const char* what, u32 mask, u64 value, int mode) {
  Vote v{value, mode};
  meet(what, mask, &v, combine_vote, SIMT_CALLER);
  return v.value;
}

u32 simt_active_mask() {
  Worker& w = *worker;
  Fiber* me = w.current;
  if (w.checked) push(w, SIMT_CALLER, 1u << me->lane, op_sync, 0, 0, 0);
  me->waits_at = "__activemask";
  me->pc = SIMT_CALLER;
  me->state = State::active_mask;
  w.block->warps[me->warp].at_active_mask |= 1u << me->lane;
  wait(w);
  return me->mask;
}

void simt_fence() { fence(*worker, false, SIMT_CALLER); }

void simt_fence_block() { fence(*worker, true, SIMT_CALLER); }

void simt_yield() {
  worker->current->pc = SIMT_CALLER;
  yield_turn(*worker);
}

long long simt_clock() { return static_cast<long long>(now() * 1e9); }

void simt_assert(const char* what, u32 line) {
  Finding f = new_finding(*worker, Kind::assertion, SIMT_CALLER);
  f.line = line;
  f.fatal = true;
  f.detail = what;
  report(*worker, f);
  abandon(*worker);
}

// %n writes to memory where nothing records it; a GPU's printf has none.
static bool writes(const char* format) {
  for (const char* p = format; (p = strchr(p, '%')) != nullptr && *++p; ++p) {
    p += strspn(p, "-+ #0123456789.*'hlLqjzt");
    if (*p == 'n') return true;
    if (!*p) return false;
  }
  return false;
}

int simt_printf(const char* format, ...) {
  Worker& w = *worker;
  if (writes(format)) return -1;
  char text[1024];
  va_list arguments;
  va_start(arguments, format);
  int length = vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  if (length < 0 || w.printed_bytes + length > kPrintLimit) return -1;
  w.printed_bytes += length;
  if (w.printed.empty() || w.printed.back().block != w.block->number)
    w.printed.push_back({w.block->number, ""});
  w.printed.back().text += text;
  return length;
}

// D += A * B for one warp-level matrix instruction; `b` is given by columns.
void simt_matrix_multiply(const float* a, const float* b, float* c, int rows, int columns, int depth) {
  for (int i = 0; i < rows; i++)
    for (int j = 0; j < columns; j++) {
      float sum = 0;
      for (int k = 0; k < depth; k++) sum += a[i * depth + k] * b[j * depth + k];
      c[i * columns + j] += sum;
    }
}
}
