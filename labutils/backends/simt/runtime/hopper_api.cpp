// Hopper's asynchronous machinery (hopper.cpp), as threads use it: waiting and waking, and the calls of
// include/lab/hopper.cuh.
#include "core.h"

namespace simt {

// ---- waiting

static void await(Worker& w, const char* what, Awaits kind, uptr barrier, int number, uptr pc) {
  Fiber* me = w.current;
  Asynchronous& mine = hopper(w).threads[me->linear];
  mine.awaits = kind;
  mine.barrier = barrier;
  mine.number = number;
  if (kind == awaits_phase) mine.since = hopper(w).barriers.at(barrier).phase;
  me->waits_at = what;
  me->pc = pc;
  if (filming(w)) {
    Note n = note_of(w, note_wait, kind == awaits_phase ? barrier : 0, number);
    n.detail = kind;
    note(w, n, pc);
  }
  me->state = State::event;
  wait(w);
}

static void wake(Worker& w, u32 linear) {
  Fiber& f = w.block->fibers[linear];
  f.state = State::ready;
  if (filming(w)) {
    const Asynchronous& a = w.hopper->threads[linear];
    auto& woken = w.hopper->woken;
    if (woken.empty() || woken.back().warp != f.warp || woken.back().barrier != a.barrier || woken.back().awaits != a.awaits)
      woken.push_back({f.warp, 0, a.awaits, a.barrier});
    woken.back().lanes |= 1u << f.lane;
  }
  w.hopper->threads[linear].awaits = awaits_nothing;
  w.block->warps[linear / kLanes].ready |= 1u << linear % kLanes;
}

static bool waits(Worker& w, u32 linear, Awaits kind) {
  return w.block->warps[linear / kLanes].live >> linear % kLanes & 1 &&
         w.block->fibers[linear].state == State::event && w.hopper->threads[linear].awaits == kind;
}

// In place of an address: that of a named barrier.
static uptr named(u32 block, u32 number) { return block * kNamed + number; }

// Those who meet at a named barrier know what all did who wait or have arrived there.
static void meet_all(Worker& w, u32 block, u32 number) {
  Hopper& h = *w.hopper;
  auto waits_here = [&](u32 i) {
    return i / w.block_threads == block && waits(w, i, awaits_group) && u32(h.threads[i].number) % kNamed == number;
  };
  Arrived& arrived = h.met[named(block, number)][0];
  for (u32 i = 0; i < w.threads; i++)
    if (waits_here(i)) tell(w, i, arrived.known);
  for (u32 i = 0; i < w.threads; i++)
    if (waits_here(i)) learn(w, i, arrived.known);
}

// Who waits at an mbarrier knows what those did who arrived in the phase that has ended.
static void follow(Worker& w, u32 thread, uptr barrier, u32 ended) {
  auto found = w.hopper->met.find(barrier);
  if (found == w.hopper->met.end()) return;
  const Arrived& a = found->second[ended & 1];
  if (a.phase == ended) learn(w, thread, a.known);
}

// Wake everyone whose wait is over.
static bool wake_all(Worker& w) {
  Hopper& h = *w.hopper;
  u32 in_group[32][kNamed] = {}, in_cluster = 0;
  bool met[32][kNamed] = {};
  bool woken = false, all = false;
  for (u32 i = 0; i < w.threads; i++) {
    if (waits(w, i, awaits_group)) in_group[i / w.block_threads][h.threads[i].number % kNamed]++;
    if (waits(w, i, awaits_cluster)) in_cluster++;
  }
  for (u32 i = 0; i < w.threads; i++) {
    if (!waits(w, i, awaits_group)) continue;
    u32 block = i / w.block_threads, number = h.threads[i].number % kNamed;
    if (met[block][number] || in_group[block][number] + h.arrived[block][number] < h.threads[i].expected) continue;
    met[block][number] = true;
    all = all || in_group[block][number] == w.threads;
    if (w.checked && in_group[block][number] < w.threads) meet_all(w, block, number);
  }
  for (u32 i = 0; i < w.threads; i++) {
    bool over = false;
    if (waits(w, i, awaits_phase)) {
      const Barrier& b = h.barriers.at(h.threads[i].barrier);
      over = (b.phase & 1) != u32(h.threads[i].number & 1);
      // Parity tells one phase from the next. More phases in one wait: who arrived did not wait for this thread.
      if (u32 ended = b.phase - h.threads[i].since; over && ended > 1)
        complain(w, Kind::missing_wait, w.block->fibers[i],
                 "an mbarrier ended " + std::to_string(ended) + " phases while this thread waited for one: more "
                 "threads arrive than the " + std::to_string(b.arrivals) + " it was made for");
      if (over && w.checked) follow(w, i, h.threads[i].barrier, b.phase - 1);
    } else if (waits(w, i, awaits_group)) {
      over = met[i / w.block_threads][h.threads[i].number % kNamed];
    } else if (waits(w, i, awaits_cluster)) {
      over = in_cluster == w.threads;
      all = all || over;
    }
    if (over) wake(w, i), woken = true;
  }
  if (woken)
    for (u32 block = 0; block < w.threads / w.block_threads; block++)
      for (u32 number = 0; number < kNamed; number++)
        if (met[block][number]) h.arrived[block][number] = 0, h.met.erase(named(block, number));
  if (woken) {
    note_woken(w);
    w.wakes++;
    count(w, happened_epoch);
  }
  if (all) {  // what came before is ordered before what comes now
    next_epoch(w);
    if (w.checked) forget_order(w, *w.block);
  }
  return woken;
}

// No thread can go on: let something happen that they may wait for. False if there is nothing.
static bool asynchronous_progress(Worker& w) {
  if (!w.hopper || w.hopper->threads.empty()) return false;
  Hopper& h = *w.hopper;
  for (;;) {
    if (wake_all(w)) return true;
    if (h.landed < h.loads.size()) {
      land(w, h.loads[h.landed++]);
      continue;
    }
    if (h.pushed < h.pushes.size()) {
      land(w, h.pushes[h.pushed++]);
      continue;
    }
    break;
  }
  bool woken = false;
  for (u32 first = 0; first < w.threads; first += kGroup) {
    u32 within = first % w.block_threads, left = w.block_threads - within;
    if (left < kGroup) {  // the last warps of a block are no group: on to the next block
      first += left - kGroup;
      continue;
    }
    bool all = true;
    for (u32 t = 0; t < kGroup; t++)
      all = all && waits(w, first + t, awaits_products) && h.threads[first + t].number == h.threads[first].number;
    if (!all) continue;
    multiply(w, first);
    for (u32 t = 0; t < kGroup; t++) wake(w, first + t);
    note_woken(w);
    woken = true;
  }
  return woken;
}

static bool asynchronous_engines(Worker& w) { return w.hopper && !w.hopper->threads.empty(); }

static std::string what_is_missing(Worker& w, const Fiber& f) {
  if (f.state != State::event || !w.hopper || w.hopper->threads.empty()) return "";
  const Asynchronous& a = w.hopper->threads[f.linear];
  if (a.awaits != awaits_phase) return "";
  const Barrier& b = w.hopper->barriers.at(a.barrier);
  return " for the end of a phase of parity " + std::to_string(a.number & 1) + ", while its barrier is in one of parity " +
         std::to_string(b.phase & 1) + " that lacks " + std::to_string(b.pending) +
         (b.pending == 1 ? " arrival and " : " arrivals and ") + std::to_string(b.bytes) + " bytes, after " +
         std::to_string(b.phase) + (b.phase == 1 ? " phase" : " phases");
}

// A thread returns from the kernel.
static void end_asynchronous(Worker& w, const Fiber& f) {
  if (!w.hopper || w.hopper->threads.empty()) return;
  Asynchronous& a = w.hopper->threads[f.linear];
  if (!a.stores.empty())
    complain(w, Kind::missing_wait, f,
             "a thread returns while tma_store has still to read shared memory: tma_commit(), then tma_wait<0>()");
}

// A warp that has waited for its products knows nothing of the other three warps' of the group: before one thread lets
// the tile be overwritten, they must have met.
static SIMT_COLD void check_products(Worker& w, uptr low, u64 bytes, uptr pc, const char* what) {
  for (const Worker::Taken& s : w.taken)
    if (s.by_products && s.epoch == w.epoch && s.wakes == w.wakes && overlap(low, bytes, s.low, s.high - s.low)) {
      w.current->pc = pc;
      complain(w, Kind::missing_wait, *w.current,
               std::string(what) + " overwrites a tile that other warps' products read, and no barrier of threads lies "
               "between these products and it");
    }
}

// A plain store to what another thread has told tma_store to read, with no barrier in between.
static SIMT_COLD void check_taken(Worker& w, uptr address, u32 size, uptr pc) {
  check_products(w, address, size, pc, "this store");
  for (const Worker::Taken& s : w.taken)
    if (!s.by_products && s.epoch == w.epoch && s.wakes == w.wakes && s.thread != w.current->linear &&
        overlap(address, size, s.low, s.high - s.low)) {
      w.current->pc = pc;
      complain(w, Kind::missing_wait, *w.current,
               "this store and a tma_store by thread " + std::to_string(s.thread % w.block_threads) +
                   " that reads the same bytes have no barrier of threads between them");
    }
}

static void forget_asynchronous(Worker& w) {
  w.taken.clear();
  if (w.hopper) *w.hopper = Hopper{};
  w.across = nullptr;
}

// Only maps that the host made are believed: they name memory.
static bool passed(Worker& w, const TensorMap& m) {
  const LaunchSpec& s = *w.spec;
  for (u64 at = 0; at + sizeof m <= s.argument_bytes; at++)
    if (!memcmp(s.argument_block + at, &m, sizeof m)) return m.magic == kTensorMap;
  return false;
}

static void require_sane(Worker& w, const TensorMap& m, uptr shared, uptr pc, const char* what) {
  w.current->pc = pc;
  if (!passed(w, m))
    complain(w, Kind::assertion, *w.current, std::string(what) + " with the address of a kernel's CUtensorMap parameter");
  u64 bytes = u64{m.box_rows} * m.box_columns * m.item;
  if (!in_shared(w, shared, bytes))
    complain(w, Kind::missing_wait, *w.current,
             std::string(what) + " of a box of " + std::to_string(bytes) + " bytes, which do not fit into shared memory there");
  u32 unit = m.swizzle ? 8 * m.swizzle : 128;
  if ((shared - (shared - w.dynamic_low < w.dynamic_size ? w.dynamic_low : 0)) % unit)
    complain(w, Kind::missing_wait, *w.current,
             std::string(what) + ": with this swizzle a box begins at a multiple of " + std::to_string(unit) + " bytes");
}

// The copy engine sees an mbarrier only after a fence by the thread that initialized it.
static void require_fenced(Worker& w, const Transfer& t) {
  barrier_at(w, t.barrier, "tma_load");
  for (u32 rank = 0; rank < w.spec->cluster; rank++) {
    auto found = w.hopper->barriers.find(t.barrier + window(w, rank) - window(w, t.rank));
    if (t.blocks >> rank & 1 && found != w.hopper->barriers.end() && !found->second.fenced)
      complain(w, Kind::missing_fence, *w.current,
               "a copy starts that will arrive at an mbarrier, and the thread that initialized it has called no "
               "mbarrier_fence() since",
               false);
  }
}

}  // namespace simt

