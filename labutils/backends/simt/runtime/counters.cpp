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
  site.sectors += count;
  site.ideal_sectors += (u64{static_cast<u32>(__builtin_popcount(lanes))} * site.size + 31) / 32;
}

// Wavefronts of one phase: the most different four-byte words that any of the 32 banks must deliver.
static u32 count_wavefronts(u32 lanes, Event** events) {
  u32 words[kLanes][kLanes];  // by bank
  u8 used[kLanes] = {};
  u32 most = 0;
  for (u32 m = lanes; m; m &= m - 1) {
    const Event& e = *events[__builtin_ctz(m)];
    u32 last = (e.offset + e.size - 1) >> 2;
    for (u32 word = e.offset >> 2; word <= last; word++) {
      u32 bank = word % kLanes, k = 0;
      while (k < used[bank] && words[bank][k] != word) k++;
      if (k < used[bank]) continue;
      words[bank][used[bank]++] = word;
      most = std::max<u32>(most, used[bank]);
    }
  }
  return most;
}

static SIMT_HOT void count_banks(Site& site, u32 lanes, Event** events) {
  // 8-byte accesses go half a warp at a time, 16-byte ones a quarter.
  u32 per_phase = site.size <= 4 ? 32 : site.size == 8 ? 16 : 8;
  for (u32 first = 0; first < kLanes; first += per_phase) {
    u32 phase = per_phase == 32 ? lanes : lanes & (((1u << per_phase) - 1) << first);
    if (!phase) continue;
    site.wavefronts += count_wavefronts(phase, events);
    site.ideal_wavefronts++;
  }
}

}  // namespace simt
