# ruff: noqa: E501 (C++ text)
"""Ways out of a kernel's language, each as CUDA C++ text: what the reading of the text says (None: it says nothing),
and what the inspection of the object says (None: the object is harmless, or is never made)."""

from typing import NamedTuple


class Escape(NamedTuple):
    """`text` holds a kernel `k`; `read` and `inspected` are words of the two refusals."""

    text: str
    read: str | None
    inspected: str | None


def _kernel(body: str, before: str = "") -> str:
    return f"{before}\n__global__ void k(float* x, long n) {{ {body} }}\n"


_HELPER = "__device__ __noinline__ void helper(float* x) { x[0] = 1; }"
_WORK = "x[threadIdx.x] += x[n];"

POINTERS, UNSEEN, RUNNING = "function pointers", "would not be recorded", "running code"

NATIVE = {
    "cast and call": Escape(_kernel("((void (*)(float*))n)(x);"), POINTERS, POINTERS),
    "pointer to a number": Escape(_kernel("void (*f)(float*) = (void (*)(float*))0x401000; f(x);"), POINTERS, POINTERS),
    "reference to a function": Escape(_kernel("void (&f)(float*) = *(void (*)(float*))n; f(x);"), POINTERS, POINTERS),
    "alias of a type": Escape(_kernel("using F = void(float*); F* f = (F*)n; f(x);"), None, POINTERS),
    "typedef of a type": Escape(_kernel("((F*)n)(x);", "typedef void F(float*);"), None, POINTERS),
    "type from a template": Escape(
        _kernel("((P<void, float*>::type*)n)(x);", "template <class R, class A> struct P { typedef R type(A); };"),
        None, POINTERS,
    ),
    "type from a macro": Escape(
        _kernel("((T)n)(x);", "#define STAR *\n#define T void(STAR)(float*)"), POINTERS, POINTERS
    ),
    "address as a number": Escape(_kernel("x[0] = (long)&helper + n;", _HELPER), POINTERS, POINTERS),
    "decay to a number": Escape(_kernel("x[0] = (long)helper + n;", _HELPER), None, POINTERS),
    "address of the kernel": Escape(_kernel("x[0] = (long)&k;"), POINTERS, POINTERS),
    "address of a library's function": Escape(
        _kernel("x[0] = (long)static_cast<float (*)(float)>(sinf);"), POINTERS, POINTERS
    ),
    "table of functions": Escape(
        _kernel("table[n](x);", _HELPER + "\nusing F = void(float*);\n__constant__ F* const table[] = {helper, helper};"),
        None, POINTERS,
    ),
    "virtual function": Escape(
        _kernel("((S*)x)->f(x);", "struct S { __device__ virtual void f(float* x) { x[0] = 1; } };"), POINTERS, POINTERS
    ),
    "pointer to a member": Escape(
        _kernel("void (S::*f)(float*) = &S::f; if (n) f = &S::g; (((S*)x)->*f)(x);",
                "struct S { __device__ void f(float* x) { x[0] = 1; } __device__ void g(float* x) { x[0] = 2; } };"),
        POINTERS, POINTERS,
    ),
    "address of a label": Escape(_kernel("void* p = n ? &&a : &&b; goto *p; a: x[0] = 1; b: x[1] = 1;"), "goto", POINTERS),
    "system call": Escape(_kernel('asm volatile("syscall" : : "a"(60), "D"(0));'), "inline PTX", "`syscall`"),
    "interrupt": Escape(_kernel('__asm__("int $0x80");'), "inline PTX", "`int`"),
    "assembly in a macro": Escape(_kernel("A", '#define A a##sm("syscall");\n#undef A\n#define A as' "\\\n" 'm("syscall");'),
                                  "inline PTX", "`syscall`"),
    "joined to assembly": Escape(_kernel('J(as, m)("syscall");', "#define J(a, b) a##b"), "inline PTX", "`syscall`"),
    "constructor": Escape(
        _kernel("", "__attribute__((constructor)) void f() { }"), "__attribute__", RUNNING
    ),
    "constructor at the sanitizer's priority": Escape(
        _kernel("", "int a; __attribute__((constructor(99))) void f() { a = 1; }"), "__attribute__", RUNNING
    ),
    "destructor": Escape(_kernel("", "[[gnu::destructor]] void f() { }"), "gnu::destructor", RUNNING),
    "chosen as it is loaded": Escape(
        _kernel("f();", 'extern "C" { static void g() { } void* choose() { return (void*)g; } '
                        'void f() __attribute__((ifunc("choose"))); }'),
        "__attribute__", "chosen by running code",
    ),
    "value from a call": Escape(_kernel("x[0] = v;", "__device__ float v = sinf(clock());"), None, RUNNING),
    "data as code": Escape(
        _kernel("x[0] = bytes[n];", '__attribute__((section(".text.x,\\"awx\\"#"))) int bytes[] = {1, 2};'),
        "__attribute__", "no compiler puts it",
    ),
    "function of the system": Escape(
        _kernel('system("true");', '__device__ int system(const char*);'), None, "not a device function"
    ),
    "function of the system, linked as C": Escape(
        _kernel('system("true");', 'extern "C" { int system(const char*); }'), None, "`system`"
    ),
    "declared elsewhere": Escape(_kernel("x[0] = *environ;", "extern int* environ;"), "`extern`", "`environ`"),
    "launching from a kernel": Escape(
        _kernel("simt_launch(x);", 'extern "C" { char* simt_launch(void*); }'), "`simt_launch`", "`simt_launch`"
    ),
    "own callback": Escape(
        _kernel(_WORK, 'extern "C" { __attribute__((no_sanitize("thread"))) void __tsan_read4(void*) { } }'),
        "__attribute__", "belongs to the compiler",
    ),
    "new": Escape(_kernel("x[0] = *new float;"), None, "`new`"),
}  # fmt: skip

