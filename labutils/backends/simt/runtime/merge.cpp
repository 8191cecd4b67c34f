// Turning the traces of a warp's lanes into what the warp did: one request for the lanes that reach an
// instruction together.
//
// Lanes run one after another on the CPU, so each records its own trace. Lanes with identical traces are
// merged position by position; otherwise the lanes at the lowest address go first, as a GPU reconverges them.
#include "core.h"

namespace simt {

static void note_arrival(Worker& w, u32 thread, u32 number);

static SIMT_HOT void issue(Worker& w, u32 warp, u32 lanes, Event** events) {
  const Event& first = *events[__builtin_ctz(lanes)];
  if (first.op == op_sync) {
    for (u32 left = lanes; left;) {
      u32 group = lanes & static_cast<u32>(events[__builtin_ctz(left)]->offset);
      if (!group) group = left & -left;
      if (events[__builtin_ctz(left)]->flags & kOrders) join_lanes(w, warp, group);
      if (filming(w)) note_meeting(w, warp, group, first.pc);
      left &= ~group;
    }
    shorten(w, warp, first.pc);
    return;
  }
  if (first.op == op_fence) {
    for (u32 m = lanes; m; m &= m - 1) {
      u32 lane = __builtin_ctz(m);
      note_fence(w, w.block->clocks[warp], warp * kLanes + lane, events[lane]->value);
    }
    shorten(w, warp, first.pc);
    return;
  }
  if (first.op == op_land) {
    for (u32 m = lanes; m; m &= m - 1) {
      u32 lane = __builtin_ctz(m);
      note_landing(w, *events[lane], warp * kLanes + lane, w.block->clocks[warp].time[lane]);
    }
    return;
  }
  if (first.op == op_arrive) {
    for (u32 m = lanes; m; m &= m - 1) {
      u32 lane = __builtin_ctz(m);
      note_arrival(w, warp * kLanes + lane, events[lane]->value);
    }
    shorten(w, warp, first.pc);
    return;
  }
  if (first.op == op_note) return issue_note(w, warp, lanes, events);
  if (first.op == op_make || first.op == op_use) {
    for (u32 m = lanes; m; m &= m - 1) {
      u32 lane = __builtin_ctz(m);
      Event access = *events[lane];
      access.op = first.op == op_make ? op_write : op_read;
      check_access(w, access, warp * kLanes + lane, w.block->clocks[warp].time[lane], nullptr);
    }
    return;
  }
  Request r;
  r.pc = first.pc, r.lanes = lanes, r.op = first.op, r.array = first.array, r.size = first.size;
  r.flags = first.flags, r.warp = warp;
  if (first.op == op_block) return count(w, r);
  for (u32 m = lanes; m; m &= m - 1) {
    u32 lane = __builtin_ctz(m);
    r.offsets[lane] = events[lane]->offset;
    r.to[lane] = events[lane]->value;
    if (filming(w)) {
      const Event& e = *events[lane];
      r.values[lane] = e.op == op_write ? e.value : w.lanes[lane].more[&e - w.lanes[lane].events][0];
    }
  }
  count(w, r);
  const WarpClock& clock = w.block->clocks[warp];
  for (u32 m = lanes; m; m &= m - 1) {
    u32 lane = __builtin_ctz(m);
    const Event& e = *events[lane];
    if (w.order && w.order->released && !is_shared(e.array) && (e.op == op_atomic || e.flags & kVolatile))
      acquire(w, e, warp * kLanes + lane, clock.time[lane]);
    const Lane& trace = w.lanes[lane];
    check_access(w, e, warp * kLanes + lane, clock.time[lane], e.size > 4 ? trace.more[&e - trace.events] : nullptr);
  }
}

static SIMT_COLD void out_of_time(Worker& w, uptr pc) {
  Finding f = new_finding(w, Kind::endless_loop, pc);
  f.fatal = true;
  report(w, f);
  abandon(w);
}

static void merge_same(Worker& w, u32 warp, u32 active) {
  Event* events[kLanes];
  u32 count = w.lanes[__builtin_ctz(active)].count;
  for (u32 i = 0; i < count; i++) {
    for (u32 m = active; m; m &= m - 1) {
      u32 lane = __builtin_ctz(m);
      events[lane] = w.lanes[lane].events + i;
    }
    issue(w, warp, active, events);
  }
  for (u32 m = active; m; m &= m - 1) {
    Lane& lane = w.lanes[__builtin_ctz(m)];
    lane.count = lane.next = 0;
    lane.path = 0;
  }
}

// Do the lanes that were just together go to different places? Lanes whose trace has ended have returned or
// wait.
static bool parts(Worker& w, u32 group) {
  u32 place = 0;
  bool known = false;
  for (u32 m = group; m; m &= m - 1) {
    const Lane& lane = w.lanes[__builtin_ctz(m)];
    u32 pc = lane.next < lane.count ? lane.events[lane.next].pc : kNone;
    if (known && pc != place) return true;
    place = pc;
    known = true;
  }
  return false;
}

// `full` are lanes that stopped only because their trace was full: what comes next is not known where it
// ends.
static void merge_divergent(Worker& w, u32 warp, u32 active, u32 full) {
  Event* events[kLanes];
  u32 live = active, waiting = 0;  // waiting: at a collective that not all of its lanes have reached
  while (live) {
    u32 candidates = live & ~waiting;
    bool forced = !candidates;  // a mask that can never be met: the scheduler has reported it
    if (forced) candidates = live, waiting = 0;
    u32 lowest = kNone, group = 0;
    for (u32 m = candidates; m; m &= m - 1) {
      u32 lane = __builtin_ctz(m), pc = w.lanes[lane].events[w.lanes[lane].next].pc;
      if (pc < lowest) lowest = pc, group = 0;
      if (pc == lowest) group |= 1u << lane;
    }
    for (u32 m = group; m; m &= m - 1) {
      u32 lane = __builtin_ctz(m);
      events[lane] = w.lanes[lane].events + w.lanes[lane].next;
    }
    const Event& first = *events[__builtin_ctz(group)];
    if (first.op == op_sync && !forced) {
      // Lanes may come to one collective from different places: wait until all that it names are at one.
      u32 named = 0;
      for (u32 m = group; m; m &= m - 1) named |= static_cast<u32>(events[__builtin_ctz(m)]->offset);
      u32 missing = named & live & ~group & ~waiting;
      if (missing) {
        waiting |= group;
        continue;
      }
      u32 met = group | (waiting & named);
      for (u32 m = met; m; m &= m - 1) {
        u32 lane = __builtin_ctz(m);
        events[lane] = w.lanes[lane].events + w.lanes[lane].next;
      }
      group = met;
      waiting &= ~met;
    }
    issue(w, warp, group, events);
    bool ended = false;
    for (u32 m = group; m; m &= m - 1) {
      u32 bit = m & -m;
      Lane& lane = w.lanes[__builtin_ctz(m)];
      if (++lane.next < lane.count) continue;
      live &= ~bit;
      if (full & bit) ended = true;
    }
    if (ended) break;
    if ((group & (group - 1)) && parts(w, group)) count(w, happened_divergence, lowest);
  }
  for (u32 m = active; m; m &= m - 1) {
    Lane& lane = w.lanes[__builtin_ctz(m)];
    u32 rest = lane.count - lane.next;
    if (rest && lane.next) {
      memmove(lane.events, lane.events + lane.next, rest * sizeof(Event));
      memmove(lane.more, lane.more + lane.next, rest * sizeof(More));
    }
    lane.count = rest;
    lane.next = 0;
    lane.path =
        rest ? ~u64{0} - __builtin_ctz(m) : 0;  // what is left differs from what follows in other lanes
  }
}

// Lanes that wait at a collective for others of its mask: what it orders is known when all have come.
static u32 hold_back(Worker& w, u32 warp_number, Event (&held)[kLanes]) {
  u32 waiting = 0;
  for (u32 m = w.block->warps[warp_number].at_collective; m; m &= m - 1) {
    u32 i = __builtin_ctz(m);
    Lane& lane = w.lanes[i];
    if (!lane.count || lane.events[lane.count - 1].op != op_sync) continue;
    held[i] = lane.events[--lane.count];
    waiting |= 1u << i;
  }
  return waiting;
}

static void put_back(Worker& w, u32 waiting, const Event (&held)[kLanes]) {
  for (u32 m = waiting; m; m &= m - 1) {
    u32 i = __builtin_ctz(m);
    Lane& lane = w.lanes[i];
    lane.events[lane.count++] = held[i];
    lane.path = ~u64{0} - i;  // as of what is left of a trace
  }
}

// Merge what the lanes of the warp that is running have recorded, and let lanes go on whose trace was full.
static void merge_traces(Worker& w, u32 warp_number) {
  Warp& warp = w.block->warps[warp_number];
  Fiber* fibers = w.block->fibers + warp_number * kLanes;
  Event held[kLanes];
  u32 active = 0, full = 0, waiting = warp.at_collective ? hold_back(w, warp_number, held) : 0;
  for (u32 i = 0; i < kLanes; i++)
    if (w.lanes[i].count) active |= 1u << i;
  for (u32 m = warp.live & ~warp.fresh; m; m &= m - 1)
    if (fibers[__builtin_ctz(m)].state == State::trace_full) full |= m & -m;
  if (active) {
    const Lane& reference = w.lanes[__builtin_ctz(active)];
    if (now() > w.launch->deadline) {
      u32 lane = full ? __builtin_ctz(full) : __builtin_ctz(active);
      w.current = fibers + lane;
      out_of_time(w, w.module_low + w.lanes[lane].events[w.lanes[lane].count - 1].pc);
    }
    bool same = true;
    for (u32 m = active; m && same; m &= m - 1) {
      const Lane& lane = w.lanes[__builtin_ctz(m)];
      same = lane.count == reference.count && lane.path == reference.path;
    }
    if (same)
      merge_same(w, warp_number, active);
    else
      merge_divergent(w, warp_number, active, full);
  }
  if (waiting) put_back(w, waiting, held);
  for (u32 m = full; m; m &= m - 1) {
    u32 lane = __builtin_ctz(m);
    if (w.lanes[lane].count >= kTraceLength / 2) continue;
    fibers[lane].state = State::ready;
    warp.ready |= 1u << lane;
  }
}

}  // namespace simt
