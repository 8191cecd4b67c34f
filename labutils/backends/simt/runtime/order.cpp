// Order between threads that no barrier gives: one writes, calls __threadfence() and sets a flag, another sees the
// flag and reads.
//
// A release is an atomic or volatile store by a thread that has called __threadfence(); it covers what came before that
// fence, and before those fences of its block that a barrier orders before the store. An acquire is an atomic or
// volatile load that saw the release, or an atomic after it: a lock's owner, a ticket, a flag that was waited for. The
// memory model also lets a load see the value from before a store that nothing orders before it. So the first such load
// of each thread does, and whoever reads a flag once and goes on in any case is not ordered behind it, every time. (A
// load that must be newer, and an atomic that changes its variable, see the latest.) The first, plain load of a
// compare-and-swap loop is such a load as well, wherever the variable lies: it is a guess, which the swap checks. So it
// is no race, and a swap that is not tried again loses what it adds.
//
// Flags are set and seen in the order in which the threads run here, which is noted in the trace (`observe`). What that
// says of other accesses is known when the trace is merged (`acquire`, `note_fence`, `is_known`).
#include "core.h"

namespace simt {

static SIMT_HOT void push(Worker& w, uptr pc, u64 offset, u8 op, u8 flags, u8 size, u8 array);
static SIMT_HOT void settle(Worker& w);

struct Release {
  u32 operation, fence, epoch;
  std::vector<u16> across;  // what its thread had seen of other warps by barriers of some threads; empty: nothing
};

struct SyncVariable {
  u32 operation = 0, block = 0, thread = 0, epoch = 0, wakes = 0, meetings = 0;  // of the latest store
  u64 before = 0;                                       // what it overwrote
  std::vector<Release> releases;
  std::vector<u64> shown;  // threads that have seen the value from before it
};

struct Acquisition {  // all releases on a variable up to an operation, by a thread of a block
  uptr address;
  u32 operation, thread, epoch;
  u16 time;
};

struct Fence {
  bool merged, block_only;
  u32 block, thread, epoch;
  u16 row[kLanes];  // of each lane of its warp, the time that came before
  std::vector<u16> across;  // the same of threads of other warps; empty: of none
  std::vector<Acquisition> known;
};

struct Order {
  std::unordered_map<uptr, SyncVariable> variables;
  std::vector<Fence> fences{1};  // by number, from 1
  std::unordered_map<u32, std::vector<u32>> fences_of;             // by block
  std::unordered_map<u32, std::vector<Acquisition>> acquisitions;  // by block
  u32 operations = 0;
  bool released = false;  // by some store after a fence
};

constexpr size_t kVariables = 1 << 17;  // that are followed in a launch without a fence

struct Access {  // that may have happened before
  u32 block, epoch, thread;
  u16 time;
};

constexpr u32 kSearchSteps = 1 << 18;

// ---- while threads run

static Order& order_of(Worker& w) {
  if (!w.order) w.order = std::make_shared<Order>();
  return *w.order;
}

// What is known of a variable; null where so many are followed that this is none.
static SyncVariable* variable_at(Worker& w, uptr address) {
  auto& all = order_of(w).variables;
  if (all.size() < kVariables || w.order->fences.size() > 1) return &all[address];
  auto found = all.find(address);
  return found == all.end() ? nullptr : &found->second;
}

static void fence(Worker& w, bool block_only, uptr pc) {
  if (!w.checked) return;
  order_of(w);
  Fiber& f = *w.current;
  f.fence = w.order->fences.size();
  w.order->fences.push_back({false, block_only, w.block->number, f.linear, 0, {}, {}, {}});
  w.order->fences_of[w.block->number].push_back(f.fence);
  push(w, pc, 0, op_fence, 0, 0, 0);
  w.lanes[f.lane].events[w.lanes[f.lane].count - 1].value = f.fence;
}

// May this thread see what was there before the latest store, by the rules of memory? Once it does.
static bool shows_old(Worker& w, SyncVariable& v, bool to_its_warp = false) {
  const Fiber& f = *w.current;
  bool warps = v.thread / kLanes == f.warp && !(to_its_warp && v.meetings == w.block->warps[f.warp].meetings);
  bool own = v.block == w.block->number && (v.thread == f.linear || warps || v.epoch != w.epoch || v.wakes != w.wakes);
  if (!v.operation || own || v.epoch < w.phase_epoch || v.operation <= w.block->observed) return false;
  u64 me = u64{w.block->number} << 10 | f.linear;
  if (std::find(v.shown.begin(), v.shown.end(), me) != v.shown.end()) return false;
  v.shown.push_back(me);
  return true;
}

static void observed(Worker& w, SyncVariable& v, Event& e, u32 operation) {
  e.value = operation;
  for (auto r = v.releases.rbegin(); r != v.releases.rend(); ++r)
    if (r->operation <= operation) {
      w.block->observed = std::max(w.block->observed, r->operation);
      break;
    }
}

static std::vector<u16> row_across(Worker& w, u32 thread) {
  if (!w.across) return {};
  return {w.across + thread * w.threads, w.across + (thread + 1) * w.threads};
}

static void stored(Worker& w, SyncVariable& v, u64 before) {
  const Fiber& f = *w.current;
  v.operation = ++w.order->operations;
  v.block = w.block->number, v.thread = f.linear, v.epoch = w.epoch, v.wakes = w.wakes;
  v.meetings = w.block->warps[f.warp].meetings;
  v.before = before;
  w.block->polls = 0;  // somebody in the block goes on
  v.shown.clear();
  if (!f.fence) return;
  v.releases.push_back({v.operation, f.fence, w.epoch, row_across(w, f.linear)});
  w.order->released = true;
}

static Event& latest_event(Worker& w) {
  Lane& lane = w.lanes[w.current->lane];
  return lane.events[lane.count - 1];
}

// Memory holds an old value until the next callback.
static void show(Worker& w, uptr address, u32 size, u64 before, u64 now) {
  memcpy(reinterpret_cast<void*>(address), &before, size);
  w.shown_address = address, w.shown_size = size, w.shown_value = now;
  w.pending = &w.shown_event;
  w.pending_more = nullptr;
  w.pending_address = address;
  w.shown_event.size = size;
}

// A volatile load or store that comes now. The old value of a load is in memory until the next callback.
static SIMT_COLD void observe(Worker& w, uptr address, u32 size, bool writes) {
  u64 now = 0;
  memcpy(&now, reinterpret_cast<void*>(address), std::min(size, 8u));
  if (writes) {
    if (SyncVariable* v = variable_at(w, address)) stored(w, *v, now);
    return;
  }
  w.block->polls++;
  auto found = order_of(w).variables.find(address);
  if (found == w.order->variables.end()) return;
  SyncVariable& v = found->second;
  Event& e = latest_event(w);
  if (size > 8 || !shows_old(w, v)) return observed(w, v, e, w.order->operations);
  show(w, address, size, v.before, now);
  e.value = v.operation - 1;
}

// A plain load that begins a compare-and-swap loop.
static SIMT_COLD void guess(Worker& w, uptr address, u32 size) {
  if (!w.order) return;  // no swap has changed anything yet
  auto found = w.order->variables.find(address);
  if (found == w.order->variables.end() || size > 8) return;
  SyncVariable& v = found->second;
  bool shared = address - w.shared_low < w.shared_size || address - w.dynamic_low < w.dynamic_size;
  if ((shared && v.block != w.block->number) || !shows_old(w, v, true)) return;
  u64 now = 0;
  memcpy(&now, reinterpret_cast<void*>(address), size);
  show(w, address, size, v.before, now);
}

static void restore_shown(Worker& w) {
  memcpy(reinterpret_cast<void*>(w.shown_address), &w.shown_value, w.shown_size);
  w.shown_size = 0;
}

// ---- when their traces are merged

static void acquire(Worker& w, const Event& e, u32 thread, u16 time) {
  if (e.op == op_write || !e.value) return;
  uptr address = w.arrays[e.array].low + e.offset;
  auto found = w.order->variables.find(address);
  if (found == w.order->variables.end() || found->second.releases.empty()) return;
  if (found->second.releases[0].operation > e.value) return;
  auto& known = w.order->acquisitions[w.block->number];
  for (Acquisition& a : known)
    if (a.address == address && a.thread == thread && a.epoch == w.epoch && a.time == time) {
      a.operation = std::max(a.operation, e.value);
      return;
    }
  known.push_back({address, e.value, thread, w.epoch, time});
}

static bool is_visible(Worker& w, const Acquisition& a, u32 thread) {
  return a.epoch < w.epoch || ordered_in_block(w, thread, a.thread, a.time);
}

static void note_fence(Worker& w, WarpClock& clock, u32 thread, u32 number) {
  Fence& f = w.order->fences[number];
  u32 lane = thread % kLanes;
  clock.dirty = true;
  clock.time[lane]++;
  clock.seen[lane][lane] = clock.time[lane];
  f.merged = true;
  f.epoch = w.epoch;
  memcpy(f.row, clock.seen[lane], sizeof f.row);
  f.across = row_across(w, thread);
  for (const Acquisition& a : w.order->acquisitions[w.block->number])
    if (is_visible(w, a, thread)) f.known.push_back(a);
}

static bool covers(const Fence& f, const Access& a, u32 reader_block) {
  if (f.block != a.block || (f.block_only && reader_block != f.block)) return false;
  if (a.epoch != f.epoch) return a.epoch < f.epoch;
  if (a.thread / kLanes == f.thread / kLanes) return f.row[a.thread % kLanes] > a.time;
  return !f.across.empty() && f.across[a.thread] > a.time;
}

// Does a barrier order this fence before a store that releases?
static bool precedes(const Fence& f, const Release& r) {
  if (!f.merged || f.epoch != r.epoch) return f.merged && f.epoch < r.epoch;
  return !r.across.empty() && r.across[f.thread] >= f.row[f.thread % kLanes];
}

static bool covers(Order& order, const Release& r, const Access& a, u32 reader_block) {
  if (covers(order.fences[r.fence], a, reader_block)) return true;
  if (order.fences[r.fence].block != a.block) return false;
  for (u32 number : order.fences_of[a.block])
    if (const Fence& f = order.fences[number]; precedes(f, r) && covers(f, a, reader_block)) return true;
  return false;
}

// Has this thread, by flags that it or others before it have seen, come after an access?
static SIMT_COLD bool is_known(Worker& w, u32 thread, const Access& a) {
  if (!w.order) return false;
  std::vector<Acquisition> open;
  for (const Acquisition& seen : w.order->acquisitions[w.block->number])
    if (is_visible(w, seen, thread)) open.push_back(seen);
  std::unordered_map<uptr, u32> done;  // operations of a variable up to which all is looked at
  for (u32 steps = 0; !open.empty();) {
    Acquisition next = open.back();
    open.pop_back();
    u32& from = done[next.address];
    if (next.operation <= from) continue;
    for (const Release& r : w.order->variables[next.address].releases) {
      if (r.operation <= from || r.operation > next.operation) continue;
      const Fence& f = w.order->fences[r.fence];
      if (!f.merged || covers(*w.order, r, a, w.block->number) || ++steps > kSearchSteps) return true;
      open.insert(open.end(), f.known.begin(), f.known.end());
    }
    from = next.operation;
  }
  return false;
}

static bool came_after(Worker& w, u32 thread, u32 other, u16 time, u32 epoch) {
  if (!w.order) return false;
  u32 block = epoch == w.epoch ? w.block->number : w.owners[epoch];
  return is_known(w, thread, {block, epoch, other, time});
}

// ---- a warp's times, counted anew

// What is known of lane `lane` of a warp only depends on which of its times come before which that somebody has seen. So
// these times, in order, can be numbered from 1, and all others come right behind the one before them.
struct Renumbered {
  std::vector<u16> seen[kLanes];  // by lane, in order

