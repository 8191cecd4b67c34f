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
constexpr u32 kNamed = 48;  // barriers of a block: 16 of PTX, those of cooperative groups behind them

struct Barrier {
  int arrivals, pending;
  long long bytes;
  u32 phase;
  u32 maker;    // the thread that initialized it
  bool fenced;  // by that thread: copies may arrive at it
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
  bool add, transposed, a_transposed;  // b is stored (k, n), a is stored (k, m)
  u32 group;
};

enum Awaits : u8 { awaits_nothing, awaits_phase, awaits_group, awaits_cluster, awaits_products };

struct Asynchronous {  // of one thread
  Awaits awaits = awaits_nothing;
  uptr barrier = 0;
  int number = 0;  // parity, barrier's number, or groups that may stay
  u32 since = 0;   // phase of the barrier when the wait began
  u32 expected = 0;  // threads that a named barrier waits for
  std::vector<Product> products;
  std::vector<Transfer> stores;
  std::vector<u32> store_groups;
  u32 product_group = 0, store_group = 0;
  bool fenced = false;  // by wgmma_fence(), since its accumulators could be used
};

struct Arrival {  // at a barrier of some of a block's threads: an mbarrier's address, or the number of a named one
  uptr barrier;
  u32 phase;
};

struct Arrived {  // what those that arrived in a phase, or in an earlier one, did and had seen before; empty: nothing
  u32 phase;
  std::vector<u16> known;
};

struct Woken {  // the lanes of a warp whose waits at one place have ended
  u32 warp, lanes;
  Awaits awaits;
  uptr barrier;
};

