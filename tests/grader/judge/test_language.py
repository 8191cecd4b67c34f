"""What a kernel's text may hold: the whole course, and none of what reaches past a kernel's language."""

import re

import pytest

from grader.course.mutants import ACCEPTED, mutants
from grader.course.solutions import load_text, solution_text
from grader.judge import language
from labutils import exercises
from labutils.backends.extract import module_parts, plain_function
from labutils.cuda import kernel as cudac

TOP = [["import triton", "a", 1], ["import importlib\ntl = importlib.import_module('triton.language')", "b", 1]]


def triton(body, header="def k(x_ptr, n, BLOCK: tl.constexpr):", more=(), constants=None):
    lines = "".join(f"    {line}\n" for line in body.split("\n"))
    module = [*TOP, *([t, "c", 1] for t in more), [f"@triton.jit\n{header}\n{lines}", "d", 1]]
    return {"language": "triton", "module": module, "kernel": "k", "constants": constants or {}}


def cuda(source, name="k"):
    return {"language": "cuda", "source": source, "name": name, "options": []}


# --- the course ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("unit", sorted({i.split("/")[0] for i in exercises.all_exercises()}))
def test_every_right_kernel_of_the_course_passes(unit, tmp_path):
    solution = solution_text(unit)
    honest = []
    for exercise_id in [i for i in exercises.all_exercises() if i.startswith(unit + "/")]:
        honest += [m for m in mutants(exercise_id) if m.expect == ACCEPTED]
    texts = [("solution", solution, "")]
    texts += [(m, solution, m.text) if m.language == "cuda" else (m, m.text, "") for m in honest]
    with cudac.redirected(lambda *launch: None):  # nothing is compiled here
        for which, text, kernels in texts:
            for spec in _specs(load_text(text, tmp_path, kernels)):
                assert language.problem(spec) is None, which


def _specs(module):
    for value in vars(module).values():
        if isinstance(value, cudac.Kernel):
            yield cuda(value.module.source, value.name)
        elif hasattr(value, "fn") and type(value).__module__.startswith("triton.runtime"):  # Gluon is not judged
            function = plain_function(value)
            if function.__module__ == module.__name__:
                parts = [list(p) for p in module_parts(function, kernel=True)]
                yield {"language": "triton", "module": parts, "kernel": function.__name__, "constants": {}}


# --- Triton ----------------------------------------------------------------------------------------------------------

HONEST = [
    "x = tl.load(x_ptr + tl.arange(0, BLOCK))\ntl.store(x_ptr, tl.sum(x.to(tl.float32), 0))",
    "sum = 0.0\nfor i in range(0, n, BLOCK):\n    sum += i\nmax = sum\ntl.store(x_ptr, max)",
    "names = [k for k in tl.static_range(4)]\na, b = names[0], names[1]",
    "if x_ptr.dtype.element_ty == tl.float16:\n    tl.static_print(f'{BLOCK}')\nelse:\n    pass",
    "acc = tl.zeros((BLOCK, BLOCK), dtype=tl.float32)\nacc = tl.dot(acc, acc, acc, input_precision='ieee')",
    "x = tl.math.exp(tl.cast(n, tl.float32))\ntl.static_assert(BLOCK >= 16, 'too small')",
    '"""Define nothing undefined."""\nassert n > 0, "n"\nreturn',
    "x = tl.rand(0, tl.arange(0, BLOCK))\ntl.device_print('x', x)",
    "x_ptr += tl.program_id(0)\nwhile n > 0:\n    n -= 1",
    "x = tl.maximum(n, 0.0, propagate_nan=tl.PropagateNan.ALL)",
]


@pytest.mark.parametrize("body", HONEST)
def test_honest_triton(body):
    assert language.problem(triton(body)) is None


