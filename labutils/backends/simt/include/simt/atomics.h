// Atomic operations, by the number of the operation and of the type in runtime/atomics.cpp.
#pragma once
#include "simt/runtime_api.h"

namespace simt {
// The value's type follows the pointer's: atomicAdd(&float_value, 1) must not be ambiguous.
template <class T>
struct Same {
  typedef T type;
};
template <class T>
constexpr int atomic_type() {
  return 0;
}
// Asked for only where it is used: what nobody asks for is a reduction (RED) to a GPU, and no load.
template <class T>
SIMT_INLINE T atomic_result() {
  unsigned long long bits = simt_atomic_result();
  T old;
  __builtin_memcpy(&old, &bits, sizeof(T));
  return old;
}
}  // namespace simt
#define SIMT_ATOMIC_TYPE(type, number)      \
  template <>                               \
  constexpr int simt::atomic_type<type>() { \
    return number;                          \
  }
SIMT_ATOMIC_TYPE(int, 1)
SIMT_ATOMIC_TYPE(unsigned, 2)
SIMT_ATOMIC_TYPE(long, 3)
SIMT_ATOMIC_TYPE(long long, 3)
SIMT_ATOMIC_TYPE(unsigned long, 4)
SIMT_ATOMIC_TYPE(unsigned long long, 4)
SIMT_ATOMIC_TYPE(float, 5)
SIMT_ATOMIC_TYPE(double, 6)
SIMT_ATOMIC_TYPE(unsigned short, 9)

#define SIMT_ATOMIC_AS(name, op)                                                       \
  template <class T>                                                                   \
  SIMT_INLINE T name(T* p, typename simt::Same<T>::type value) {                       \
    static_assert(simt::atomic_type<T>() != 0, #name " does not exist for this type"); \
    simt_atomic(op, simt::atomic_type<T>(), (void*)p, &value, nullptr);                \
    return simt::atomic_result<T>();                                                   \
  }
#define SIMT_ATOMIC(name, op)      \
  SIMT_ATOMIC_AS(name, op)         \
  SIMT_ATOMIC_AS(name##_block, op) \
  SIMT_ATOMIC_AS(name##_system, op)
SIMT_ATOMIC(atomicAdd, 0)
SIMT_ATOMIC(atomicSub, 1)
SIMT_ATOMIC(atomicMax, 2)
SIMT_ATOMIC(atomicMin, 3)
SIMT_ATOMIC(atomicAnd, 4)
SIMT_ATOMIC(atomicOr, 5)
SIMT_ATOMIC(atomicXor, 6)
SIMT_ATOMIC(atomicExch, 7)
SIMT_ATOMIC(atomicInc, 8)
SIMT_ATOMIC(atomicDec, 9)
#undef SIMT_ATOMIC
#undef SIMT_ATOMIC_AS

#define SIMT_CAS(name)                                                                                         \
  template <class T>                                                                                           \
  SIMT_INLINE T name(T* p, typename simt::Same<T>::type expected, typename simt::Same<T>::type value) {        \
    static_assert(simt::atomic_type<T>() != 0, #name " does not exist for this type");                         \
    simt_atomic(10, simt::atomic_type<T>(), (void*)p, &value, &expected);                                      \
    return simt::atomic_result<T>();                                                                           \
  }
SIMT_CAS(atomicCAS)
SIMT_CAS(atomicCAS_block)
SIMT_CAS(atomicCAS_system)
#undef SIMT_CAS

// The one atomic operation on a pair of 16-bit floats.
#define SIMT_ATOMIC_PAIR(pair, number)                      \
  SIMT_INLINE pair atomicAdd(pair* p, pair value) {         \
    simt_atomic(0, number, (void*)p, &value, nullptr);      \
    return simt::atomic_result<pair>();                     \
  }
