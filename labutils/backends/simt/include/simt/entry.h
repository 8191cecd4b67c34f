// How the host calls a kernel: an array of pointers to its arguments, and a description of its parameters.
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
template <class... P>
SIMT_INLINE void call(void (*kernel)(P...), void** arguments) {
  call_with(kernel, arguments, typename Count<sizeof...(P)>::type{});
}
template <class... P>
unsigned describe(void (*)(P...), Parameter* out) {
  ((*out++ = Parameter{type_name<P>(), (unsigned)sizeof(P), kind_of<P>}), ...);
  return sizeof...(P);
}

}  // namespace simt

#define SIMT_ENTRY(number, ...)                                                    \
  extern "C" SIMT_UNTRACED void simt_entry_##number(void** arguments) {            \
    simt::call(&__VA_ARGS__, arguments);                                           \
  }                                                                                \
  extern "C" SIMT_UNTRACED unsigned simt_describe_##number(simt::Parameter* out) { \
    return simt::describe(&__VA_ARGS__, out);                                      \
  }
