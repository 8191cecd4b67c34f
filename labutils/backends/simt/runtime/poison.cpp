// What a shuffle brings from a lane that takes no part is undefined: a NaN that says where it comes from, in floats of
// every size, and that arithmetic keeps. Many kernels read such lanes and throw the value away; one that reaches global
// memory was used.
#include "core.h"

namespace simt {

constexpr u16 kPoison = 0x7ff8;  // and the number of its shuffle, in each 16 bits

struct Poison {  // what one shuffle, with one mask, has brought from lanes that took no part
  uptr pc;
  u32 mask;
  u8 from[kLanes];  // by lane, the lane that it read
};

struct Poisons {
  static constexpr u32 kept = 7;  // 0x7fff is the NaN that CUDA makes of a float in half precision
  Poison of[kept];
  u32 count;
};

static u64 poison(Worker& w, uptr pc, u32 mask, u32 lane, u32 source) {
  if (!w.poisons) w.poisons = std::make_shared<Poisons>();
  Poisons& known = *w.poisons;
  u32 number = 0;
  while (number < known.count && (known.of[number].pc != pc || known.of[number].mask != mask)) number++;
  if (number == Poisons::kept) number--;
  if (number == known.count) known.of[known.count++] = {pc, mask, {}};
  Poison& p = known.of[number];
  p.pc = pc, p.mask = mask, p.from[lane] = source;
  return (kPoison | number) * 0x0001000100010001ull;
}

// The poison in four bytes that a thread stores, or in two, of either sign; null: none. It may have been converted.
static const Poison* poison_in(const Poisons& known, u32 bits, u32 bytes) {
  for (u32 number = 0; number < known.count; number++) {
    u32 tag = kPoison | number;
    bool is = bytes == 2 ? bits == tag
                         : (bits & 0x7fffffff) == tag * 0x10001 || bits == tag << 16 ||  // a float of a bfloat16
                               bits == (0x7fff0000 | number << 13);                      // a float of a half
    if (is) return &known.of[number];
  }
  return nullptr;
}

static SIMT_COLD void check_poison(Worker& w, const void* value, u32 bytes, uptr pc) {
  const u8* p = static_cast<const u8*>(value);
  for (u32 at = 0; at < bytes; at += 4) {
    u32 bits = 0;
    memcpy(&bits, p + at, std::min(4u, bytes - at));
    const Poison* found = bytes > 1 ? poison_in(*w.poisons, bits, bytes) : nullptr;
    if (!found) continue;
    Finding f = new_finding(w, Kind::shuffle_mask, found->pc);
    f.other_pc = pc;
    f.offset = found->mask;
    f.address = found->from[w.current->lane];
    f.detail = "undefined";
    return report(w, f);
  }
}

}  // namespace simt
