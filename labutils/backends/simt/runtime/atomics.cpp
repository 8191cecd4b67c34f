// Atomic operations. They are real ones of the CPU, so that blocks on several operating-system threads agree.
#include "core.h"

namespace simt {

static float half_to_float(u16 h) {
  u32 sign = (h & 0x8000u) << 16, exponent = (h >> 10) & 31, fraction = h & 1023, bits;
  if (!exponent) {
    float f = fraction * 5.9604644775390625e-8f;  // subnormal: multiples of 2^-24
    return sign ? -f : f;
  }
  bits =
      exponent == 31 ? sign | 0x7f800000u | fraction << 13 : sign | (exponent + 112) << 23 | fraction << 13;
  float f;
  memcpy(&f, &bits, 4);
  return f;
}

static u16 float_to_half(float f) {
  u32 bits;
  memcpy(&bits, &f, 4);
  u32 sign = (bits >> 16) & 0x8000u, size = bits & 0x7fffffffu;
  if (size > 0x7f800000u) return 0x7fff;
  if (size >= 0x477ff000u) return sign | 0x7c00;
  if (size < 0x38800000u) return sign | static_cast<u32>(rintf(fabsf(f) * 16777216.0f));
  return sign | ((size + 0xfffu + ((size >> 13) & 1) - 0x38000000u) >> 13);
}

struct Half {
  u16 bits;
  Half() = default;
  Half(float f) : bits(float_to_half(f)) {}
  operator float() const { return half_to_float(bits); }
};

struct Bfloat16 {
  u16 bits;
  Bfloat16() = default;
  Bfloat16(float f) {
    u32 x;
    memcpy(&x, &f, 4);
    bits = (x & 0x7fffffffu) > 0x7f800000u ? 0x7fff : (x + 0x7fffu + ((x >> 16) & 1)) >> 16;
  }
  operator float() const {
    u32 x = u32{bits} << 16;
    float f;
    memcpy(&f, &x, 4);
    return f;
  }
};

template <class H>
struct Pair {
  H low, high;
};

enum AtomicOp {
  atomic_add,
  atomic_sub,
  atomic_max,
  atomic_min,
  atomic_and,
  atomic_or,
  atomic_xor,
  atomic_exchange,
  atomic_increment,
  atomic_decrement,
  atomic_compare
};

template <class T>
static T combine_atomic(int op, T old, T value, T expected) {
  switch (op) {
    case atomic_add: return static_cast<T>(old + value);
    case atomic_sub: return static_cast<T>(old - value);
    case atomic_max: return old < value ? value : old;
    case atomic_min: return value < old ? value : old;
    case atomic_exchange: return value;
    case atomic_increment: return old >= value ? T(0) : static_cast<T>(old + T(1));
    case atomic_decrement: return old == T(0) || old > value ? value : static_cast<T>(old - T(1));
    case atomic_compare: return memcmp(&old, &expected, sizeof(T)) ? old : value;
  }
  if constexpr (std::is_integral<T>::value) {
    if (op == atomic_and) return old & value;
    if (op == atomic_or) return old | value;
    if (op == atomic_xor) return old ^ value;
  }
  return old;
}

// CUDA only adds pairs.
template <class H>
static Pair<H> combine_atomic(int, Pair<H> old, Pair<H> value, Pair<H>) {
  return {H(old.low + value.low), H(old.high + value.high)};
}

template <class T, class Bits>
static bool update(int op, void* p, const void* value, const void* expected, void* old_out) {
  static_assert(sizeof(T) == sizeof(Bits));
  T v, e{}, old;
  memcpy(&v, value, sizeof v);
  if (expected) memcpy(&e, expected, sizeof e);
  Bits before = __atomic_load_n(static_cast<Bits*>(p), __ATOMIC_RELAXED), after;
  do {
    memcpy(&old, &before, sizeof old);
    T next = combine_atomic(op, old, v, e);
    memcpy(&after, &next, sizeof after);
  } while (!__atomic_compare_exchange_n(static_cast<Bits*>(p), &before, after, false, __ATOMIC_SEQ_CST,
                                        __ATOMIC_SEQ_CST));
  memcpy(old_out, &before, sizeof before);
  return before != after;
}

enum AtomicType {
  type_none,
  type_i32,
  type_u32,
  type_i64,
  type_u64,
  type_f32,
  type_f64,
  type_half,
  type_bfloat16,
  type_u16,
  type_half2,
  type_bfloat162
};

static const u8 atomic_bytes[] = {0, 4, 4, 8, 8, 4, 8, 2, 2, 2, 4, 4};

static void follow_lock(Worker& w, int op, uptr address, bool changed, const void* value, const void* expected,
                        u32 bytes) {
  u64 v = 0, e = 0;
  memcpy(&v, value, bytes);
  if (expected) memcpy(&e, expected, bytes);
  if (!changed || (op != atomic_compare && op != atomic_exchange)) return;
  if (v == 1 && (op == atomic_exchange || e == 0)) take_lock(w, *w.current, address);
  if (v == 0 && (op == atomic_exchange || e == 1)) drop_lock(w, *w.current, address);
}

static bool update_as(int type, int op, void* p, const void* value, const void* expected, void* old) {
  switch (type) {
    case type_i32: return update<int32_t, u32>(op, p, value, expected, old);
    case type_u32: return update<u32, u32>(op, p, value, expected, old);
    case type_i64: return update<int64_t, u64>(op, p, value, expected, old);
    case type_u64: return update<u64, u64>(op, p, value, expected, old);
    case type_f32: return update<float, u32>(op, p, value, expected, old);
    case type_f64: return update<double, u64>(op, p, value, expected, old);
    case type_half: return update<Half, u16>(op, p, value, expected, old);
    case type_bfloat16: return update<Bfloat16, u16>(op, p, value, expected, old);
    case type_u16: return update<u16, u16>(op, p, value, expected, old);
    case type_half2: return update<Pair<Half>, u32>(op, p, value, expected, old);
    case type_bfloat162: return update<Pair<Bfloat16>, u32>(op, p, value, expected, old);
  }
  return false;
}

// An atomic that changes nothing may come before the latest store as well as after it, if it changes nothing there.
template <class Again>
static bool could_be_earlier(void* p, u32 bytes, u64 before, Again again) {
  u64 now = 0;
  memcpy(&now, p, bytes);
  memcpy(p, &before, bytes);
  bool changes = again();
  memcpy(p, &now, bytes);
  if (changes) again();  // for its result
  return !changes;
}

}  // namespace simt