EVIL = [
    ("eval('1')", "Python's eval"),
    ("[0 for eval in ()]\neval('1')", "Python's eval"),
    ("[0 for eval in (eval('1'),)]", "Python's eval"),
    ("[0 for k in range(2) for eval in (1,)] and [eval for k in (1,)]", "Python's eval"),
    ("ｅｖａｌ('1')", "Python's eval"),
    ("__import__('os')", "Python's __import__"),
    ("x = __builtins__", "Python's __builtins__"),
    ("getattr(tl, 'core')", "Python's getattr"),
    ("isinstance(BLOCK, tl.constexpr)", "Python's isinstance"),
    ("import os", "no import"),
    ("from os import system", "no importfrom"),
    ("x = lambda: 0", "no lambda"),
    ("def inner(): pass", "no functiondef"),
    ("class A: pass", "no classdef"),
    ("try:\n    pass\nexcept: pass", "no try"),
    ("with n: pass", "no with"),
    ("global tl", "no global"),
    ("(x := 1)", "no namedexpr"),
    ("yield 1", "no yield"),
    ("await n", "no await"),
    ("x = {n: 1}", "no dict"),
    ("del n", "no delete"),
    ("raise n", "no raise"),
    ("match n:\n    case 1: pass", "no match"),
    ("tl.core.os.system('x')", "tl.core.os.system"),
    ("tl.core.builtins.eval('1')", "tl.core.builtins"),
    ("tl.core.extern_elementwise('', '/lib/x.so', [], {}, True)", "extern_elementwise"),
    ("tl.core.builtin(n)", "tl.core.builtin"),
    ("tl.target_info.is_cuda()", "target_info"),
    ("tl._x", "tl._x"),
    ("n.handle.data", "cannot use .handle"),
    ("n.__class__", "cannot use .__class__"),
    ("().__class__.__base__.__subclasses__()", "cannot use .__class__"),
    ("f'{n.__class__}'", "cannot use .__class__"),
    ("'{0.__class__}'.format(n)", "cannot use .format"),
    ("print.__self__.eval('1')", "cannot use .__self__"),
    ("tl.float32 = tl.float64", "cannot be assigned to"),
    ("n.dtype = tl.int64", "cannot be assigned to"),
    ("x = [1]\nx[0] = 2", "cannot be assigned to"),
    ("x = [1]\nx[0] += 2", "cannot be assigned to"),
    ("for tl.x in range(2): pass", "cannot be assigned to"),
    ("tl.load(x_ptr, member=print)", "cannot pass member"),
    ("tl.load(x_ptr, _semantic=n)", "cannot pass _semantic"),
    ("tl.load(**n)", r"cannot pass \*\*"),
    ("interpreter_builder", "belongs to Triton's interpreter"),
    ("interpreter_semantic = n", "belongs to Triton's interpreter"),
    ("np.load('x')", "np is not defined"),
    ("x = ast", "ast is not defined"),
    ("GridExecutor(n)", "GridExecutor is not defined"),
    ("'''\ndef k(x_ptr, n, BLOCK): pass\n'''", "no line may begin with"),
    ("# \x0cdef k(): pass", "end of a line"),
    ("# \u2028def k(): pass", "end of a line"),
    ("# \rdef k(): pass", "end of a line"),
    ("x = '" + "(" * 300, "cannot be read"),
    ("x = " + "(" * 5000 + ")" * 5000, "cannot be read"),
    ("x = " + "-" * 50_000 + "1", "cannot be read"),
    ("x = n" + ".T" * 50_000, "cannot be read"),
    ("x = '\ud800'", "cannot be read"),
    ("x = '\0'", "cannot be read"),
]


@pytest.mark.parametrize(("body", "message"), EVIL, ids=range(len(EVIL)))
def test_evil_triton(body, message):
    found = language.problem(triton(body))
    assert found and found.kind == "does-not-compile"
    assert re.search(message, found.message), found.message


