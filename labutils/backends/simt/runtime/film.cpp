// Notes of a film (labutils/backends/film): what happens at barriers and in the asynchronous engines, and who waits.
//
// What threads do takes its place among their requests, by an event of the trace. What happens by itself, a copy that
// arrives or a wait that ends, goes to the stream at once: no thread runs then.
#include "core.h"

namespace simt {

static SIMT_HOT void push(Worker& w, uptr pc, u64 offset, u8 op, u8 flags, u8 size, u8 array);

static SIMT_HOT bool filming(const Worker& w) { return w.notes != nullptr; }

static SIMT_COLD void write_note(Worker& w, const Note& n, u32 pc, u32 warp, u32 lanes) {
  Record record{pc, lanes, static_cast<u8>(record_note + n.kind), 0, 0, 0, static_cast<u8>(warp), {}};
  w.stream->put(&record, sizeof record);
  w.stream->put(&n, sizeof n);
}

static u64 shared_place(const Worker& w, uptr address) {
  if (address - w.shared_low < w.shared_size) return address - w.shared_low;
  return (address - w.dynamic_low) | u64{1} << 32;
}

// The thread that runs does this now.
static SIMT_COLD void note(Worker& w, Note n, uptr pc) {
  push(w, pc, 0, op_note, 0, 0, 0);
  Lane& lane = w.lanes[w.current->lane];
  lane.events[lane.count - 1].value = w.notes->size();
  w.notes->push_back(n);
}

// The lanes of a warp that did it together: the last one's note is what the others have come to.
static SIMT_COLD void issue_note(Worker& w, u32 warp, u32 lanes, Event** events) {
  u32 last = 31 - __builtin_clz(lanes);
  write_note(w, (*w.notes)[events[last]->value], events[last]->pc, warp, lanes);
}

static SIMT_COLD void note_meeting(Worker& w, u32 warp, u32 lanes, u32 pc) {
  Note n;
  n.kind = note_meet;
  write_note(w, n, pc, warp, lanes);
}

}  // namespace simt