DODGES = {
    "attribute": Escape(
        _kernel(_WORK).replace("__global__", '__global__ __attribute__((no_sanitize("thread")))'), "__attribute__", UNSEEN
    ),
    "attribute in a macro": Escape(
        _kernel(_WORK, "#define QUIET(w) __attribute__((w(\"thread\")))\nQUIET(no_sanitize)"), "__attribute__", UNSEEN
    ),
    "attribute joined by a macro": Escape(
        _kernel(_WORK, "#define J(a, b) a##b\nJ(__attri, bute__)((no_sanitize(\"thread\")))"), "__attribute__", UNSEEN
    ),
    "attribute in brackets": Escape(_kernel(_WORK, "[[gnu::no_sanitize(\"thread\")]]"), "gnu::no_sanitize", UNSEEN),
    "attribute with brackets from a macro": Escape(
        _kernel(_WORK, "#define B [\nB B gnu::no_sanitize(\"thread\") ] ]"), "gnu::no_sanitize", UNSEEN
    ),
    "unseen function": Escape(
        _kernel("f(x, n);", '__attribute__((noinline, no_sanitize("thread"))) void f(float* x, long n) { x[n] += x[0]; }'),
        "__attribute__", UNSEEN,
    ),
    "no basic blocks": Escape(
        _kernel(_WORK, "__attribute__((no_sanitize_coverage))"), "__attribute__", UNSEEN
    ),
    "memcpy of the library": Escape(
        _kernel("(memcpy)(x, x + n, 4 * n);", 'extern "C" { void* (memcpy)(void*, const void*, size_t); }'),
        "can only be called", "`memcpy`",
    ),
    "bcmp of the library": Escape(
        _kernel("x[0] = bcmp(x, x + n, 4 * n);", 'extern "C" { int bcmp(const void*, const void*, size_t); }'),
        None, "`bcmp`",
    ),
    "builtin": Escape(_kernel("__builtin_memcpy(x, x + n, 4 * n);"), "__builtin_memcpy", None),  # else it is recorded
    "return address": Escape(_kernel("x[0] = (long)__builtin_return_address(0);"), "__builtin_return_address", None),
    "zero byte": Escape(_kernel("x[0] = 1; \0 x[1] = 1;"), "U+0000", None),
    "carriage return": Escape(_kernel("x[0] = 1; // \r x[1] = 1;\n"), "U+000D", None),
    "mark of the byte order": Escape("\ufeff" + _kernel(_WORK), "U+FEFF", None),
    "macro of the compiler": Escape(_kernel(_WORK, "#ifdef __GNUC__\n#endif"), "macros of your own", None),
    "macro of a header": Escape(_kernel(_WORK, "#ifdef INT_MAX\n#endif"), "macros of your own", None),
    "existence of a header": Escape(_kernel(_WORK, "#if __has_include(<mma.h>)\n#endif"), "macros of your own", None),
    "guard of a header": Escape(_kernel(_WORK, "#if defined(_MMA_H_)\n#endif"), "macros of your own", None),
    "architecture": Escape(_kernel("x[0] = A;", "#define A __CUDA_ARCH__"), "__CUDA_ARCH__", None),
    "requires": Escape(
        _kernel("x[0] = f<float>();", "template <class T> int f() { return requires(T t) { t.a; }; }"), "C++20", None
    ),
    "overload for what is not there": Escape(
        _kernel("x[0] = f(x);", "__device__ int f(...) { return 1; }"), "any arguments", None
    ),
    "type of an expression": Escape(
        _kernel("x[0] = f(x);", "template <class T> auto f(T t) -> decltype(g(t)) { return 1; }"), "decltype", None
    ),
    "size of a call": Escape(
        _kernel("x[0] = f(x);", "template <class T> int f(T t, char (*)[sizeof(g(t))] = 0) { return 1; }"), "`sizeof`",
        None,
    ),
    "long double": Escape(_kernel("x[0] = sizeof(long const double);"), "long double", None),
    "number of that type": Escape(_kernel("x[0] = sizeof(1.5L);"), "1.5L", None),
    "thread_local": Escape(_kernel("t = x[0];", "thread_local float t;"), "thread_local", None),
    "namespace of CUDA": Escape(
        _kernel(_WORK, "#include <cooperative_groups.h>\nnamespace cooperative_groups { struct mine { }; }"), "namespace",
        None,
    ),
    "name of the emulator": Escape(_kernel("x[0] = simt::is_number<int>;"), "`simt`", None),
    "untraced": Escape(_kernel(_WORK, "SIMT_UNTRACED"), "SIMT_UNTRACED", UNSEEN),
    "raw string": Escape(_kernel('printf(R"(")"); x[0] = 1; printf("");'), "raw strings", None),
    "pragma": Escape(_kernel(_WORK, '#pragma GCC optimize("no-sanitize")'), "#pragma", None),
    "pragma in a macro": Escape(
        _kernel(_WORK, '#define P _Prag##ma("GCC push_options")\n#define Q(a, b) a##b\nQ(_Pra, gma)("GCC push_options")'),
        "a directive can only stand", None,
    ),
    "directive in a macro's brackets": Escape(
        _kernel("x[0] = F(1 +\n#include <mma.h>\n0);", "#define F(x) (x)"), "a directive can only stand", None
    ),
}  # fmt: skip
