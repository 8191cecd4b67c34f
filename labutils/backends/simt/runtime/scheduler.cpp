// Which thread runs next, and the places where threads wait: block and grid barriers, warp collectives,
// __activemask.
//
// A warp runs until all of its lanes wait; then the next warp. A thread that never waits costs no switch: the
// next one starts on the same stack.
#include "core.h"

namespace simt {

static void thread_main();
static void note_at_barrier(Worker& w, uptr pc);
static SIMT_HOT void push(Worker& w, uptr pc, u64 offset, u8 op, u8 flags, u8 size, u8 array);
static SIMT_HOT void access(uptr address, u32 size, u8 op, u8 flags, uptr pc, uptr frame);
static SIMT_HOT bool own_variable(Worker& w, uptr address, u64 size, bool written, uptr frame);

static SIMT_HOT void start(Worker& w, Fiber* fiber) {
  fiber->stack = take_stack(w);
  fiber->stack_pointer = first_frame(stack_top(fiber->stack), thread_main);
  fiber->state = State::ready;
}

// A ready lane of the warp, in an order that the seed rotates.
static SIMT_HOT Fiber* take_lane(Worker& w, u32 warp_number, u32 among) {
  Warp& warp = w.block->warps[warp_number];
  u32 r = w.lane_rotation, turned = r ? (among >> r) | (among << (32 - r)) : among;
  u32 lane = (__builtin_ctz(turned) + r) % kLanes;
  warp.ready &= ~(1u << lane);
  Fiber* fiber = &w.block->fibers[warp_number * kLanes + lane];
  if (warp.fresh >> lane & 1) {
    warp.fresh &= ~(1u << lane);
    u32 linear = warp_number * kLanes + lane, x = w.block_size.x, y = w.block_size.y, own = linear % w.block_threads;
    fiber->thread = {own % x, own / x % y, own / x / y};
    fiber->linear = linear;
    fiber->warp = warp_number;
    fiber->lane = lane;
    fiber->state = State::fresh;
    fiber->spins = fiber->locks = fiber->fence = 0;
    fiber->copying = fiber->delayed = 0;
    for (auto& read : fiber->reads) read.address = 0;
    fiber->latest_read = 0;
    fiber->read_only = 0;
    fiber->entry_frame = 0;
    fiber->barrier_result = nullptr;
    fiber->unfenced_low = fiber->unfenced_high = 0;
  }
  return fiber;
}

// Lanes that stand at one __activemask() are active together.
static void release_active_mask(Worker& w, u32 warp_number) {
  Warp& warp = w.block->warps[warp_number];
  Fiber* fibers = w.block->fibers + warp_number * kLanes;
  uptr lowest = ~uptr{0};
  u32 group = 0;
  for (u32 m = warp.at_active_mask; m; m &= m - 1) {
    u32 lane = __builtin_ctz(m);
    if (fibers[lane].pc < lowest) lowest = fibers[lane].pc, group = 0;
    if (fibers[lane].pc == lowest) group |= 1u << lane;
  }
  for (u32 m = group; m; m &= m - 1) {
    fibers[__builtin_ctz(m)].mask = group;
    fibers[__builtin_ctz(m)].state = State::ready;
  }
  warp.at_active_mask &= ~group;
  warp.ready |= group;
}

static bool next_warp(Worker& w) {
  Block& b = *w.block;
  for (u32 step = 1; step <= w.warps; step++) {
    u32 number = (b.current_warp + step) % w.warps;
    if (!b.warps[number].ready) continue;
    b.current_warp = number;
    return true;
  }
  return false;
}

static bool asynchronous_engines(Worker& w);
static bool asynchronous_progress(Worker& w);

// Does this block poll what another has yet to do? Then the other runs.
constexpr u32 kPolls = 1024;
static bool parks(Worker& w) {
  return w.may_park && w.block->polls >= kPolls && !asynchronous_engines(w);
}

static SIMT_COLD void deadlock(Worker& w);
static std::string what_is_missing(Worker& w, const Fiber& f);
static void end_asynchronous(Worker& w, const Fiber& f);

// The thread to run now; null when the block has finished, is parked, or when all of it waits for the other blocks of
// the grid.
static Fiber* next_thread(Worker& w) {
  Block& b = *w.block;
  for (;;) {
    Warp& warp = b.warps[b.current_warp];
    if (warp.ready) return take_lane(w, b.current_warp, warp.ready);
    if (w.checked) {
      merge_traces(w, b.current_warp);
      if (warp.ready && parks(w)) return nullptr;
      if (warp.ready) continue;
    }
    if (warp.at_active_mask) {
      release_active_mask(w, b.current_warp);
      continue;
    }
    if (next_warp(w)) continue;
    if (!b.alive) return nullptr;
    if (asynchronous_progress(w)) continue;
    if (b.at_grid_barrier == b.alive) return nullptr;
    deadlock(w);
    abandon(w);
  }
}

static void switch_to(Worker& w, Fiber* from, Fiber* to) {
  w.switches++;
  if (to->state == State::fresh) start(w, to);
  set_current(w, to);
  simt_switch(&from->stack_pointer, to->stack_pointer);
}

// Called by a thread that has noted what it waits for.
static void wait(Worker& w) {
  settle(w);
  Fiber* me = w.current;
  Fiber* next = next_thread(w);
  if (!next)
    simt_switch(&me->stack_pointer, w.main_stack_pointer);
  else if (next == me)
    me->state = State::ready;
  else
    switch_to(w, me, next);
}

// Let the others go first: this thread polls something that they must change.
static void yield_turn(Worker& w) {
  Fiber* me = w.current;
  Block& b = *w.block;
  b.polls++;
  if (++me->spins % 8) return;
  settle(w);
  if (w.checked) merge_traces(w, me->warp);
  if (now() > w.launch->deadline) out_of_time(w, me->pc);
  me->state = State::ready;
  Warp& warp = b.warps[me->warp];
  u32 turn = (me->lane - w.lane_rotation) % kLanes,
      later = 0;  // lanes that come after this one in the warp's order
  for (u32 m = warp.ready; m; m &= m - 1)
    if ((__builtin_ctz(m) - w.lane_rotation) % kLanes > turn) later |= m & -m;
  Fiber* next;
  if (later) {
    next = take_lane(w, me->warp, later);
  } else {
    warp.ready |= 1u << me->lane;
    if (parks(w)) return simt_switch(&me->stack_pointer, w.main_stack_pointer);
    if (!next_warp(w)) b.current_warp = me->warp;
    next = next_thread(w);
    if (!next) return simt_switch(&me->stack_pointer, w.main_stack_pointer);
    if (next == me) return;
  }
  warp.ready |= 1u << me->lane;
  switch_to(w, me, next);
}

// ---- barriers

enum BarrierKind : u8 { barrier_plain, barrier_count, barrier_and, barrier_or, barrier_grid };

static SIMT_COLD void barrier_finding(Worker& w, const Fiber& first, const Fiber* other, const char* why) {
  Finding f = new_finding(w, Kind::barrier_divergence, first.pc);
  f.line = first.line;
  f.thread = first.linear;
  if (other) {
    f.other_pc = other->pc;
    f.other_thread = other->linear;
  }
  f.detail = why;
  report(w, f);
}

static void release_barrier(Worker& w) {
  Block& b = *w.block;
  if (w.checked) merge_traces(w, b.current_warp);
  count(w, happened_barrier);
  const Fiber *first = nullptr, *other = nullptr;
  for (u32 i = 0; i < w.warps; i++) {
    for (u32 m = b.warps[i].live; m; m &= m - 1) {
      Fiber& f = b.fibers[i * kLanes + __builtin_ctz(m)];
      if (!first)
        first = &f;
      else if (f.line != first->line && !other)
        other = &f;
      if (f.barrier_result) {
        u32 votes = b.votes;
        *f.barrier_result = f.barrier_kind == barrier_count ? votes
                            : f.barrier_kind == barrier_and ? votes == b.at_barrier
                                                            : votes != 0;
        f.barrier_result = nullptr;
      }
      f.state = State::ready;
    }
    b.warps[i].ready = b.warps[i].live;
  }
  if (other)
    barrier_finding(w, *first, other, "two places");
  else if (b.at_barrier < w.threads)
    barrier_finding(w, *first, nullptr, "returned");
  b.at_barrier = b.votes = 0;
  next_epoch(w);
  if (w.checked) forget_order(w, b);
  b.current_warp = w.warp_rotation % w.warps;
}

static void arrive(const char* what, u32 line, uptr pc, BarrierKind kind, int predicate, int* result) {
  Worker& w = *worker;
  Block& b = *w.block;
  Fiber* me = w.current;
  me->waits_at = what;
  me->pc = pc;
  me->line = line;
  me->state = State::barrier;
  me->barrier_kind = kind;
  me->barrier_result = result;
  if (filming(w)) note_at_barrier(w, pc);
  if (kind == barrier_grid) {
    b.at_grid_barrier++;
  } else {
    b.votes += predicate != 0;
    if (++b.at_barrier == b.alive) {
      settle(w);
      release_barrier(w);
    }
  }
  wait(w);
}

// ---- warp collectives

static std::string hexadecimal(u32 mask) {
  char text[16];
  snprintf(text, sizeof text, "0x%08x", mask);
  return text;
}

static SIMT_COLD void mask_finding(Worker& w, const Fiber& f, bool fatal, std::string detail,
                                   const Fiber* other) {
  Finding found = new_finding(w, Kind::shuffle_mask, f.pc);
  found.fatal = fatal;
  found.thread = f.linear;
  if (other) {
    found.other_pc = other->pc;
    found.other_thread = other->linear;
  }
  found.detail = std::move(detail);
  report(w, found);
  if (fatal) abandon(w);
}

// If all lanes that the mask names have come, compute the result for all and let them go.
static void try_collective(Worker& w, const Fiber* f) {
  Warp& warp = w.block->warps[f->warp];
  Fiber* fibers = w.block->fibers + f->warp * kLanes;
  u32 need = f->mask & warp.live;
  if ((warp.at_collective & need) != need) return;
  void* payloads[kLanes];
  for (u32 m = need; m; m &= m - 1) {
    u32 lane = __builtin_ctz(m);
    const Fiber& other = fibers[lane];
    if (other.mask != f->mask || other.combine != f->combine)
      mask_finding(w, *f, true,
                   std::string(f->waits_at) + " with mask " + hexadecimal(f->mask) + " meets " +
                       other.waits_at + " with mask " + hexadecimal(other.mask),
                   &other);
    payloads[lane] = other.payload;
  }
  count(w, happened_collective);
  if (f->combine) {  // module code, on this lane's stack: what it touches is not the learner's access
    uptr low = w.stack_low;
    size_t size = w.stack_size;
    w.stack_low = 0;
    w.stack_size = ~size_t{0};
    w.callback_low = reinterpret_cast<uptr>(payloads);
    f->combine(payloads, f->mask, need);
    w.callback_low = 0;
    w.stack_low = low;
    w.stack_size = size;
  }
  for (u32 m = need; m; m &= m - 1) fibers[__builtin_ctz(m)].state = State::ready;
  warp.at_collective &= ~need;
  warp.ready |= need;
  warp.meetings++;
}

static void meet(const char* what, u32 mask, void* payload, Combine combine, uptr pc) {
  Worker& w = *worker;
  Fiber* me = w.current;
  Warp& warp = w.block->warps[me->warp];
  me->waits_at = what;
  me->pc = pc;
  me->mask = mask;
  me->payload = payload;
  me->combine = combine;
  if (!(mask >> me->lane & 1))
    mask_finding(w, *me, true,
                 "lane " + std::to_string(me->lane) + " calls " + what + " with mask " + hexadecimal(mask) +
                     ", which does not name the lane itself",
                 nullptr);
  u32 gone = mask & ~warp.live;
  u32 exist = w.threads - me->warp * kLanes >= kLanes ? ~0u : (1u << (w.threads - me->warp * kLanes)) - 1;
  if (gone & exist)
    mask_finding(w, *me, false,
                 std::string(what) + " waits for lane " + std::to_string(__builtin_ctz(gone & exist)) +
                     " of its warp, which has returned from the kernel",
                 nullptr);
  if (w.checked) push(w, pc, mask, op_sync, combine ? 0 : kOrders, 0, 0);  // who exchanges nothing only meets
  me->state = State::collective;
  warp.at_collective |= 1u << me->lane;
  settle(w);
  try_collective(w, me);
  if (me->state == State::ready)
    warp.ready &= ~(1u << me->lane);
  else
    wait(w);
}

static void finish(Worker& w, Fiber* f) {
  settle(w);
  end_asynchronous(w, *f);
  Block& b = *w.block;
  Warp& warp = b.warps[f->warp];
  warp.live &= ~(1u << f->lane);
  f->state = State::done;
  b.alive--;
  for (u32 m = warp.at_collective; m; m &= m - 1) {
    u32 lane = __builtin_ctz(m);
    Fiber& waiting = b.fibers[f->warp * kLanes + lane];
    if (!(warp.at_collective >> lane & 1) || !(waiting.mask >> f->lane & 1)) continue;
    mask_finding(w, waiting, false,
                 std::string(waiting.waits_at) + " waits for lane " + std::to_string(f->lane) +
                     " of its warp, which has returned from the kernel",
                 nullptr);
    try_collective(w, &waiting);
  }
  if (b.alive && b.at_barrier == b.alive) release_barrier(w);
}

static void thread_main() {
  Worker& w = *worker;
  for (;;) {
    w.spec->entry(w.spec->arguments);
    Fiber* me = w.current;
    finish(w, me);
    Fiber* next = next_thread(w);
    void* unused;
    if (!next) {
      w.free_stacks.push_back(me->stack);
      simt_switch(&unused, w.main_stack_pointer);
    }
    if (next->state == State::fresh) {  // the usual case: the next thread takes over this stack
      next->stack = me->stack;
      next->state = State::ready;
      set_current(w, next);
      continue;
    }
    w.free_stacks.push_back(me->stack);
    set_current(w, next);
    simt_switch(&unused, next->stack_pointer);
  }
}

// Nothing can run: say who waits where, and for which lanes.
static void deadlock(Worker& w) {
  Block& b = *w.block;
  struct Group {
    const Fiber* first;
    u32 count, missing;
  };
  std::vector<Group> groups;
  for (u32 i = 0; i < w.threads; i++) {
    const Fiber& f = b.fibers[i];
    const Warp& warp = b.warps[i / kLanes];
    if (!(warp.live >> (i % kLanes) & 1)) continue;
    auto same = [&](const Group& g) { return g.first->pc == f.pc && g.first->line == f.line; };
    auto it = std::find_if(groups.begin(), groups.end(), same);
    if (it != groups.end()) {
      it->count++;
      continue;
    }
    u32 missing = f.state == State::collective ? f.mask & warp.live & ~warp.at_collective : 0;
    groups.push_back({&f, 1, missing});
  }
  // Collectives first: the learner's mistake is there, and the barrier only waits for those lanes.
  std::stable_sort(groups.begin(), groups.end(),
                   [](const Group& a, const Group& c) { return !!a.missing > !!c.missing; });
  Finding found = new_finding(w, Kind::deadlock, groups[0].first->pc);
  found.fatal = true;
  found.thread = groups[0].first->linear;
  if (groups[0].first->state == State::barrier) found.line = groups[0].first->line;
  if (groups.size() > 1) {
    found.other_pc = groups[1].first->pc;
    found.other_thread = groups[1].first->linear;
  }
  for (const Group& g : groups) {
    if (!found.detail.empty()) found.detail += "; ";
    found.detail += std::to_string(g.count) + (g.count == 1 ? " thread waits at " : " threads wait at ") +
                    g.first->waits_at + what_is_missing(w, *g.first);
    if (g.first->state == State::collective) {
      found.detail += " with mask " + hexadecimal(g.first->mask);
      if (g.missing) found.detail += ", where lanes " + hexadecimal(g.missing) + " are missing";
    }
  }
  u32 returned = w.threads - b.alive;
  if (returned) found.detail += "; " + std::to_string(returned) + " returned";
  report(w, found);
}

}  // namespace simt