@pytest.mark.parametrize(
    "header",
    [
        "def k(x_ptr, n=eval('1')):",
        "def k(x_ptr, eval=eval('1')):",
        "def k(x_ptr, n: eval('1')):",
        "def k(x_ptr, n) -> exec('1'):",
        "def k(x_ptr, n=[0 for x in ()]):",
        "def k(x_ptr, n=tl.core.os):",
        "def k(x_ptr, *, n=print('x')):",
        "@tl.core.wraps\ndef k(x_ptr, n):",
        "@triton.jit(noinline=eval('1'))\ndef k(x_ptr, n):",
        "async def k(x_ptr, n):",
        "def\tk(x_ptr, n):",
        "if True:\n  pass\ndef k(x_ptr, n):",
    ],
)
def test_evil_headers(header):
    assert language.problem(triton("pass", header))


@pytest.mark.parametrize(
    "text",
    [
        "E = eval",
        "E = [eval]",
        "E = tuple([eval])",
        "E = list(map(print, [1]))",
        "E = print('x')",
        "E = float(open('x'))",
        "E = triton.Config",
        "import os",
        "import torch.utils",
        "import triton.runtime.interpreter as i",
        "from triton.language.core import os",
        "from triton.language.core import builtin",
        "from triton.runtime.jit import JITFunction as jit",
        "from triton import knobs",
        "from . import x",
        "import torch\nE = torch.load",
        "import torch\nE = torch.os.system",
        "import torch as tl",
        "import importlib\nE = importlib.import_module('os')",
        "import importlib\nE = importlib.import_module('torch').load",
        "E = 1\nE = 2.0\nimport torch as E",
        "def float(x): return x\nE = float('1')",
        "E: int = 1",
        "E = F = 1",
        "E, F = 1, 2",
        "print('x')",
        "class A: pass",
        "lambda: 0",
    ],
)
def test_evil_modules(text):
    assert language.problem(triton("pass", more=[text]))


def test_a_constant_is_no_way_to_a_modules_names():
    assert language.problem(triton("pass", constants={"F": {"function": "__builtins__"}}))
    assert language.problem(triton("pass", constants={"F": {"function": "eval"}}))
    assert not language.problem(triton("pass", constants={"F": {"function": "k"}}))


def test_honest_modules():
    helper = "@triton.jit\ndef half(x, Y: tl.constexpr = 2):\n    return x / Y\n"
    constants = [
        "import torch\nT = torch.float16",
        "import triton.language\nC = triton.language.constexpr(float('0.5'))",
    ]
    names = [
        "import importlib\nlibdevice = importlib.import_module('triton.language.extra.libdevice')",
        "from triton.language import exp as e",
        "P = [1, (2.5, 'a')]",
    ]
    body = "x = half(n, Y=P[0]) + C + e(n) + libdevice.exp(n)\nx = x.to(tl.float16)"
    assert language.problem(triton(body, more=[helper, *constants, *names])) is None


def test_functions_of_constants_are_read_like_kernels():
    body = "size = 1\n    while size < n:\n        size *= 2\n    return size"
    helper = f"@triton.constexpr_function\ndef lanes(n):\n    {body}\n"
    assert language.problem(triton("BLOCK_N: tl.constexpr = lanes(BLOCK)", more=[helper])) is None
    for evil in ("return ().__class__", "return open('x')", "import os", "return n.real.__doc__"):
        text = f"@triton.constexpr_function\ndef lanes(n):\n    {evil}\n"
        assert language.problem(triton("x = lanes(BLOCK)", more=[text])), evil


def test_libdevice_by_the_name_of_its_cuda_module():
    name = "from triton.language.extra.cuda.libdevice import rsqrt as rsqrt"
    assert language.problem(triton("x = rsqrt(n)", more=[name])) is None
    assert language.problem(triton("x = core(n)", more=[name.replace("rsqrt", "core")]))


def test_a_refusal_names_the_line():
    found = language.problem(triton("x = n\neval('1')"))
    assert (found.line, found.source) == (4, "eval('1')")


# --- CUDA C++ --------------------------------------------------------------------------------------------------------

