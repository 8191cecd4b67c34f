// What one warp-level request costs: 32-byte sectors of global memory, wavefronts of shared memory.
#include "core.h"

namespace simt {

static SIMT_HOT Site& site_of(Counter& c, u32 pc) {
  u32& number = c.site_of[pc];
  if (__builtin_expect(!number, 0)) {
    c.sites.push_back(Site{});
    c.sites.back().pc = pc;
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

// NVIDIA's compiler reads neighbouring elements of an unrolled loop at once, 8 or 16 bytes, if it knows how
// they are aligned. So loads of one instruction that follow each other in memory, with the same lanes and no
// barrier or store between them, count as wide ones: if they begin aligned wherever that instruction is met.
static bool goes_on(const Run& run, u32 lanes, const u32* offsets) {
  if (run.lanes != lanes) return false;
  for (u32 m = lanes; m; m &= m - 1) {
    u32 lane = __builtin_ctz(m);
    if (offsets[lane] != run.start[lane] + run.bytes) return false;
  }
  return true;
}

static SIMT_HOT Run& run_of(Counter& c, Site& site, u32 warp, u32 lanes, const u32* offsets) {
  u32 number = &site - c.sites.data();
  if (c.runs.size() < (number + 1) * kMaxWarps) c.runs.resize((number + 1) * kMaxWarps);
  auto& known = c.runs[number * kMaxWarps + warp];
  if (!known) known = std::make_unique<Runs>();
  for (Run& run : known->runs)
    if (run.epoch == c.epoch && run.stores == c.shared_stores[warp] && goes_on(run, lanes, offsets)) return run;
  Run& run = known->runs[known->next++ % Runs::kept];
  run = {lanes, c.epoch, c.shared_stores[warp], 0, {}, {}};
  for (u32 m = lanes; m; m &= m - 1) {
    u32 lane = __builtin_ctz(m);
    run.start[lane] = offsets[lane];
    for (u32 i = 0; i < 2; i++) site.wide[i].unaligned |= offsets[lane] % kWide[i] != 0;
  }
  return run;
}

static SIMT_HOT void follow_run(Counter& c, Site& site, u32 warp, u32 lanes, const u32* offsets, Passes once) {
  Run& run = run_of(c, site, warp, lanes, offsets);
  run.bytes += site.size;
  for (u32 i = 0; i < 2; i++) {
    Wide& wide = site.wide[i];
    wide.passes += once;
    run.pending[i] += once;
    if (run.bytes % kWide[i]) continue;
    u32 from[kLanes];
    for (u32 lane = 0; lane < kLanes; lane++) from[lane] = run.start[lane] + run.bytes - kWide[i];
    wide.passes -= run.pending[i];
    wide.passes += count_banks(lanes, from, kWide[i]);
    run.pending[i] = {};
  }
}

static SIMT_HOT void count_shared(Counter& c, Site& site, const Request& r) {
  Passes once = count_banks(r.lanes, r.offsets, site.size);
  site.passes += once;
  if (site.op != op_read)
    c.shared_stores[r.warp]++;
  else if (site.size < 16)
    follow_run(c, site, r.warp, r.lanes, r.offsets, once);
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

// What the whole site took: as wide loads where the compiler can make them.
static Passes passes_of(const Site& site) {
  if (site.op == op_read && site.size < 16 && is_shared(site.array))
    for (u32 i : {1, 0})
      if (!site.wide[i].unaligned && kWide[i] > site.size) return site.wide[i].passes;
  return site.passes;
}

}  // namespace simt