struct Hopper {  // of one block, or cluster of blocks
  std::vector<Arrival> arrivals;  // by number
  std::unordered_map<uptr, Arrived[2]> met;  // by barrier, and by parity of its phase
  std::vector<u16> across;
  std::unordered_map<uptr, Barrier> barriers;
  std::vector<Transfer> loads;
  std::vector<Push> pushes;
  size_t landed = 0, pushed = 0;
  std::vector<Asynchronous> threads;
  std::vector<Woken> woken;  // in a film, since it was told
  u32 arrived[32][kNamed] = {};  // by block of the cluster and named barrier: threads that arrived and do not wait
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

// ---- order by barriers of some of a block's threads

static void forget_arrivals(Worker& w) {
  std::fill(w.hopper->across.begin(), w.hopper->across.end(), 0);
  w.hopper->met.clear();
}

// A thread arrives now: an event of its trace.
static void arrive_at(Worker& w, uptr barrier, uptr pc) {
  if (!w.checked) return;
  push(w, pc, 0, op_arrive, 0, 0, 0);
  Lane& lane = w.lanes[w.current->lane];
  lane.events[lane.count - 1].value = w.hopper->arrivals.size();
  auto found = w.hopper->barriers.find(barrier);
  w.hopper->arrivals.push_back({barrier, found == w.hopper->barriers.end() ? 0 : found->second.phase});
}

// An mbarrier is initialized (op_make) or used (op_use) now: the search for races takes that for a store and for loads.
static void note_barrier(Worker& w, uptr barrier, Op op, uptr pc) {
  bool is_static = barrier - w.shared_low < w.shared_size;
  if (!w.checked || !(is_static || barrier - w.dynamic_low < w.dynamic_size)) return;
  push(w, pc, barrier - (is_static ? w.shared_low : w.dynamic_low), op, 0, sizeof(u64),
       is_static ? kStaticShared : kDynamicShared);
  Lane& lane = w.lanes[w.current->lane];
  lane.events[lane.count - 1].value = op == op_make ? ++w.unique_value : 0;
}

// Copies may arrive at the mbarriers that this thread has initialized.
static void fence_barriers(Worker& w) {
  if (!w.hopper) return;
  for (auto& [address, barrier] : w.hopper->barriers)
    if (barrier.maker == w.current->linear) barrier.fenced = true;
}

// Add what a thread did, and what it has seen of others; what it does from now on is not among it.
static void tell(Worker& w, u32 thread, std::vector<u16>& known) {
  Hopper& h = *w.hopper;
  known.resize(w.threads);
  if (h.across.empty()) {
    h.across.resize(size_t{w.threads} * w.threads);
    w.across = h.across.data();
  }
  add_known(known.data(), w.across + thread * w.threads, w.threads);
  WarpClock& clock = w.block->clocks[thread / kLanes];
  u32 lane = thread % kLanes, first = thread - lane;
  clock.dirty = true;
  clock.seen[lane][lane] = ++clock.time[lane];
  add_known(known.data() + first, clock.seen[lane], std::min(kLanes, w.threads - first));
}

static void learn(Worker& w, u32 thread, const std::vector<u16>& known) {
  if (known.empty()) return;
  add_known(w.across + thread * w.threads, known.data(), w.threads);
  WarpClock& clock = w.block->clocks[thread / kLanes];
  u32 first = thread / kLanes * kLanes;
  clock.dirty = true;
  add_known(clock.seen[thread % kLanes], known.data() + first, std::min(kLanes, w.threads - first));
}

// The trace of a thread has come to its arrival. A phase begins when the one before it has ended.
static void note_arrival(Worker& w, u32 thread, u32 number) {
  Arrival a = w.hopper->arrivals[number];
  Arrived(&met)[2] = w.hopper->met[a.barrier];
  Arrived &now = met[a.phase & 1], &before = met[~a.phase & 1];
  if (now.phase != a.phase && !before.known.empty()) {
    now.known.resize(w.threads);
    add_known(now.known.data(), before.known.data(), w.threads);
  }
  now.phase = a.phase;
  tell(w, thread, now.known);
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

static SIMT_COLD void complain(Worker& w, Kind kind, const Fiber& f, std::string detail, bool fatal) {
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

// ---- a film's notes

static Note note_of(Worker& w, NoteKind kind, uptr barrier, u32 amount = 0) {
  Note n;
  n.kind = kind, n.amount = amount;
  auto found = w.hopper ? w.hopper->barriers.find(barrier) : decltype(w.hopper->barriers.end()){};
  if (!w.hopper || found == w.hopper->barriers.end()) return n;
  const Barrier& b = found->second;
  n.barrier = shared_place(w, barrier) + 1;
  n.bytes = b.bytes, n.phase = b.phase, n.pending = b.pending, n.arrivals = b.arrivals;
  return n;
}

static Note note_of(Worker& w, NoteKind kind, const Transfer& t, uptr shared, uptr barrier) {
  u64 bytes = u64{t.map.box_rows} * t.map.box_columns * t.map.item;
  Note n = note_of(w, kind, barrier, bytes);
  n.memory = t.map.address, n.row = t.row, n.column = t.column, n.shared = shared_place(w, shared);
  n.detail = t.map.box_rows << 16 | t.map.box_columns;
  return n;
}

static void note_landing(Worker& w, const Transfer& t, uptr to, u64 bytes, uptr barrier) {
  if (filming(w)) write_note(w, note_of(w, note_land, t, to, barrier), 0, 0, 0);
}

static void note_at_barrier(Worker& w, uptr pc) { note(w, note_of(w, note_sync, 0), pc); }

// The waits that have ended, a note for each warp and place.
static void note_woken(Worker& w) {
  if (!filming(w)) return;
  for (const Woken& k : w.hopper->woken) {
    Note n = note_of(w, note_wake, k.awaits == awaits_phase ? k.barrier : 0);
    n.detail = k.awaits;
    write_note(w, n, 0, k.warp, k.lanes);
  }
  w.hopper->woken.clear();
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

// Bytes of a swizzled row of a tile.
static u32 row_bytes(u64 descriptor) { return descriptor >> 62 == 2 ? 64 : 128; }

// The bytes of a block's shared memory that an operand may touch, generously.
static Reads operand(Worker& w, const Product& p, u32 rank, bool is_a) {
  u64 d = is_a ? p.a : p.b, stride = (d >> 32 & 0x3fff) << 4, leading = (d >> 16 & 0x3fff) << 4;
  u32 rows = is_a ? 64 : p.n;
  uptr low = tile_address(w, d, rank) & ~uptr{127};
  if (!(is_a ? p.a_transposed : p.transposed)) return {low, (rows / 8 - 1) * stride + 1024};
  u32 columns = row_bytes(d) / 2;
  return {low, ((rows + columns - 1) / columns - 1) * leading + stride + 8 * row_bytes(d)};
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
    note_landing(w, t, to, bytes, bar);
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
  u32 bytes = row_bytes(descriptor), columns = bytes / 2;
  u64 offset = transposed ? row / columns * leading + k / 8 * stride + k % 8 * bytes + row % columns * 2
                          : row / 8 * stride + row % 8 * bytes + k * 2;
  uptr at = swizzled(w, tile_address(w, descriptor, rank) + offset, rank, descriptor >> 62 ? bytes : 0);
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
  std::erase_if(w.taken, [&](const Worker::Taken& s) { return s.epoch != w.epoch; });
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
      for (u32 k = 0; k < 16; k++) a[r][k] = element(w, p.a, rank, r, k, p.a_transposed);
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
    count(w, happened_product);
    for (bool is_a : {true, false}) {
      Reads r = operand(w, p, rank, is_a);
      w.taken.push_back({r.low, r.low + r.bytes, first, w.epoch, w.wakes, true});
    }
  }
  for (u32 t = 0; t < kGroup; t++) {
    auto& mine = h.threads[first + t].products;
    mine.erase(mine.begin(), mine.begin() + std::min<size_t>(done, mine.size()));
  }
  if (leader.products.empty()) count(w, happened_drain);
  if (filming(w)) write_note(w, note_of(w, note_product, 0, done), 0, first / kLanes, ~0u);
}

}  // namespace simt