extern "C" {
using namespace simt;

void simt_mbarrier_init(void* bar, int arrivals) {
  Worker& w = *worker;
  note_barrier(w, uptr(bar), op_make, SIMT_CALLER);
  hopper(w).barriers[uptr(bar)] = {arrivals, arrivals, 0, 0, w.current->linear, false};
  if (filming(w)) note(w, note_of(w, note_make, uptr(bar)), SIMT_CALLER);
}

void simt_mbarrier_fence() { fence_barriers(*worker); }

void simt_mbarrier_arrive(void* bar, int rank, int bytes) {
  Worker& w = *worker;
  w.current->pc = SIMT_CALLER;
  uptr address = uptr(bar);
  if (rank >= 0) address += window(w, rank) - window(w, rank_of(w, *w.current));
  barrier_at(w, address, bytes ? "mbarrier_expect" : "mbarrier_arrive");
  note_barrier(w, address, op_use, SIMT_CALLER);
  arrive_at(w, address, SIMT_CALLER);
  Barrier& b = barrier_at(w, address, bytes ? "mbarrier_expect" : "mbarrier_arrive");
  if (b.pending == 0)
    complain(w, Kind::missing_wait, *w.current,
             "more arrivals at an mbarrier in one phase than the " + std::to_string(b.arrivals) + " it was made for");
  b.bytes += bytes;
  b.pending--;
  count_down(b);
  if (filming(w)) note(w, note_of(w, note_arrive, address, bytes), SIMT_CALLER);
}

u32 simt_mbarrier_phase(void* bar) {
  worker->current->pc = SIMT_CALLER;
  return barrier_at(*worker, uptr(bar), "mbarrier.arrive").phase & 1;
}

void simt_mbarrier_wait(void* bar, int parity) {
  Worker& w = *worker;
  w.current->pc = SIMT_CALLER;
  barrier_at(w, uptr(bar), "mbarrier_wait");
  if (parity != 0 && parity != 1)
    complain(w, Kind::assertion, *w.current, "mbarrier_wait with parity 0 or 1, not " + std::to_string(parity) + ",");
  note_barrier(w, uptr(bar), op_use, SIMT_CALLER);
  await(w, "mbarrier_wait", awaits_phase, uptr(bar), parity, SIMT_CALLER);
}

void simt_tma_load(void* to, const void* map, void* bar, int row, int column, int blocks) {
  Worker& w = *worker;
  Transfer t{*static_cast<const TensorMap*>(map), row, column, uptr(to), uptr(bar), rank_of(w, *w.current), 0};
  t.blocks = blocks ? blocks : 1u << t.rank;
  if (t.blocks >> w.spec->cluster)
    complain(w, Kind::assertion, *w.current,
             "tma_load_multicast to blocks of a cluster of " + std::to_string(w.spec->cluster) + " only");
  require_sane(w, t.map, t.shared, SIMT_CALLER, "tma_load");
  if ((long long)column * t.map.item % 16)  // on an H200 an illegal instruction, with every swizzle
    complain(w, Kind::assertion, *w.current,
             "tma_load of a box that begins in column " + std::to_string(column) +
                 ": it must begin at a multiple of 16 bytes of its rows");
  note_barrier(w, t.barrier, op_use, SIMT_CALLER);
  require_fenced(w, t);
  check_products(w, t.shared, u64{t.map.box_rows} * t.map.box_columns * t.map.item, SIMT_CALLER, "this copy");
  count(w, happened_copy, u64{t.map.box_rows} * t.map.box_columns * t.map.item);
  hopper(w).loads.push_back(t);
  if (filming(w)) note(w, note_of(w, note_copy, t, t.shared, t.barrier), SIMT_CALLER);
}

void simt_tma_store(const void* map, const void* from, int row, int column) {
  Worker& w = *worker;
  Transfer t{*static_cast<const TensorMap*>(map), row, column, uptr(from), 0, rank_of(w, *w.current), 0};
  require_sane(w, t.map, t.shared, SIMT_CALLER, "tma_store");
  Hopper& h = hopper(w);
  u64 bytes = u64{t.map.box_rows} * t.map.box_columns * t.map.item;
  if (is_expected(w, t.shared, bytes, t.rank))
    complain(w, Kind::missing_wait, *w.current, "tma_store starts on a box while a copy to it is still on its way");
  for (u32 i = t.rank * w.block_threads; i < (t.rank + 1) * w.block_threads; i++)
    if (const Fiber& f = w.block->fibers[i];
        i / kLanes < w.warps && w.block->warps[i / kLanes].live >> i % kLanes & 1 && f.unfenced_low < f.unfenced_high &&
        overlap(t.shared, bytes, f.unfenced_low, f.unfenced_high - f.unfenced_low))
      complain(w, Kind::missing_fence, w.block->fibers[i],
               "a thread wrote shared memory by plain stores, and tma_store reads it with no fence_async() by that "
               "thread in between",
               false);
  std::erase_if(w.taken, [&](const Worker::Taken& s) { return s.epoch != w.epoch; });
  w.taken.push_back({t.shared, t.shared + bytes, w.current->linear, w.epoch, w.wakes, false});
  Asynchronous& mine = h.threads[w.current->linear];
  count(w, happened_store, bytes);
  mine.stores.push_back(t);
  mine.store_groups.push_back(mine.store_group);
  if (filming(w)) note(w, note_of(w, note_store, t, t.shared, 0), SIMT_CALLER);
}

void simt_tma_commit() { hopper(*worker).threads[worker->current->linear].store_group++; }

void simt_tma_wait(int groups) { finish_stores(*worker, hopper(*worker).threads[worker->current->linear], groups); }

void simt_fence_async() {
  settle(*worker);
  worker->current->unfenced_low = worker->current->unfenced_high = 0;
  fence_barriers(*worker);
}

void simt_wgmma(float* d, int n, u64 a, u64 b, int add, int transposed, int a_transposed) {
  Worker& w = *worker;
  w.current->pc = SIMT_CALLER;
  Asynchronous& mine = hopper(w).threads[w.current->linear];
  if (w.checked && !own_variable(w, uptr(d), sizeof(float) * n / 2, true, SIMT_FRAME))
    complain(w, Kind::assertion, *w.current, "wgmma with sums in registers");
  Product p{d, a, b, n, add != 0, transposed != 0, a_transposed != 0, mine.product_group};
  if (w.current->lane == 0) {
    check_operand(w, p, *w.current, true);
    check_operand(w, p, *w.current, false);
    if (!mine.fenced)
      complain(w, Kind::missing_fence, *w.current,
               "a wgmma starts with no wgmma_fence() since this thread may have used the accumulators", false);
  }
  mine.products.push_back(p);
}

void simt_wgmma_fence() { hopper(*worker).threads[worker->current->linear].fenced = true; }

void simt_wgmma_commit() { hopper(*worker).threads[worker->current->linear].product_group++; }

void simt_wgmma_wait(int groups, int uses_sums) {
  Worker& w = *worker;
  Asynchronous& mine = hopper(w).threads[w.current->linear];
  if (uses_sums) mine.fenced = false;
  if (mine.products.empty() || mine.products[0].group + groups >= mine.product_group) return;
  await(w, "wgmma_wait", awaits_products, 0, groups, SIMT_CALLER);
}

// `bar.sync` and `bar.arrive` of PTX: so many of the block's threads, of which some only arrive.
void simt_named_barrier(u32 number, u32 threads, int waits) {
  Worker& w = *worker;
  Hopper& h = hopper(w);
  if (!waits) {
    arrive_at(w, named(rank_of(w, *w.current), number % kNamed), SIMT_CALLER);
    h.arrived[rank_of(w, *w.current)][number % kNamed]++;
    return;
  }
  h.threads[w.current->linear].expected = threads;
  await(w, "bar.sync", awaits_group, 0, int(number), SIMT_CALLER);
}

void simt_group_sync(int number) {
  hopper(*worker).threads[worker->current->linear].expected = kGroup;
  await(*worker, "group_sync", awaits_group, 0, number, SIMT_CALLER);
}

void simt_cluster_sync() { await(*worker, "cluster_sync", awaits_cluster, 0, 0, SIMT_CALLER); }

// The threads meet at cluster_wait(): what a thread does between the two halves may come before or after.
void simt_cluster_arrive() {
  bool& arrived = hopper(*worker).threads[worker->current->linear].in_cluster;
  worker->current->pc = SIMT_CALLER;
  if (arrived) complain(*worker, Kind::assertion, *worker->current, "one cluster_wait() for each cluster_arrive()");
  arrived = true;
}

void simt_cluster_wait() {
  bool& arrived = hopper(*worker).threads[worker->current->linear].in_cluster;
  worker->current->pc = SIMT_CALLER;
  if (!arrived) complain(*worker, Kind::assertion, *worker->current, "cluster_arrive() before cluster_wait()");
  arrived = false;
  await(*worker, "cluster_wait", awaits_cluster, 0, 0, SIMT_CALLER);
}

void simt_store_async(void* to, u64 value, void* bar, int rank) {
  Worker& w = *worker;
  w.current->pc = SIMT_CALLER;
  if (rank < 0 || u32(rank) >= w.spec->cluster)
    complain(w, Kind::assertion, *w.current,
             "store_async to a block of a cluster of " + std::to_string(w.spec->cluster) + " only");
  uptr away = window(w, rank) - window(w, rank_of(w, *w.current));
  Push p{uptr(to) + away, uptr(bar) + away, value};
  bool dynamic = p.to - w.dynamic_low < w.dynamic_size;
  if (!in_shared(w, p.to, 8) || (dynamic && p.to + 8 > window(w, rank) + w.spec->shared_bytes) || p.to % 8)
    complain(w, Kind::assertion, *w.current, "store_async to a float2 in shared memory");
  barrier_at(w, p.barrier, "store_async");
  Hopper& h = hopper(w);
  if (h.pushed == h.pushes.size()) h.pushes.clear(), h.pushed = 0;
  h.pushes.push_back(p);
}

u32 simt_cluster_rank() { return rank_of(*worker, *worker->current); }

u32 simt_shared_offset(const void* p) {
  Worker& w = *worker;
  uptr address = uptr(p);
  if (address - w.dynamic_low < w.dynamic_size) return (address - w.dynamic_low) % w.dynamic_stride;
  return address - w.shared_low;
}
}