KERNEL = "__global__ void k(float* x, int n) { x[threadIdx.x] = n; }\n"

HONEST_CUDA = [
    KERNEL,
    "#include <cuda_fp16.h>\n" + KERNEL,
    "#define N 4 // don't\n#if N > 3 && defined(N)\n" + KERNEL + "#endif\n",
    "#define LOOP(i, n) \\\n  for (int i = 0; i < n; ++i)\n#pragma unroll 4\n" + KERNEL,
    "constexpr int many = 1'000'000; // it's\n" + KERNEL,
    "/* \"not closed ' in a comment */ " + KERNEL,
    "constexpr char c = '\\'', d = '\"'; constexpr const char* s = \"a // b /* c ' \\\" d\";\n" + KERNEL,
    "[[maybe_unused]] constexpr float a[] = {1.0f, 0x1p-3f, 1e-3f, .5f, 1.f, 2, 0xFFu, 7LL};\n" + KERNEL,
    'extern "C" ' + KERNEL,
    "namespace mine { struct simtime { int rawR; }; }\n" + KERNEL,
    "#ifndef BLOCK\n#define BLOCK 256\n#endif\n#undef BLOCK\n" + KERNEL,
]


@pytest.mark.parametrize("source", HONEST_CUDA)
def test_honest_cuda(source):
    found = language.problem(cuda(source))
    assert found is None, found


EVIL_CUDA = [
    ('#include "/etc/passwd"', "device headers"),
    ("#include <stdlib.h>", "device headers"),
    ("#inc\\\nlude <stdlib.h>", "device headers"),
    ("#/**/include <stdlib.h>", "device headers"),
    ("#  /* x */ include <stdlib.h>", "device headers"),
    ("#define H <stdlib.h>\n#include H", "device headers"),
    ("#include_next <stdlib.h>", "#include_next"),
    ('#import "x"', "#import"),
    ('#embed "x"', "#embed"),
    ('#line 5 "x"', "#line"),
    ("#pragma GCC optimize(3)", "#pragma GCC"),
    ("#pragma weak k", "#pragma weak"),
    ("#pragma redefine_extname a b", "#pragma redefine_extname"),
    ('_Pragma("GCC optimize(3)")', "_Pragma"),
    ("%:pragma GCC optimize(3)", "digraphs"),
    ("??=pragma GCC optimize(3)", "digraphs"),
    ("int a<:3:>;", "digraphs"),
    ("#define __syncthreads()", "another meaning"),
    ("#define threadIdx x", "another meaning"),
    ("#undef __CUDA_ARCH__", "another meaning"),
    ("#define SIMT_ENTRY(a, b)", "another meaning"),
    ("#ifdef __CUDA_ARCH__\n#endif", "macros of your own"),
    ("#if 0\n#define __GNUC__\n#endif\n#ifdef __GNUC__\n#endif", "another meaning"),
    ("#ifdef SIMT_CHECKED\n#endif", "macros of your own"),
    ("#define A __CUDA_ARCH__", "__CUDA_ARCH__"),
    ("constexpr long v = __cplusplus;", "__cplusplus"),
    ("#if __has_include(<stdio.h>)\n#endif", "macros of your own"),
    ("long double x;", "long double"),
    ("auto x = sizeof(1.0L);", "1.0L"),
    ("auto x = sizeof(1e5l);", "1e5l"),
    ("auto x = sizeof(0x1p3L);", "0x1p3L"),
    ("_Float128 x;", "_Float128"),
    ("_Thread_local int x;", "_Thread_local"),
    ("thread_local int x;", "__shared__"),
    ("void f() { goto a; }", "goto"),
    ("__attribute__((constructor)) void f() {}", "__attribute__"),
    ("[[gnu::constructor]] void f() {}", "gnu::constructor"),
    ("[ [ gnu :: constructor ] ] void f() {}", "constructor"),
    ("[[using gnu: constructor]] void f() {}", "constructor"),
    ("[[/**/gnu::ifunc(\"x\")]] void f();", "ifunc"),
    ("__builtin_trap();", "__builtin_trap"),
    ("extern \"C\" void __tsan_read4(void*) {}", "defined elsewhere"),
    ("extern \"C\" int system(const char*);", "defined elsewhere"),
    ("void f() { simt_barrier(\"\", 0); }", "simt_barrier"),
    ("using namespace simt;", "simt"),
    ("void f() { as\\\nm volatile(\"nop\"); }", "inline PTX"),
    ("int a = 1'0; asm x; int b = 1'0;", "inline PTX"),
    ("auto a = R\"(\")\"; asm x; auto b = \"\";", "raw strings"),
    ("auto a = u8R\"(\")\";", "raw strings"),
    ("#if 0\n\" /*\n#endif\nasm x;\n#if 0\n*/ \"\n#endif", "not closed"),
    ("#if 0\ndon't /*\n#endif\nasm x;\n/*\n*/", "not closed"),
    ("/* never closed", "not closed"),
    ("int x; \\ \n asm y;", "backslash"),
    ("int \\u0061sm;", "backslash"),
]  # fmt: skip


