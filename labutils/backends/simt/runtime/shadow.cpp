// Shadow memory: who wrote and who read each four bytes last, and which pairs of accesses nothing orders.
//
// Two accesses of one block are ordered when a block barrier lies between them (their epochs differ) or,
// inside a warp, when a chain of warp collectives leads from one lane to the other (WarpClock), or when one thread has
// arrived at a barrier of some of the block's threads and the other has waited there (`across`). Accesses of different
// blocks are ordered by a grid barrier. Flags order both (order.cpp), and what happens under one lock is no
// race. Volatile accesses of global memory are like atomic ones: they race with plain ones alone.
#include "core.h"

namespace simt {

struct Cell {
  u32 write_epoch, write_pc, write_value, read_epoch, read_pc;
  u16 write_time, read_time;
  u16 write_thread : 10, write_bytes : 4, write_atomic : 1, write_many : 1;
  u16 read_thread : 10, read_bytes : 4,
      read_many : 1;  // read_many: `other` is another thread that has read it
  u16 other_thread : 10, other_bytes : 4, also_high : 2;
  u16 other_time;
  u8 also_low;  // write_many: number of another thread that wrote the same, with nothing that orders the two
  u8 initialised;            // bytes that were written; from bit 4 on, those that were read as read-only ones
  u8 write_lock, read_lock;  // under which it was written and read last
};
static_assert(sizeof(Cell) == 36);

static SIMT_HOT u32 also(const Cell& c) { return c.also_high << 8 | c.also_low; }

static bool came_after(Worker& w, u32 thread, u32 other, u16 time, u32 epoch);

static SIMT_HOT bool is_shared(u8 array) { return array >= kStaticShared; }

static SIMT_HOT Cell* cell_of(Worker& w, const Event& e) {
  if (e.array == kStaticShared) return w.static_shadow + (e.offset >> 2);
  if (e.array == kDynamicShared) return w.dynamic_shadow + (e.offset >> 2);
  return w.arrays[e.array].shadow + (e.offset >> 2);
}

// What comes now is ordered behind what this block did before.
static void next_epoch(Worker& w) {
  w.epoch = ++w.last_epoch;
  if (w.checked) w.owners.push_back(w.block->number);
}

static SIMT_HOT bool is_own(Worker& w, u32 epoch) { return epoch == w.epoch || w.owners[epoch] == w.block->number; }

// Has `thread` seen everything that `other`, of its own warp, did at `time`?
static SIMT_HOT bool has_seen(Worker& w, u32 thread, u32 other, u16 time) {
  const WarpClock& clock = w.block->clocks[thread / kLanes];
  return clock.seen[thread % kLanes][other % kLanes] > time;
}

static SIMT_HOT bool ordered_in_block(Worker& w, u32 thread, u32 other, u16 time) {
  if (thread == other) return true;
  if (thread / kLanes == other / kLanes) return has_seen(w, thread, other, time);
  return w.across && w.across[thread * w.threads + other] > time;
}

static SIMT_COLD void race(Worker& w, const Event& e, u32 thread, char relation, u32 other, u32 other_pc,
                           u32 epoch) {
  bool same_block = is_shared(e.array) || is_own(w, epoch);
  Finding f = new_finding(w, Kind::race, w.module_low + e.pc);
  f.other_pc = w.module_low + other_pc;
  f.relation = relation;
  f.scope = !same_block ? 'g' : thread / kLanes == other / kLanes ? 'w' : 'b';
  if (recount(w, f)) return;
  f.thread = thread;
  f.other_thread = relation == 'c' ? kNone : other;
  f.other_block = same_block ? f.block : w.owners[epoch];
  f.op = e.op;
  f.size = e.size;
  f.array = e.array;
  f.offset = e.offset;
  report(w, f);
}

static SIMT_COLD void uninitialized(Worker& w, const Event& e, u32 thread) {
  Finding f = new_finding(w, Kind::uninitialized_shared, w.module_low + e.pc);
  if (recount(w, f)) return;
  f.thread = thread;
  f.op = e.op;
  f.size = e.size;
  f.array = e.array;
  f.offset = e.offset;
  report(w, f);
}

// Does nothing order this access behind another one, at that epoch and time and under that lock?
static SIMT_HOT bool unordered(Worker& w, const Event& e, u32 thread, u32 other, u16 time, u32 epoch, u8 lock) {
  if (e.lock && e.lock == lock) return false;
  if (epoch == w.epoch) {
    if (ordered_in_block(w, thread, other, time)) return false;
  } else if (is_shared(e.array) || epoch < w.phase_epoch || is_own(w, epoch)) {
    return false;
  }
  return !came_after(w, thread, other, time, epoch);
}

// Accesses that may meet each other: atomics, and volatile ones of global memory.
static SIMT_HOT bool is_strong(const Event& e) {
  return e.op == op_atomic || (e.flags & kVolatile && !is_shared(e.array));
}

static SIMT_HOT void check_read(Worker& w, const Event& e, u32 thread, u16 time, Cell& c, u32 bytes) {
  // The first, plain load of a compare-and-swap loop is a guess: what it read is checked, or too old (order.cpp).
  bool strong = c.write_atomic && (is_strong(e) || (!w.guesses.empty() && w.guesses.count(e.pc)));
  if (c.write_epoch && (c.write_bytes & bytes) && !strong &&
      unordered(w, e, thread, c.write_thread, c.write_time, c.write_epoch, c.write_lock))
    race(w, e, thread, 'r', c.write_thread, c.write_pc, c.write_epoch);
  if (e.flags & kReadOnly && !is_shared(e.array)) {  // neither before nor after, whatever orders the two
    if (c.initialised & bytes) race(w, e, thread, 'n', c.write_thread, c.write_pc, c.write_epoch);
    c.initialised |= bytes << 4;
    w.read_only_pc[e.array] = e.pc;
  }
  if (is_shared(e.array) && (c.initialised & bytes) != bytes) uninitialized(w, e, thread);

  if (c.read_epoch != w.epoch) {
    c.read_epoch = w.epoch;
    c.read_bytes = bytes;
    c.read_many = 0;
  } else if (c.read_thread == thread) {
    c.read_bytes = c.read_time == time ? c.read_bytes | bytes : bytes;
  } else {
    // Keep two readers, of two warps if there are: a later writer cannot be ordered after both by accident.
    u32 warp = thread / kLanes;
    if (!c.read_many || c.read_thread / kLanes != warp || c.other_thread / kLanes == warp) {
      c.other_thread = c.read_thread;
      c.other_time = c.read_time;
      c.other_bytes = c.read_bytes;
    }
    c.read_bytes = bytes;
    c.read_many = 1;
  }
  c.read_thread = thread;
  c.read_time = time;
  c.read_pc = e.pc;
  c.read_lock = e.lock;
}

// Has another thread, whose store of the same value the cell no longer tells of, nothing that orders it before this one?
// Its time is not known: having met it at all since the last barrier is taken for order.
static SIMT_HOT bool unordered_also(Worker& w, const Event& e, u32 thread, u32 also) {
  if (thread == also || e.lock || w.order) return false;
  if (thread / kLanes != also / kLanes) return !w.across || !w.across[thread * w.threads + also];
  return !w.block->clocks[thread / kLanes].seen[thread % kLanes][also % kLanes];
}

// `value` is what it wrote to these four bytes.
static SIMT_HOT void check_write(Worker& w, const Event& e, u32 thread, u16 time, Cell& c, u32 bytes, u32 value) {
  bool atomic = is_strong(e), several = false;
  if (c.write_epoch && (c.write_bytes & bytes) && !(atomic && c.write_atomic)) {
    bool same_value = !atomic && !c.write_atomic && c.write_value == value && c.write_bytes == bytes;
    bool loose = unordered(w, e, thread, c.write_thread, c.write_time, c.write_epoch, c.write_lock);
    bool before = c.write_many && c.write_epoch == w.epoch;
    if (!same_value && loose)
      race(w, e, thread, 'w', c.write_thread, c.write_pc, c.write_epoch);
    else if (!same_value && before && unordered_also(w, e, thread, also(c)))
      race(w, e, thread, 'w', also(c), c.write_pc, c.write_epoch);
    if (same_value && c.write_epoch == w.epoch) {  // one writer of each of two warps is remembered, if there are two
      several = before || loose;
      if (loose && (!before || also(c) / kLanes == thread / kLanes))
        c.also_high = c.write_thread >> 8, c.also_low = c.write_thread;
    }
  }
  bool by_last = c.read_bytes & bytes, by_other = c.read_many && (c.other_bytes & bytes);
  if (c.read_epoch && !atomic) {
    if (by_last && unordered(w, e, thread, c.read_thread, c.read_time, c.read_epoch, c.read_lock))
      race(w, e, thread, 'o', c.read_thread, c.read_pc, c.read_epoch);
    else if (by_other && unordered(w, e, thread, c.other_thread, c.other_time, c.read_epoch, c.read_lock))
      race(w, e, thread, 'o', c.other_thread, c.read_pc, c.read_epoch);
  }
  if (c.initialised >> 4 & bytes) race(w, e, thread, 'c', thread, w.read_only_pc[e.array], w.epoch);
  c.initialised |= bytes;
  // An atomic after a plain store: to the others, the store is what matters.
  if (atomic && c.write_epoch == w.epoch && !c.write_atomic) return;
  bool together = c.write_epoch == w.epoch && c.write_thread == thread && c.write_time == time;
  c.write_bytes = together ? c.write_bytes | bytes : bytes;
  c.write_epoch = w.epoch;
  c.write_thread = thread;
  c.write_time = time;
  c.write_pc = e.pc;
  c.write_value = value;
  c.write_many = several;
  c.write_atomic = atomic;
  c.write_lock = e.lock;
}

static SIMT_HOT void check_cell(Worker& w, const Event& e, u32 thread, u16 time, Cell& c, u32 bytes, u32 value) {
  if (e.op == op_read)
    check_read(w, e, thread, time, c, bytes);
  else
    check_write(w, e, thread, time, c, bytes, value);
}

// `more`: what a store of more than 4 bytes wrote to the later ones; null where its value tells all of them.
static SIMT_HOT void check_access(Worker& w, const Event& e, u32 thread, u16 time, const u32* more) {
  Cell* c = cell_of(w, e);
  u32 at = e.offset & 3, left = e.size, value = e.value;
  if (at == 0 && left == 4) return check_cell(w, e, thread, time, *c, 15, value);
  while (left) {
    u32 n = std::min(4 - at, left);
    check_cell(w, e, thread, time, *c++, ((1u << n) - 1) << at, value);
    if (more && left > n) value = *more++;
    left -= n;
    at = 0;
  }
}

// ---- order inside a warp

static void forget_arrivals(Worker& w);

static void forget_order(Worker& w, Block& b) {
  for (WarpClock& clock : b.clocks)
    if (clock.dirty) memset(&clock, 0, sizeof clock);
  if (w.across) forget_arrivals(w);
}

static void add_known(u16* known, const u16* more, u32 count) {
  for (u32 i = 0; i < count; i++) known[i] = std::max(known[i], more[i]);
}

// Lanes of a warp also know what each of them knew of other warps.
static SIMT_COLD void join_across(Worker& w, u32 warp, u32 group) {
  u16 known[kMaxThreads] = {};
  u16* rows = w.across + warp * kLanes * w.threads;
  for (u32 m = group; m; m &= m - 1) add_known(known, rows + __builtin_ctz(m) * w.threads, w.threads);
  for (u32 m = group; m; m &= m - 1) memcpy(rows + __builtin_ctz(m) * w.threads, known, w.threads * sizeof(u16));
}

// The lanes of `group` have met: each now knows what all of them knew.
static void join_lanes(Worker& w, u32 warp, u32 group) {
  WarpClock& clock = w.block->clocks[warp];
  if (w.across) join_across(w, warp, group);
  u16 known[kLanes] = {};
  clock.dirty = true;
  for (u32 m = group; m; m &= m - 1) {
    const u16* row = clock.seen[__builtin_ctz(m)];
    for (u32 i = 0; i < kLanes; i++) known[i] = std::max(known[i], row[i]);
  }
  for (u32 m = group; m; m &= m - 1) {
    u32 lane = __builtin_ctz(m);
    known[lane] = ++clock.time[lane];
  }
  for (u32 m = group; m; m &= m - 1) memcpy(clock.seen[__builtin_ctz(m)], known, sizeof known);
}

}  // namespace simt
