// What one warp-level request costs: 32-byte sectors of global memory, wavefronts of shared memory.
#include "core.h"

namespace simt {

static SIMT_HOT Site& site_of(Counter& c, u32 pc) {
  u32& number = c.site_of[pc];
  if (__builtin_expect(!number, 0)) {
    c.sites.push_back(Site{});
    c.sites.back().pc = pc;
    if (auto known = c.forms.find(pc); known != c.forms.end()) c.sites.back().forms = known->second;
    number = c.sites.size();
  }
  return c.sites[number - 1];
}

// cp.async of 16 bytes goes past L1: for each 128 bytes of memory as many sectors count as 32-byte pieces of shared
// memory are written. So Nsight Compute counts on an H200; where copies are aligned in both, it is the same.
static u32 count_copied(const Counter& c, const Request& r) {
  u64 seen[kLanes];
  u32 count = 0;
  for (u32 m = r.lanes; m; m &= m - 1) {
    u32 lane = __builtin_ctz(m);
    u64 piece = (c.arrays[r.array] + r.offsets[lane]) >> 7 << 27 ^ r.to[lane] >> 5;
    u32 k = 0;
    while (k < count && seen[k] != piece) k++;
    if (k == count) seen[count++] = piece;
  }
  return count;
}

// Lanes whose atomics hit the same address are serialized, and each pass touches its sectors again: so Nsight Compute
// counts on an H100. Where all lanes of a warp are known to share an address, the compiler may have one add for all.
static u32 count_serialized(const Counter& c, const Site& site, const Request& r) {
  struct {
    u64 address;
    u32 pass;
  } seen[kLanes];
  u32 lanes = 0, count = 0;
  for (u32 m = r.lanes; m; m &= m - 1) {
    u64 address = c.arrays[r.array] + r.offsets[__builtin_ctz(m)];
    u32 pass = 0;
    for (u32 k = 0; k < lanes; k++) pass += seen[k].address == address;
    u32 k = 0;
    while (k < lanes && (seen[k].pass != pass || seen[k].address >> 5 != address >> 5)) k++;
    count += k == lanes;
    seen[lanes++] = {address, pass};
  }
  bool one_address = seen[lanes - 1].pass + 1 == lanes;
  return one_address && (site.forms & kElects || !c.knows_forms) ? 1 : count;
}

static SIMT_HOT void count_sectors(const Counter& c, Site& site, const Request& r) {
  u64 seen[2 * kLanes], largest = 0;
  u32 count = 0;
  uptr low = c.arrays[r.array];
  for (u32 m = r.lanes; m; m &= m - 1) {
    uptr address = low + r.offsets[__builtin_ctz(m)];
    for (u64 sector = address >> 5, last = (address + r.size - 1) >> 5; sector <= last; sector++) {
      if (!count || sector > largest) {  // the usual case: addresses that do not fall
        seen[count++] = largest = sector;
        continue;
      }
      if (sector == largest) continue;
      u32 k = 0;
      while (k < count && seen[k] != sector) k++;
      if (k == count) seen[count++] = sector;
    }
  }
  if (r.flags & kCopied) count = std::max(count, count_copied(c, r));
  if (r.op == op_atomic) count = count_serialized(c, site, r);
  site.sectors += count;
  site.ideal_sectors += (u64{static_cast<u32>(__builtin_popcount(r.lanes))} * site.size + 31) / 32;
}

// Wavefronts of one phase: the most different four-byte words that any of the 32 banks must deliver.
static u32 count_wavefronts(u32 lanes, const u32* offsets, u32 size) {
  u32 words[kLanes][kLanes];  // by bank
  u8 used[kLanes] = {};
  u32 most = 0;
  for (u32 m = lanes; m; m &= m - 1) {
    u32 offset = offsets[__builtin_ctz(m)], last = (offset + size - 1) >> 2;
    for (u32 word = offset >> 2; word <= last; word++) {
      u32 bank = word % kLanes, k = 0;
      while (k < used[bank] && words[bank][k] != word) k++;
      if (k < used[bank]) continue;
      words[bank][used[bank]++] = word;
      most = std::max<u32>(most, used[bank]);
    }
  }
  return most;
}

// Does each of these lanes read where its neighbour at this distance does?
static bool in_pairs(u32 lanes, const u32* offsets, u32 distance) {
  for (u32 m = lanes; m; m &= m - 1) {
    u32 lane = __builtin_ctz(m), other = lane ^ distance;
    if (lanes >> other & 1 && offsets[other] != offsets[lane]) return false;
  }
  return true;
}

// 8-byte accesses go half a warp at a time, 16-byte ones a quarter. Two of these phases become one where
// lanes read the same in pairs, or in pairs of pairs.
static SIMT_HOT Passes count_banks(u32 lanes, const u32* offsets, u32 size) {
  Passes found{};
  u32 together = size <= 8 ? 32 : 16, phase = size <= 4 ? 32 : size == 8 ? 16 : 8;
  for (u32 first = 0; first < kLanes; first += together) {
    u32 group = together == 32 ? lanes : lanes & 0xffffu << first;
    if (!group) continue;
    u32 step = in_pairs(group, offsets, 1) || in_pairs(group, offsets, 2) ? together : phase;
    for (u32 at = first; at < first + together; at += step) {
      u32 part = step == 32 ? group : group & ((1u << step) - 1) << at;
      if (!part) continue;
      found.wavefronts += count_wavefronts(part, offsets, size);
      found.ideal++;
    }
  }
  return found;
}

// NVIDIA's compiler reads neighboring elements at once, 8 or 16 bytes, if it knows how they are aligned. So loads of one
// such chunk, with the same lanes and no barrier or store between, count as one wide load if the machine code of one of
// their lines has loads of that width: it reads 16 bytes also for three floats. Where no code is known, they are loads
// of one instruction that read all of the chunk and its beginning first, as a loop over aligned rows does.
static bool fits(const Counter& c, const Chunk& chunk, const Request& r, u32 owner, u32 bytes, u32 covers) {
  if (chunk.epoch != c.epoch || chunk.stores != c.shared_stores[r.warp] || chunk.owner != owner) return false;
  if (chunk.array != r.array || chunk.lanes != r.lanes || chunk.bytes != bytes || chunk.covered & covers) return false;
  for (u32 m = r.lanes; m; m &= m - 1) {
    u32 lane = __builtin_ctz(m);
    if (r.offsets[lane] / bytes * bytes != chunk.at[lane]) return false;
  }
  return true;
}

// Count the loads of these bytes of a chunk as one, or each alone.
static void count_part(Counter& c, Chunk& chunk, u32 width, u32 begin, u32 bytes, bool joins) {
  bool first = true;
  for (u32 i = 0; i < chunk.count; i++) {
    auto& part = chunk.parts[i];
    if (part.begin < begin || part.begin >= begin + bytes) continue;
    Passes now = part.alone;
    if (joins && first) {
      u32 from[kLanes];
      for (u32 lane = 0; lane < kLanes; lane++) from[lane] = chunk.at[lane] + begin;
      now = count_banks(chunk.lanes, from, bytes);
    } else if (joins) {
      now = {};
    }
    Wide& wide = c.sites[part.site].wide[width];
    wide.joins |= joins;
    wide.passes -= part.counted;
    wide.passes += now;
    part.counted = now;
    first = false;
  }
}

static void count_chunk(Counter& c, Chunk& chunk, u32 width) {
  u32 all = (1u << chunk.bytes) - 1, low = chunk.covered & 0xff, high = chunk.covered >> 8;
  if (!c.knows_forms) {
    if (chunk.covered == all) count_part(c, chunk, width, 0, chunk.bytes, true);
    return;
  }
  bool pairs = chunk.forms & kLoads8;
  if (chunk.forms & kLoads16 && chunk.bytes == 16 && chunk.count > 1 && !(pairs && !(low && high)))
    return count_part(c, chunk, width, 0, 16, true);
  for (u32 half : {0, 8}) count_part(c, chunk, width, half, 8, pairs && (half ? high : low) == 0xff);
}

static SIMT_HOT void join(Counter& c, Site& site, const Request& r, u32 width, Passes alone) {
  site.wide[width].passes += alone;
  u32 bytes = kWide[width], lanes = r.lanes, at = r.offsets[__builtin_ctz(lanes)];
  auto aligned = [&] {
    for (u32 m = lanes; m; m &= m - 1)
      if ((r.offsets[__builtin_ctz(m)] ^ at) % bytes) return false;
    return true;
  };
  if (!aligned()) {
    site.wide[width].refused |= !c.knows_forms;
    if (!c.knows_forms || site.size >= (bytes = 8) || !aligned()) return;
  }
  u32 number = &site - c.sites.data(), owner = c.knows_forms ? kNone : number, begin = at % bytes;
  if (site.size >= bytes || begin % site.size) return;
  u32 covers = ((1u << site.size) - 1) << begin;
  auto& known = c.chunks[r.warp][width];
  if (!known) known = std::make_unique<Chunks>();
  Chunk* chunk = std::find_if(known->chunks, known->chunks + Chunks::kept,
                              [&](const Chunk& k) { return fits(c, k, r, owner, bytes, covers); });
  if (chunk == known->chunks + Chunks::kept) {
    site.wide[width].refused |= begin && !c.knows_forms;
    chunk = known->chunks + known->next++ % Chunks::kept;
    chunk->array = r.array, chunk->owner = owner, chunk->lanes = lanes, chunk->bytes = bytes;
    chunk->epoch = c.epoch, chunk->stores = c.shared_stores[r.warp];
    chunk->covered = chunk->count = chunk->forms = 0;
    for (u32 m = lanes; m; m &= m - 1) {
      u32 lane = __builtin_ctz(m);
      chunk->at[lane] = r.offsets[lane] - begin;
    }
  }
  chunk->covered |= covers;
  chunk->forms |= site.forms;
  chunk->parts[chunk->count++] = {number, begin, alone, alone};
  count_chunk(c, *chunk, width);
}

static SIMT_HOT void count_shared(Counter& c, Site& site, const Request& r) {
  Passes once = count_banks(r.lanes, r.offsets, site.size);
  site.passes += once;
  if (site.op != op_read)
    c.shared_stores[r.warp]++;
  else if (!c.forms.empty())
    join(c, site, r, 1, once);
  else if (!c.knows_forms)
    for (u32 width : {0, 1}) join(c, site, r, width, once);
}

static SIMT_HOT void count(Counter& c, const Request& r) {
  Site& site = site_of(c, r.pc);
  u32 lanes = __builtin_popcount(r.lanes);
  site.op = r.op == op_write && r.flags & kCopied                               ? op_copy
            : r.op == op_atomic && !(r.flags & kReturns) && !is_shared(r.array) ? op_reduction
                                                                                : r.op;
  if (r.op == op_block) {
    site.issues++;
    site.active += lanes;
    return;
  }
  site.array = r.array;
  site.size = r.size;
  site.requests++;
  site.lanes += lanes;
  site.bytes += u64{lanes} * r.size;
  if (is_shared(r.array))
    count_shared(c, site, r);
  else
    count_sectors(c, site, r);
}

enum Happening : u8 { happened_barrier, happened_epoch, happened_collective, happened_copy, happened_store,
                      happened_product, happened_drain, happened_divergence, happened_roots };

// What is counted beside requests; `value` is a number of bytes or of roots, or the pc of a branch.
static void count(Counter& c, Happening what, u64 value) {
  switch (what) {
    case happened_barrier: c.barriers++; [[fallthrough]];
    case happened_epoch: c.epoch++; break;
    case happened_collective: c.collectives++; break;
    case happened_copy: c.copies++, c.copied_bytes += value; break;
    case happened_store: c.stores++, c.stored_bytes += value; break;
    case happened_product: c.products++; break;
    case happened_drain: c.drains++; break;
    case happened_divergence: site_of(c, value).divergent++; break;
    case happened_roots: c.square_roots += value; break;
  }
}

// What the whole site took: as wide loads where the compiler joins them.
static Passes passes_of(const Site& site) {
  for (u32 width : {1, 0})
    if (site.wide[width].joins && !site.wide[width].refused) return site.wide[width].passes;
  return site.passes;
}

}  // namespace simt