@pytest.mark.parametrize(("source", "message"), EVIL_CUDA, ids=range(len(EVIL_CUDA)))
def test_evil_cuda(source, message):
    spec = cuda(source + "\n" + KERNEL)
    found = language.problem(spec)
    if message == "inline PTX":  # the emulator runs none, and a GPU does
        assert found is None and language.needs_gpu(spec)
    else:
        assert found and message in found.message, found


@pytest.mark.parametrize(
    "name", ["k) asm(", "k<[]{return 1;}()>", "k; int x", "simt_k", "__k", "k\n", "", "k<__builtin_x>"]
)
def test_evil_names(name):
    assert language.problem(cuda(KERNEL, name))


@pytest.mark.parametrize("name", ["k", "k<4>", "k<float, 4>", "k<Op<__half>, true>", "k<-1, 2 + 2>"])
def test_honest_names(name):
    assert not language.problem(cuda(KERNEL, name))


# --- atomics ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "calls"),
    [
        ("atomicAdd(x, v);", True),
        ("cuda::atomic_ref<float> r(*x);", True),
        ('asm volatile("red.global.add.f32 [%0], %1;" :: "l"(x), "f"(v));', True),
        ("x[i] = shared.x + redo; // not atomic: atomicAdd(x, v)", False),
        ("/* atomicAdd(x, v) */ x[i] = v;", False),
        ('printf("atomicAdd(x, v) red.global");', False),
        ("int atomic = 1, nonatomic = 2;", False),
    ],
)
def test_atomics_of_cuda_are_found_in_the_code_and_not_in_comments(body, calls):
    assert language.calls_atomics(cuda(f"__global__ void k(float* x) {{ {body} }}")) == calls


@pytest.mark.parametrize(
    ("body", "more", "calls"),
    [
        ("tl.atomic_add(x_ptr, 1.0)", (), True),
        ("add(x_ptr, 1.0)", ("from triton.language import atomic_add as add",), True),
        ("add(x_ptr, 1.0)", ("add = tl.atomic_add",), True),
        (
            'tl.inline_asm_elementwise("atom.global.add.f32 $0, [$1], $2;", "=f,l,f", [x_ptr], tl.float32, True, 1)',
            (),
            True,
        ),
        ("tl.store(x_ptr, 1.0)  # tl.atomic_add(x_ptr, 1.0)", (), False),
        ('"""tl.atomic_add(x_ptr, 1.0), red.global"""\ntl.store(x_ptr, 1.0)', (), False),
        ("atomic_value = 1\ntl.store(x_ptr, atomic_value)", (), False),
        ("tl.store(x_ptr, (", (), False),
    ],
)
def test_atomics_of_triton_are_found_in_the_code_and_not_in_comments(body, more, calls):
    assert language.calls_atomics(triton(body, more=more)) == calls