  void add(u32 lane, u16 time) {
    if (time) seen[lane].push_back(time);  // 0 stays 0: nothing
  }
  void sort() {
    for (auto& times : seen) {
      std::sort(times.begin(), times.end());
      times.erase(std::unique(times.begin(), times.end()), times.end());
    }
  }
  u16 operator()(u32 lane, u16 time) const {
    const auto& times = seen[lane];
    return std::upper_bound(times.begin(), times.end(), time) - times.begin();
  }
};

static void renumber(Worker& w, u32 warp, const Renumbered& anew, Cell* cells, size_t count) {
  for (Cell* c = cells; c != cells + count; c++) {
    if (c->write_epoch == w.epoch && c->write_thread / kLanes == warp)
      c->write_time = anew(c->write_thread % kLanes, c->write_time);
    if (c->read_epoch != w.epoch) continue;
    if (c->read_thread / kLanes == warp) c->read_time = anew(c->read_thread % kLanes, c->read_time);
    if (c->read_many && c->other_thread / kLanes == warp) c->other_time = anew(c->other_thread % kLanes, c->other_time);
  }
}

static SIMT_COLD void out_of_times(Worker& w, u32 warp, u32 pc) {
  Finding f = new_finding(w, Kind::needs_gpu, w.module_low + pc);
  f.thread = warp * kLanes;
  f.fatal = true;
  f.detail = "too many collectives and fences of a warp since the last barrier of its block to look for races";
  report(w, f);
  abandon(w);
}

// Once in some ten thousand collectives of a warp without a barrier of the block between.
static SIMT_COLD void count_anew(Worker& w, u32 warp, u32 pc) {
  Block& b = *w.block;
  if (w.across) out_of_times(w, warp, pc);  // threads of other warps, too, know of these times
  WarpClock& clock = b.clocks[warp];
  Renumbered anew;
  auto here = [&](u32 thread, u32 epoch) { return thread / kLanes == warp && epoch == w.epoch; };
  std::vector<Fence*> fences;
  std::vector<Acquisition*> acquisitions;
  if (w.order) {
    for (u32 number : w.order->fences_of[b.number])
      if (Fence& f = w.order->fences[number]; f.merged && here(f.thread, f.epoch)) fences.push_back(&f);
    for (Acquisition& a : w.order->acquisitions[b.number])
      if (here(a.thread, a.epoch)) acquisitions.push_back(&a);
  }
  for (u32 lane = 0; lane < kLanes; lane++) {
    for (u32 by = 0; by < kLanes; by++) anew.add(lane, clock.seen[by][lane]);
    for (Fence* f : fences) anew.add(lane, f->row[lane]);
  }
  anew.sort();
  for (u32 lane = 0; lane < kLanes; lane++) {
    clock.time[lane] = anew(lane, clock.time[lane]);
    for (u32 by = 0; by < kLanes; by++) clock.seen[by][lane] = anew(lane, clock.seen[by][lane]);
    for (Fence* f : fences) f->row[lane] = anew(lane, f->row[lane]);
    if (clock.time[lane] > kLatest / 2) out_of_times(w, warp, pc);
  }
  for (Acquisition* a : acquisitions) a->time = anew(a->thread % kLanes, a->time);
  renumber(w, warp, anew, w.static_shadow, w.shared_size / 4 + 1);
  renumber(w, warp, anew, w.dynamic_shadow, w.dynamic_size / 4 + 1);
  for (u32 i = 0; i < w.array_count; i++) renumber(w, warp, anew, w.arrays[i].shadow, w.arrays[i].bytes / 4 + 2);
}

static SIMT_HOT void shorten(Worker& w, u32 warp, u32 pc) {
  const WarpClock& clock = w.block->clocks[warp];
  u16 latest = 0;
  for (u16 time : clock.time) latest = std::max(latest, time);
  if (__builtin_expect(latest >= kLatest, 0)) count_anew(w, warp, pc);
}

// ---- locks: taken by exchanging 0 for 1, given back by a 0. What two threads do under one lock cannot happen at once.

static u8 lock_number(Worker& w, uptr address) {
  auto [it, is_new] = w.lock_numbers.try_emplace(address, 0);
  if (is_new) it->second = 1 + (w.lock_numbers.size() - 1) % 255;
  return it->second;
}

static void take_lock(Worker& w, Fiber& f, uptr address) {
  if (f.locks < sizeof f.held) f.held[f.locks++] = lock_number(w, address);
}

static void drop_lock(Worker& w, Fiber& f, uptr address) {
  u8 number = lock_number(w, address);
  for (u32 i = f.locks; i-- > 0;) {
    if (f.held[i] != number) continue;
    memmove(f.held + i, f.held + i + 1, --f.locks - i);
    return;
  }
}

}  // namespace simt
