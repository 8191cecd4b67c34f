// Requests on their way to the process that counts them (counter_process.cpp), or to the counter of this one.
//
// A kernel's code runs in this process, so what lies in its memory is not to be believed afterwards. What was written
// to the pipe cannot be taken back.
#include "core.h"

#include <unistd.h>

namespace simt {

// Each record is one of these; a request is followed by an offset for each lane, and a copy's also by where to.
struct Record {
  u32 pc, lanes;
  u8 kind, array, size, flags, warp, unused[3];
};
static_assert(sizeof(Record) == 16);

enum : u8 {  // kinds above those of `Op`
  record_happening = 16,
  record_begin = 64,  // pc: size of the module; lanes: number of arrays; followed by LaunchHead and ArrayPlace each
  record_end,
  record_form = record_end + 2,  // pc: of an instruction; lanes: its forms (FormSpec)
  record_note = 128,  // of a film, followed by a Note; films are never counted
  record_case_end = record_end + 1  // written by Python (simt/counting.py); pc: number of the case
};

struct LaunchHead {
  u64 shared_bytes;
};

struct ArrayPlace {
  u64 low, bytes;
};

// What a film tells beside requests: of mbarriers, copies, products, and of who waits.
enum NoteKind : u8 { note_make, note_arrive, note_wait, note_wake, note_copy, note_land, note_store, note_product,
                     note_sync, note_meet };

struct Note {
  u64 barrier = 0, memory = 0;  // barrier: its offset in shared memory, from 2^32 on in dynamic; memory: the matrix's
  int64_t bytes = 0;            // that the barrier's phase still expects
  u32 phase = 0, pending = 0, arrivals = 0;  // of the barrier, afterwards
  int row = 0, column = 0;                   // of a box
  u32 shared = 0, amount = 0, detail = 0;
  u8 kind = 0, unused[7] = {};
};
static_assert(sizeof(Note) == 64);

struct Stream {
  int fd;
  size_t used = 0;
  bool broken = false;  // nobody reads: the case gets no counts
  char buffer[1 << 16];

  explicit Stream(int to) : fd(to) {}

  void flush() {
    for (size_t done = 0; done < used && !broken;) {
      ssize_t n = write(fd, buffer + done, used - done);
      if (n > 0)
        done += n;
      else if (n < 0 && errno != EINTR)
        broken = true;
    }
    used = 0;
  }

  SIMT_HOT void put(const void* data, size_t bytes) {
    if (used + bytes > sizeof buffer) flush();
    memcpy(buffer + used, data, bytes);
    used += bytes;
  }
};

static SIMT_HOT void count(Worker& w, const Request& r) {
  if (!w.stream) return count(w.counter, r);
  Record record{r.pc, r.lanes, r.op, r.array, r.size, r.flags, r.warp, {}};
  w.stream->put(&record, sizeof record);
  if (r.op == op_block) return;
  u32 packed[3 * kLanes], n = 0;
  for (u32 m = r.lanes; m; m &= m - 1) packed[n++] = r.offsets[__builtin_ctz(m)];
  if (r.flags & kCopied)
    for (u32 m = r.lanes; m; m &= m - 1) packed[n++] = r.to[__builtin_ctz(m)];
  if (w.notes)
    for (u32 m = r.lanes; m; m &= m - 1) packed[n++] = r.values[__builtin_ctz(m)];
  w.stream->put(packed, n * sizeof *packed);
}

static void count(Worker& w, Happening what, u64 value = 0) {
  if (!w.checked) return;
  if (!w.stream) return count(w.counter, what, value);
  Record record{static_cast<u32>(value), static_cast<u32>(value >> 32), static_cast<u8>(record_happening + u8{what})};
  w.stream->put(&record, sizeof record);
}

static void begin_counting(Worker& w) {
  const LaunchSpec& s = *w.spec;
  w.counter.site_of.assign(w.code_high - w.module_low, 0);
  for (u32 i = 0; i < w.array_count; i++) w.counter.arrays.push_back(w.arrays[i].low);
  w.counter.knows_forms = s.forms;
  for (u32 i = 0; i < s.form_count; i++) w.counter.forms[s.forms[i].pc] = s.forms[i].forms;
  if (s.trace < 0) return;
  w.stream = std::make_shared<Stream>(s.trace);
  Record record{static_cast<u32>(w.code_high - w.module_low), w.array_count, record_begin};
  if (s.film) w.notes = std::make_shared<std::vector<Note>>();
  w.stream->put(&record, sizeof record);
  LaunchHead head{s.shared_bytes + s.static_shared_bytes};
  w.stream->put(&head, sizeof head);
  for (u32 i = 0; i < w.array_count; i++) {
    ArrayPlace place{w.arrays[i].low, w.arrays[i].bytes};
    w.stream->put(&place, sizeof place);
  }
  if (s.forms && !s.film)
    for (u32 i = 0; i <= s.form_count; i++) {  // and one of no instruction: they are known
      Record known{i ? s.forms[i - 1].pc : 0, i ? s.forms[i - 1].forms : 0, record_form};
      w.stream->put(&known, sizeof known);
    }
  w.stream->flush();  // before any of the kernel's code runs
}

static void end_counting(Worker& w) {
  if (w.square_roots) count(w, happened_roots, w.square_roots);
  if (!w.stream) return;
  Record record{0, 0, record_end};
  w.stream->put(&record, sizeof record);
  w.stream->flush();
}

}  // namespace simt
