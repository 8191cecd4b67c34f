// Hopper's asynchronous machinery (include/lab/hopper.cuh): mbarriers, copies by the TMA, products by warp groups,
// clusters whose blocks run together.
//
// Everything happens as late as it may: copies arrive, and products are computed, only when no thread can go on.
// So whoever does not wait sees what was there before, every time.
#include "core.h"

namespace simt {

struct TensorMap {  // labutils/cuda/tensor_map.py
  u64 magic, address, rows, columns, stride;
  u32 box_rows, box_columns, item, swizzle;
};
constexpr u64 kTensorMap = 0x70616D5F726F736Eull;
constexpr u32 kGroup = 128;

struct Barrier {
  int arrivals, pending;
  long long bytes;
  u32 phase;
};

struct Transfer {  // one box on its way
  TensorMap map;
  int row, column;
  uptr shared, barrier;  // in the block that started it
  u32 rank, blocks;
};

struct Push {  // 8 bytes on their way to a block of the cluster
  uptr to, barrier;
  u64 value;
};

struct Product {
  float* d;
  u64 a, b;
  int n;
  bool add, transposed;
  u32 group;
};

enum Awaits : u8 { awaits_nothing, awaits_phase, awaits_group, awaits_cluster, awaits_products };

struct Asynchronous {  // of one thread
  Awaits awaits = awaits_nothing;
  uptr barrier = 0;
  int number = 0;  // parity, barrier's number, or groups that may stay
  std::vector<Product> products;
  std::vector<Transfer> stores;
  std::vector<u32> store_groups;
  u32 product_group = 0, store_group = 0;
};

struct Hopper {  // of one block, or cluster of blocks
  std::unordered_map<uptr, Barrier> barriers;
  std::vector<Transfer> loads;
  std::vector<Push> pushes;
  size_t landed = 0, pushed = 0;
  std::vector<Asynchronous> threads;
};

static float kHalves[1 << 16];

static void prepare_halves() {
  static std::once_flag once;
  std::call_once(once, [] {
    for (u32 h = 0; h < 1 << 16; h++) {
      u32 sign = h >> 15, exponent = h >> 10 & 31, fraction = h & 1023;
      float f = exponent == 31  ? (fraction ? NAN : INFINITY)
                : exponent == 0 ? std::ldexp(float(fraction), -24)
                                : std::ldexp(float(fraction + 1024), int(exponent) - 25);
      kHalves[h] = sign ? -f : f;
    }
  });
}

static Hopper& hopper(Worker& w) {
  if (!w.hopper) {
    prepare_halves();
    w.hopper = std::make_shared<Hopper>();
  }
  if (w.hopper->threads.empty()) w.hopper->threads.resize(w.threads);
  return *w.hopper;
}

static u32 rank_of(Worker& w, const Fiber& f) { return f.linear / w.block_threads; }

static uptr window(Worker& w, u32 rank) { return w.dynamic_low + rank * w.dynamic_stride; }

static SIMT_COLD void complain(Worker& w, Kind kind, const Fiber& f, std::string detail, bool fatal = true) {
  settle(w);
  Finding found = new_finding(w, kind, f.pc);
  found.thread = f.linear;
  found.fatal = fatal;
  found.detail = std::move(detail);
  report(w, found);
  if (fatal) abandon(w);
}

// ---- shared memory, by address

static Cell* shared_cell(Worker& w, uptr address) {
  if (!w.checked) return nullptr;
  if (address - w.shared_low < w.shared_size) return w.static_shadow + ((address - w.shared_low) >> 2);
  if (address - w.dynamic_low < w.dynamic_size) return w.dynamic_shadow + ((address - w.dynamic_low) >> 2);
  return nullptr;
}

static bool in_shared(Worker& w, uptr address, u64 bytes) {
  return (address - w.shared_low < w.shared_size && address + bytes <= w.shared_low + w.shared_size) ||
         (address - w.dynamic_low < w.dynamic_size && address + bytes <= w.dynamic_low + w.dynamic_size);
}

// The swizzle takes its bits from the address itself: 16-byte pieces of a row change places by the row's number.
static uptr swizzled(Worker& w, uptr address, u32 rank, u32 swizzle) {
  uptr base = address - w.dynamic_low < w.dynamic_size ? window(w, rank) : 0, offset = address - base;
  u32 bits = swizzle == 128 ? 7 : swizzle == 64 ? 3 : swizzle == 32 ? 1 : 0;
  return base + (offset ^ ((offset >> 7 & bits) << 4));
}

// ---- mbarriers

static Barrier& barrier_at(Worker& w, uptr address, const char* what) {
  Hopper& h = hopper(w);
  auto found = h.barriers.find(address);
  if (found == h.barriers.end())
    complain(w, Kind::assertion, *w.current, std::string(what) + " on an mbarrier that mbarrier_init has made");
  return found->second;
}

static void count_down(Barrier& b) {
  if (b.pending || b.bytes) return;
  b.phase++;
  b.pending = b.arrivals;
}

// ---- copies

static bool overlap(uptr a, u64 a_bytes, uptr b, u64 b_bytes) { return a < b + b_bytes && b < a + a_bytes; }

struct Reads {
  uptr low;
  u64 bytes;
};

static uptr tile_address(Worker& w, u64 descriptor, u32 rank) {
  uptr offset = (descriptor & 0x3fff) << 4;
  return offset + (w.shared_size && !w.dynamic_size ? w.shared_low : window(w, rank));
}

// The bytes of a block's shared memory that an operand may touch, generously.
static Reads operand(Worker& w, const Product& p, u32 rank, bool is_a) {
  u64 d = is_a ? p.a : p.b, stride = (d >> 32 & 0x3fff) << 4, leading = (d >> 16 & 0x3fff) << 4;
  u32 rows = is_a ? 64 : p.n;
  uptr low = tile_address(w, d, rank) & ~uptr{127};
  if (is_a || !p.transposed) return {low, (rows / 8 - 1) * stride + 1024};
  return {low, (rows / 64 - 1) * leading + stride + 1024};
}

struct Piece {  // the part inside the matrix of 16 bytes of a box
  char* memory;
  u64 skip, bytes;
};

static Piece piece(const Transfer& t, u32 r, u32 c) {
  const TensorMap& m = t.map;
  long long row = t.row + (long long)r, first = t.column + (long long)c, last = first + 16 / m.item;
  long long from = std::max(first, 0ll), to = std::min<long long>(last, m.columns);
  if (row < 0 || row >= (long long)m.rows || from >= to) return {nullptr, 0, 0};
  return {reinterpret_cast<char*>(m.address + row * m.stride + from * m.item), u64(from - first) * m.item,
          u64(to - from) * m.item};
}

// Bytes that no thread has stored are there, and the barrier is told, where one was made.
static void arrived(Worker& w, uptr to, u64 bytes, uptr barrier) {
  if (w.checked)
    for (u64 i = 0; i < bytes; i += 4) {
      Cell* c = shared_cell(w, to + i);
      *c = Cell{};
      c->initialised = 15;
    }
  auto found = w.hopper->barriers.find(barrier);
  if (found == w.hopper->barriers.end()) return;
  found->second.bytes -= bytes;
  count_down(found->second);
}

static void land(Worker& w, const Push& p) {
  memcpy(reinterpret_cast<void*>(p.to), &p.value, 8);
  arrived(w, p.to, 8, p.barrier);
}

static void land(Worker& w, const Transfer& t) {
  const TensorMap& m = t.map;
  Hopper& h = *w.hopper;
  u64 row_bytes = u64{m.box_columns} * m.item, bytes = row_bytes * m.box_rows;
  for (u32 rank = 0; rank < 32; rank++) {
    if (!(t.blocks >> rank & 1)) continue;
    uptr away = window(w, rank) - window(w, t.rank), to = t.shared + away, bar = t.barrier + away;
    for (u32 i = 0; i < w.threads; i += kLanes) {
      const Fiber& f = w.block->fibers[i];
      if (rank_of(w, f) != rank) continue;
      for (const Product& p : h.threads[i].products)
        for (bool is_a : {true, false}) {
          Reads r = operand(w, p, rank, is_a);
          if (overlap(to, bytes, r.low, r.bytes))
            complain(w, Kind::missing_wait, f,
                     "a copy overwrites a tile that a wgmma, started and not waited for, has still to read");
        }
    }
    for (u32 r = 0; r < m.box_rows; r++)
      for (u32 c = 0; c < m.box_columns; c += 16 / m.item) {
        char* at = reinterpret_cast<char*>(swizzled(w, to + r * row_bytes + c * m.item, rank, m.swizzle));
        Piece p = piece(t, r, c);
        memset(at, 0, 16);
        memcpy(at + p.skip, p.memory, p.bytes);
      }
    arrived(w, to, bytes, bar);
  }
}

static void store(Worker& w, const Transfer& t) {
  const TensorMap& m = t.map;
  u64 row_bytes = u64{m.box_columns} * m.item;
  for (u32 r = 0; r < m.box_rows; r++)
    for (u32 c = 0; c < m.box_columns; c += 16 / m.item) {
      char* at = reinterpret_cast<char*>(swizzled(w, t.shared + r * row_bytes + c * m.item, t.rank, m.swizzle));
      Piece p = piece(t, r, c);
      memcpy(p.memory, at + p.skip, p.bytes);
    }
}

static void finish_stores(Worker& w, Asynchronous& a, u32 may_stay) {
  size_t done = 0;
  while (done < a.stores.size() && a.store_groups[done] + may_stay < a.store_group) store(w, a.stores[done++]);
  a.stores.erase(a.stores.begin(), a.stores.begin() + done);
  a.store_groups.erase(a.store_groups.begin(), a.store_groups.begin() + done);
}

// ---- products

static float element(Worker& w, u64 descriptor, u32 rank, u32 row, u32 k, bool transposed) {
  u64 stride = (descriptor >> 32 & 0x3fff) << 4, leading = (descriptor >> 16 & 0x3fff) << 4;
  u64 offset = transposed ? row / 64 * leading + k / 8 * stride + k % 8 * 128 + row % 64 * 2
                          : row / 8 * stride + row % 8 * 128 + k * 2;
  uptr at = swizzled(w, tile_address(w, descriptor, rank) + offset, rank, descriptor >> 62 == 1 ? 128 : 0);
  u16 bits;
  memcpy(&bits, reinterpret_cast<void*>(at), 2);
  return kHalves[bits];
}

// Is a copy to these bytes of a block's shared memory under way?
static bool is_expected(Worker& w, uptr low, u64 bytes, u32 rank) {
  const Hopper& h = *w.hopper;
  for (size_t i = h.landed; i < h.loads.size(); i++) {
    const Transfer& t = h.loads[i];
    uptr to = t.shared + window(w, rank) - window(w, t.rank);
    if (t.blocks >> rank & 1 && overlap(to, u64{t.map.box_rows} * t.map.box_columns * t.map.item, low, bytes))
      return true;
  }
  return false;
}

static void check_operand(Worker& w, const Product& p, const Fiber& f, bool is_a) {
  u32 rank = rank_of(w, f);
  Reads r = operand(w, p, rank, is_a);
  const char* which = is_a ? "a" : "b";
  if (!in_shared(w, r.low, r.bytes))
    complain(w, Kind::missing_wait, f, std::string("tile ") + which + " of a wgmma does not lie in shared memory");
  if (is_expected(w, r.low, r.bytes, rank))
    complain(w, Kind::missing_wait, f,
             std::string("a wgmma starts on tile ") + which + " while a copy to it is still on its way");
  if (!w.checked) return;
  for (u64 i = 0; i < r.bytes; i += 128)
    if (!shared_cell(w, r.low + i)->initialised)
      complain(w, Kind::missing_wait, f,
               std::string("a wgmma starts on tile ") + which + ", which nobody has filled");
}

#if defined(__GNUC__) && !defined(__clang__)
__attribute__((optimize("O3")))
#endif
static void accumulate(const float (*a)[16], const float (*b)[256], float (*sums)[256], int n) {
  for (int r = 0; r < 64; r++)
    for (int k = 0; k < 16; k++)
      for (int c = 0; c < n; c++) sums[r][c] += a[r][k] * b[k][c];
}

// The products of a whole warp group, all of whose threads wait for them.
static void multiply(Worker& w, u32 first) {
  Hopper& h = *w.hopper;
  Asynchronous& leader = h.threads[first];
  struct Tiles {
    float a[64][16], b[16][256], sums[64][256];
  };
  auto tiles = std::make_unique<Tiles>();
  u32 done = 0, last = leader.product_group - leader.number;
  while (done < leader.products.size() && leader.products[done].group < last) done++;
  for (u32 i = 0; i < done; i++) {
    const Product p = leader.products[i];
    const Fiber& f = w.block->fibers[first];
    u32 rank = rank_of(w, f);
    for (u32 t = 0; t < kGroup; t++) {
      const auto& mine = h.threads[first + t].products;
      if (i >= mine.size() || mine[i].a != p.a || mine[i].b != p.b || mine[i].n != p.n)
        complain(w, Kind::missing_wait, w.block->fibers[first + t],
                 "the threads of a warp group started different products: all 128 must make the same wgmma calls");
    }
    auto& [a, b, sums] = *tiles;
    for (u32 r = 0; r < 64; r++)
      for (u32 k = 0; k < 16; k++) a[r][k] = element(w, p.a, rank, r, k, false);
    for (u32 r = 0; r < u32(p.n); r++)
      for (u32 k = 0; k < 16; k++) b[k][r] = element(w, p.b, rank, r, k, p.transposed);
    for (u32 t = 0; t < kGroup; t++) {
      const Product& mine = h.threads[first + t].products[i];
      for (u32 e = 0; e < u32(p.n) / 2; e++)
        sums[t / 32 * 16 + t % 32 / 4 + e / 2 % 2 * 8][e / 4 * 8 + t % 4 * 2 + e % 2] = mine.add ? mine.d[e] : 0.0f;
    }
    accumulate(a, b, sums, p.n);
    for (u32 t = 0; t < kGroup; t++) {
      const Product& mine = h.threads[first + t].products[i];
      for (u32 e = 0; e < u32(p.n) / 2; e++)
        mine.d[e] = sums[t / 32 * 16 + t % 32 / 4 + e / 2 % 2 * 8][e / 4 * 8 + t % 4 * 2 + e % 2];
    }
    w.products++;
  }
  for (u32 t = 0; t < kGroup; t++) {
    auto& mine = h.threads[first + t].products;
    mine.erase(mine.begin(), mine.begin() + std::min<size_t>(done, mine.size()));
  }
}

// ---- waiting

static void await(Worker& w, const char* what, Awaits kind, uptr barrier, int number, uptr pc) {
  Fiber* me = w.current;
  Asynchronous& mine = hopper(w).threads[me->linear];
  mine.awaits = kind;
  mine.barrier = barrier;
  mine.number = number;
  me->waits_at = what;
  me->pc = pc;
  me->state = State::event;
  wait(w);
}

static void wake(Worker& w, u32 linear) {
  Fiber& f = w.block->fibers[linear];
  f.state = State::ready;
  w.hopper->threads[linear].awaits = awaits_nothing;
  w.block->warps[linear / kLanes].ready |= 1u << linear % kLanes;
}

static bool waits(Worker& w, u32 linear, Awaits kind) {
  return w.block->warps[linear / kLanes].live >> linear % kLanes & 1 &&
         w.block->fibers[linear].state == State::event && w.hopper->threads[linear].awaits == kind;
}

// Wake everyone whose wait is over.
static bool wake_all(Worker& w) {
  Hopper& h = *w.hopper;
  u32 count[32][16] = {}, in_cluster = 0;
  bool woken = false;
  for (u32 i = 0; i < w.threads; i++) {
    if (waits(w, i, awaits_group)) count[i / w.block_threads][h.threads[i].number & 15]++;
    if (waits(w, i, awaits_cluster)) in_cluster++;
  }
  for (u32 i = 0; i < w.threads; i++) {
    bool over = false;
    if (waits(w, i, awaits_phase)) {
      const Barrier& b = h.barriers.at(h.threads[i].barrier);
      over = (b.phase & 1) != u32(h.threads[i].number & 1);
    } else if (waits(w, i, awaits_group)) {
      over = count[i / w.block_threads][h.threads[i].number & 15] == kGroup;
    } else if (waits(w, i, awaits_cluster)) {
      over = in_cluster == w.threads;
    }
    if (over) wake(w, i), woken = true;
  }
  if (woken) {  // what came before is ordered before what comes now
    w.epoch++;
    if (w.checked) forget_order(*w.block);
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
    woken = true;
  }
  return woken;
}

static std::string what_is_missing(Worker& w, const Fiber& f) {
  if (f.state != State::event || !w.hopper || w.hopper->threads.empty()) return "";
  const Asynchronous& a = w.hopper->threads[f.linear];
  if (a.awaits != awaits_phase) return "";
  const Barrier& b = w.hopper->barriers.at(a.barrier);
  return " for the end of a phase of parity " + std::to_string(a.number & 1) + ", while its barrier is in one of parity " +
         std::to_string(b.phase & 1) + " that lacks " + std::to_string(b.pending) +
         (b.pending == 1 ? " arrival and " : " arrivals and ") + std::to_string(b.bytes) + " bytes";
}

// A thread returns from the kernel.
static void end_asynchronous(Worker& w, const Fiber& f) {
  if (!w.hopper || w.hopper->threads.empty()) return;
  Asynchronous& a = w.hopper->threads[f.linear];
  if (!a.stores.empty())
    complain(w, Kind::missing_wait, f,
             "a thread returns while tma_store has still to read shared memory: tma_commit(), then tma_wait<0>()");
}

// A plain store to what another thread has told tma_store to read, with no barrier in between.
static SIMT_COLD void check_taken(Worker& w, uptr address, u32 size, uptr pc) {
  for (const Worker::Taken& s : w.taken)
    if (s.epoch == w.epoch && s.thread != w.current->linear && overlap(address, size, s.low, s.high - s.low)) {
      w.current->pc = pc;
      complain(w, Kind::missing_wait, *w.current,
               "this store and a tma_store by thread " + std::to_string(s.thread % w.block_threads) +
                   " that reads the same bytes have no barrier of threads between them");
    }
}

static void forget_asynchronous(Worker& w) {
  w.taken.clear();
  if (w.hopper) *w.hopper = Hopper{};
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

}  // namespace simt

extern "C" {
using namespace simt;

void simt_mbarrier_init(void* bar, int arrivals) {
  hopper(*worker).barriers[uptr(bar)] = {arrivals, arrivals, 0, 0};
}

void simt_mbarrier_arrive(void* bar, int rank, int bytes) {
  Worker& w = *worker;
  w.current->pc = SIMT_CALLER;
  uptr address = uptr(bar);
  if (rank >= 0) address += window(w, rank) - window(w, rank_of(w, *w.current));
  Barrier& b = barrier_at(w, address, bytes ? "mbarrier_expect" : "mbarrier_arrive");
  if (b.pending == 0)
    complain(w, Kind::missing_wait, *w.current,
             "more arrivals at an mbarrier in one phase than the " + std::to_string(b.arrivals) + " it was made for");
  b.bytes += bytes;
  b.pending--;
  count_down(b);
}

void simt_mbarrier_wait(void* bar, int parity) {
  Worker& w = *worker;
  w.current->pc = SIMT_CALLER;
  barrier_at(w, uptr(bar), "mbarrier_wait");
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
  barrier_at(w, t.barrier, "tma_load");
  w.copies++;
  w.copied_bytes += u64{t.map.box_rows} * t.map.box_columns * t.map.item;
  hopper(w).loads.push_back(t);
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
  w.taken.push_back({t.shared, t.shared + bytes, w.current->linear, w.epoch});
  Asynchronous& mine = h.threads[w.current->linear];
  w.stores++;
  w.stored_bytes += bytes;
  mine.stores.push_back(t);
  mine.store_groups.push_back(mine.store_group);
}

void simt_tma_commit() { hopper(*worker).threads[worker->current->linear].store_group++; }

void simt_tma_wait(int groups) { finish_stores(*worker, hopper(*worker).threads[worker->current->linear], groups); }

void simt_fence_async() {
  settle(*worker);
  worker->current->unfenced_low = worker->current->unfenced_high = 0;
}

void simt_wgmma(float* d, int n, u64 a, u64 b, int add, int transposed) {
  Worker& w = *worker;
  w.current->pc = SIMT_CALLER;
  Asynchronous& mine = hopper(w).threads[w.current->linear];
  Product p{d, a, b, n, add != 0, transposed != 0, mine.product_group};
  if (w.current->lane == 0) {
    check_operand(w, p, *w.current, true);
    check_operand(w, p, *w.current, false);
  }
  mine.products.push_back(p);
}

void simt_wgmma_commit() { hopper(*worker).threads[worker->current->linear].product_group++; }

void simt_wgmma_wait(int groups) {
  Worker& w = *worker;
  Asynchronous& mine = hopper(w).threads[w.current->linear];
  if (mine.products.empty() || mine.products[0].group + groups >= mine.product_group) return;
  await(w, "wgmma_wait", awaits_products, 0, groups, SIMT_CALLER);
}

void simt_group_sync(int number) { await(*worker, "group_sync", awaits_group, 0, number, SIMT_CALLER); }

void simt_cluster_sync() { await(*worker, "cluster_sync", awaits_cluster, 0, 0, SIMT_CALLER); }

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