extern "C" void simt_atomic(int op, int type, void* p, const void* value, const void* expected) {
  using namespace simt;
  Worker& w = *worker;
  u64* old = &w.current->atomic_result;
  *old = 0;
  u32 bytes = atomic_bytes[type];
  uptr pc = SIMT_CALLER;
  // PTX has no `red` that exchanges or compares: these bring the old value, whether it is used or not.
  u8 returns = op == atomic_exchange || op == atomic_compare ? kReturns : 0;
  if (w.checked) access(reinterpret_cast<uptr>(p), bytes, op_atomic, returns, pc, SIMT_FRAME);
  u64 before = 0;
  memcpy(&before, p, bytes);
  bool changed = update_as(type, op, p, value, expected, old);
  if (w.checked) {
    follow_lock(w, op, uptr(p), changed, value, expected, bytes);
    for (auto& read : w.current->reads) {  // several may begin loops: one for each variable
      if (op == atomic_compare && read.address == uptr(p))
        w.guesses.insert(static_cast<u32>(read.pc - w.module_low));
      if (op != atomic_compare || read.address == uptr(p)) read.address = 0;
    }
    bool shared = uptr(p) - w.shared_low < w.shared_size || uptr(p) - w.dynamic_low < w.dynamic_size;
    if (w.poisons && !shared) check_poison(w, value, bytes, pc);
    SyncVariable* followed = !shared || (op == atomic_compare && changed) ? variable_at(w, uptr(p)) : nullptr;
    if (followed && shared) stored(w, *followed, before);
    if (followed && !shared) {
      SyncVariable& v = *followed;
      Event& e = latest_event(w);
      auto again = [&] { return update_as(type, op, p, value, expected, old); };
      if (!changed && shows_old(w, v) && could_be_earlier(p, bytes, v.before, again))
        e.value = v.operation - 1;
      else
        observed(w, v, e, w.order->operations);
      if (changed) stored(w, v, before);
    }
  }
  // An atomic that changed nothing may be polling for what another thread has yet to do.
  if (!changed && op != atomic_max && op != atomic_min) {
    if (w.checked) latest_event(w).flags |= kReturns;
    w.current->pc = pc;
    yield_turn(w);
  }
}

extern "C" unsigned long long simt_atomic_result() {
  using namespace simt;
  Worker& w = *worker;
  Lane& lane = w.lanes[w.current->lane];
  if (w.checked && lane.count && latest_event(w).op == op_atomic) latest_event(w).flags |= kReturns;
  return w.current->atomic_result;
}
