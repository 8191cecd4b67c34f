// Asynchronous copies (cp.async): what is copied arrives as late as it may, at the wait of the thread that copies.
//
// A copy reads its source and is counted where it is started. What it stores is held back, and what lay there stays.
// Until it arrives nobody may touch those bytes. When it arrives it counts, in the search for races, as a store by the
// thread that waited: others need a barrier after that.
#include "core.h"

namespace simt {

static void complain(Worker& w, Kind kind, const Fiber& f, std::string detail, bool fatal = true);

static void forget_copies(Block& b) {
  b.arriving = 0;
  b.copies.clear();
  std::fill(b.static_arriving.begin(), b.static_arriving.end(), 0);
  std::fill(b.dynamic_arriving.begin(), b.dynamic_arriving.end(), 0);
}

static Copies& copies_of(Worker& w, u32 linear) {
  Block& b = *w.block;
  if (b.copies.empty()) b.copies.resize(w.threads);
  return b.copies[linear];
}

// For each byte from here on, whether a copy is on its way there.
static u8* arriving_at(Worker& w, uptr address) {
  Block& b = *w.block;
  bool is_static = address - w.shared_low < w.shared_size;
  std::vector<u8>& all = is_static ? b.static_arriving : b.dynamic_arriving;
  if (all.empty()) all.resize((is_static ? w.shared_size : w.dynamic_size) + 16);
  return all.data() + (address - (is_static ? w.shared_low : w.dynamic_low));
}

// An access to shared memory while copies are under way.
static SIMT_COLD void check_arriving(Worker& w, uptr address, u32 size, bool writes, uptr pc) {
  const u8* marks = arriving_at(w, address);
  if (std::find(marks, marks + size, 1) == marks + size) return;
  u32 owner = 0, waits = 0;
  bool of_group = false;
  for (u32 thread = 0; thread < w.block->copies.size(); thread++)
    for (const Copy& c : w.block->copies[thread].pending)
      if (address < c.to + c.bytes && c.to < address + size)
        owner = thread, of_group = !c.barrier, waits = w.block->copies[thread].waits - c.waits;
  std::string since;
  if (of_group && waits) since = " (" + std::to_string(waits) + (waits > 1 ? " waits" : " wait") + " since it was started let it go on)";
  if (of_group && !waits) since = " (no wait since it was started)";
  w.current->pc = pc;
  complain(w, Kind::missing_wait, *w.current,
           std::string(writes ? "writes" : "reads") + " shared memory to which an asynchronous copy by thread " +
               std::to_string(owner % w.block_threads) +
               " is still on its way" + since +
               ": that thread commits and waits for its copies, then all meet at a barrier");
}

static void land_copy(Worker& w, const Copy& c, std::vector<Span>& landed) {
  memcpy(reinterpret_cast<void*>(c.to), c.data, c.bytes);
  memset(arriving_at(w, c.to), 0, c.bytes);
  w.block->arriving--;
  landed.push_back({c.to, c.bytes});
}

// Those of this thread's copies arrive for which `due` is true. Every wait is an event of its own, so that lanes with
// and without copies stay together.
template <class Due>
static void land_copies(Worker& w, uptr pc, Due due) {
  settle(w);
  std::vector<Span> landed;
  auto& pending = copies_of(w, w.current->linear).pending;
  for (const Copy& c : pending)
    if (due(c)) land_copy(w, c, landed);
  std::erase_if(pending, due);
  push(w, pc, 0, op_land, 0, 0, 0);
  Lane& lane = w.lanes[w.current->lane];
  lane.events[lane.count - 1].value = ++w.landing;
  if (!landed.empty()) w.landings[w.landing] = std::move(landed);
}

static void note_landing(Worker& w, const Event& e, u32 thread, u16 time) {
  auto found = w.landings.find(e.value);
  if (found == w.landings.end()) return;
  for (const Span& s : found->second) {
    bool is_static = s.low - w.shared_low < w.shared_size;
    Event store = e;
    store.op = op_write, store.size = s.bytes, store.value = ++w.unique_value;
    store.array = is_static ? kStaticShared : kDynamicShared;
    store.offset = s.low - (is_static ? w.shared_low : w.dynamic_low);
    check_access(w, store, thread, time, nullptr);
  }
  w.landings.erase(found);
}

}  // namespace simt

extern "C" {
using namespace simt;

// Around a store of at most 16 bytes that a copy makes.
void simt_delay(void* to, size_t bytes) {
  Worker& w = *worker;
  uptr address = uptr(to);
  bool shared = (address - w.shared_low < w.shared_size && address + bytes <= w.shared_low + w.shared_size) ||
                (address - w.dynamic_low < w.dynamic_size && address + bytes <= w.dynamic_low + w.dynamic_size);
  w.current->delayed = shared && bytes <= 16 ? address : 0;
  if (w.current->delayed) memcpy(w.current->before, to, bytes);
}

void simt_delayed(size_t bytes, const void* barrier) {
  Worker& w = *worker;
  Fiber& me = *w.current;
  if (!me.delayed) return;
  settle(w);
  void* to = reinterpret_cast<void*>(me.delayed);
  Copies& mine = copies_of(w, me.linear);
  Copy c{me.delayed, uptr(barrier), u32(bytes), mine.group, mine.waits, {}};
  memcpy(c.data, to, bytes);
  memcpy(to, me.before, bytes);
  mine.pending.push_back(c);
  memset(arriving_at(w, me.delayed), 1, bytes);
  w.block->arriving++;
  me.delayed = 0;
}

void simt_copies_commit() { copies_of(*worker, worker->current->linear).group++; }

// Until at most so many of the latest groups are on their way.
void simt_copies_wait(size_t groups) {
  Copies& mine = copies_of(*worker, worker->current->linear);
  u32 now = mine.group;
  mine.waits++;
  land_copies(*worker, SIMT_CALLER, [=](const Copy& c) { return !c.barrier && c.group + groups < now; });
}

// A thread's arrival at a barrier brings the copies that were handed to it.
void simt_copies_arrive(const void* barrier) {
  land_copies(*worker, SIMT_CALLER, [=](const Copy& c) { return c.barrier == uptr(barrier); });
}
}
