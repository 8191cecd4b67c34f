// How the host calls a kernel: an array of pointers to its arguments, and a description of its parameters. `room` lies
// between what a kernel may write to, its own frame and its parameters, and what its caller keeps.
#pragma once
#include "simt/qualifiers.h"

namespace simt {

struct Parameter {
  const char* type;  // the compiler's spelling, as "... [T = float*]"
  unsigned size, kind;
};
enum { kind_integer, kind_unsigned, kind_floating, kind_pointer, kind_other };

template <class T>
constexpr unsigned kind_of = __is_enum(T) ? kind_integer : kind_other;
template <class T>
constexpr unsigned kind_of<T*> = kind_pointer;
#define SIMT_KIND(type, kind) \
  template <>                 \
  inline constexpr unsigned kind_of<type> = kind;
SIMT_KIND(bool, kind_unsigned)
SIMT_KIND(char, kind_integer)
SIMT_KIND(signed char, kind_integer)
SIMT_KIND(short, kind_integer)
SIMT_KIND(int, kind_integer)
SIMT_KIND(long, kind_integer)
SIMT_KIND(long long, kind_integer)
SIMT_KIND(unsigned char, kind_unsigned)
SIMT_KIND(unsigned short, kind_unsigned)
SIMT_KIND(unsigned, kind_unsigned)
SIMT_KIND(unsigned long, kind_unsigned)
SIMT_KIND(unsigned long long, kind_unsigned)
SIMT_KIND(float, kind_floating)
SIMT_KIND(double, kind_floating)
#undef SIMT_KIND

template <class T>
const char* type_name() {
  return __PRETTY_FUNCTION__;
}

template <unsigned...>
struct Numbers {};
template <unsigned N, unsigned... Rest>
struct Count : Count<N - 1, N - 1, Rest...> {};
template <unsigned... All>
struct Count<0, All...> {
  typedef Numbers<All...> type;
};

template <class... P, unsigned... I>
SIMT_INLINE void call_with(void (*kernel)(P...), void** arguments, Numbers<I...>) {
  kernel(*(P*)arguments[I]...);
}
// A parameter is bytes that CUDA copies. A copy constructor would run in `call_with`, where nothing is recorded.
template <class... P>
SIMT_INLINE void call(void (*kernel)(P...), void** arguments) {
  static_assert(((__is_trivially_copyable(P) || copied_whole<P>) && ...), "a kernel's parameters are copied as bytes: "
                "leave out their copy constructors and destructors");
  call_with(kernel, arguments, typename Count<sizeof...(P)>::type{});
}
// What the compiler may pass on the stack, and a margin.
template <class... P>
constexpr unsigned room(void (*)(P...)) {
  return 64 + (0 + ... + (unsigned)((sizeof(P) + 15) / 16 * 16));
}
// __launch_bounds__: the most threads of a block, by the number of the kernel; 0 where nothing limits them (bounds.py).
template <unsigned Number>
constexpr unsigned launch_bounds = 0;
constexpr unsigned bounds(long long threads, long long = 0, long long = 0) {
  return threads <= 0 ? 0 : threads > 1024 ? 1024 : (unsigned)threads;
}
constexpr unsigned tighter(unsigned a, unsigned b) { return !a || (b && b < a) ? b : a; }

// One entry more than there are parameters: its size is the most threads.
template <class... P>
unsigned describe(void (*)(P...), Parameter* out, unsigned threads) {
  ((*out++ = Parameter{type_name<P>(), (unsigned)sizeof(P), kind_of<P>}), ...);
  *out = Parameter{"", threads, kind_other};
  return sizeof...(P);
}

}  // namespace simt

#define SIMT_ENTRY(number, ...)                                                    \
  extern "C" SIMT_UNTRACED void simt_entry_##number(void** arguments) {            \
    char room[simt::room(&__VA_ARGS__)];                                           \
    simt_enter(__builtin_frame_address(0), room);                                  \
    simt::call(&__VA_ARGS__, arguments);                                           \
  }                                                                                \
  extern "C" SIMT_UNTRACED unsigned simt_describe_##number(simt::Parameter* out) { \
    return simt::describe((decltype(&__VA_ARGS__)) nullptr, out, simt::launch_bounds<number>); \
  }
