// What one warp-level request costs: 32-byte sectors of global memory, wavefronts of shared memory.
#include "core.h"

namespace simt {

static SIMT_HOT Site& site_of(Worker& w, u32 pc) {
  u32& number = w.site_of[pc];
  if (__builtin_expect(!number, 0)) {
    w.sites.push_back(Site{});
    w.sites.back().pc = pc;
    number = w.sites.size();
  }
  return w.sites[number - 1];
}

// cp.async of 16 bytes goes past L1: for each 128 bytes of memory as many sectors count as 32-byte pieces of shared
// memory are written. So Nsight Compute counts on an H200; where copies are aligned in both, it is the same.
static u32 count_copied(Worker& w, u32 lanes, Event** events) {
  u64 seen[kLanes];
  u32 count = 0;
  for (u32 m = lanes; m; m &= m - 1) {
    const Event& e = *events[__builtin_ctz(m)];
    u64 piece = (w.arrays[e.array].low + e.offset) >> 7 << 27 ^ e.value >> 5;
    u32 k = 0;
    while (k < count && seen[k] != piece) k++;
    if (k == count) seen[count++] = piece;
  }
  return count;
}

static SIMT_HOT void count_sectors(Worker& w, Site& site, u32 lanes, Event** events) {
  u64 seen[2 * kLanes], largest = 0;
  u32 count = 0;
  for (u32 m = lanes; m; m &= m - 1) {
    const Event& e = *events[__builtin_ctz(m)];
    uptr address = w.arrays[e.array].low + e.offset;
    for (u64 sector = address >> 5, last = (address + e.size - 1) >> 5; sector <= last; sector++) {
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
  if (events[__builtin_ctz(lanes)]->flags & kCopied) count = std::max(count, count_copied(w, lanes, events));
  site.sectors += count;
  site.ideal_sectors += (u64{static_cast<u32>(__builtin_popcount(lanes))} * site.size + 31) / 32;
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

static SIMT_HOT Run& run_of(Worker& w, Site& site, u32 warp, u32 lanes, const u32* offsets) {
  u32 number = &site - w.sites.data();
  if (w.runs.size() < (number + 1) * kMaxWarps) w.runs.resize((number + 1) * kMaxWarps);
  auto& known = w.runs[number * kMaxWarps + warp];
  if (!known) known = std::make_unique<Runs>();
  for (Run& run : known->runs)
    if (run.epoch == w.epoch && run.stores == w.shared_stores[warp] && goes_on(run, lanes, offsets)) return run;
  Run& run = known->runs[known->next++ % Runs::kept];
  run = {lanes, w.epoch, w.shared_stores[warp], 0, {}, {}};
  for (u32 m = lanes; m; m &= m - 1) {
    u32 lane = __builtin_ctz(m);
    run.start[lane] = offsets[lane];
    for (u32 i = 0; i < 2; i++) site.wide[i].unaligned |= offsets[lane] % kWide[i] != 0;
  }
  return run;
}

static SIMT_HOT void follow_run(Worker& w, Site& site, u32 warp, u32 lanes, const u32* offsets, Passes once) {
  Run& run = run_of(w, site, warp, lanes, offsets);
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

static SIMT_HOT void count_shared(Worker& w, Site& site, u32 warp, u32 lanes, Event** events) {
  u32 offsets[kLanes];
  for (u32 m = lanes; m; m &= m - 1) {
    u32 lane = __builtin_ctz(m);
    offsets[lane] = events[lane]->offset;
  }
  Passes once = count_banks(lanes, offsets, site.size);
  site.passes += once;
  if (site.op != op_read)
    w.shared_stores[warp]++;
  else if (site.size < 16)
    follow_run(w, site, warp, lanes, offsets, once);
}

// What the whole site took: as wide loads where the compiler can make them.
static Passes passes_of(const Site& site) {
  if (site.op == op_read && site.size < 16 && is_shared(site.array))
    for (u32 i : {1, 0})
      if (!site.wide[i].unaligned && kWide[i] > site.size) return site.wide[i].passes;
  return site.passes;
}

}  // namespace simt
