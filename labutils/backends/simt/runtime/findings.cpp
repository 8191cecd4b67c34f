// Findings: kept once for each kind and pair of places, the first in the order of blocks.
#include "core.h"

namespace simt {

static u64 finding_key(const Finding& f) {
  u64 key = static_cast<u64>(f.kind) * 0x9E3779B97F4A7C15ull;
  for (u64 part : {u64{f.pc}, u64{f.other_pc}, u64{f.line}, u64{f.scope}, u64{f.relation}})
    key = (key ^ part) * 0x100000001B3ull + (key >> 29);
  return key;
}

// Count it if it is known; false if it has to be kept: it is new, or was known from a later block only, which
// another worker happened to reach first.
static bool recount(Worker& w, const Finding& f) {
  Findings& all = w.launch->findings;
  std::lock_guard<std::mutex> lock(all.mutex);
  auto it = all.known.find(finding_key(f));
  if (it == all.known.end() || f.block < all.list[it->second].block) return false;
  all.list[it->second].count++;
  return true;
}

static Finding new_finding(Worker& w, Kind kind, uptr pc) {
  Finding f{};
  f.kind = kind;
  f.pc = pc;
  f.array = kDynamicShared;
  f.block = w.block ? w.block->number : 0;
  f.thread = w.current ? w.current->linear : 0;
  f.other_thread = f.other_block = kNone;
  f.count = 1;
  return f;
}

static void report(Worker& w, Finding f) {
  if (recount(w, f)) return;
  if (f.fatal) {
    u32 seen = w.launch->stop_after;
    while (f.block < seen && !w.launch->stop_after.compare_exchange_weak(seen, f.block)) {
    }
  }
  Findings& all = w.launch->findings;
  std::lock_guard<std::mutex> lock(all.mutex);
  auto [known, is_new] = all.known.try_emplace(finding_key(f), all.list.size());
  if (is_new) return all.list.push_back(std::move(f));
  Finding& old = all.list[known->second];
  f.count = old.count + 1;
  if (f.block < old.block)
    old = std::move(f);
  else
    old.count = f.count;
}

}  // namespace simt
