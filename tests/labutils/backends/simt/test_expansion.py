"""The text that both compilers get: own macros and conditions are gone, lines are where they were."""

import pytest

from labutils import cuda
from labutils.backends import simt
from labutils.backends.simt import expansion
from labutils.cuda import nvrtc

KERNEL = "__global__ void k(float* x) { x[0] = N; }"


def test_own_macros_and_conditions_are_gone_and_lines_stay():
    text = (
        "#define N (2 + \\\n 3)\n#if N > 4 // five\n#include <mma.h> /* tensor cores */\n#else\nint wrong;\n#endif\n"
        + KERNEL
    )
    lines = expansion.expand(text).split("\n")
    assert len(lines) == text.count("\n") + 1
    assert [i for i, line in enumerate(lines) if line.strip()] == [3, 7]
    assert lines[3] == "#include <mma.h>" and lines[7].replace(" ", "") == KERNEL.replace("N", "(2+3)").replace(" ", "")


def test_an_unroll_pragma_takes_its_number_from_a_macro():
    assert "#pragma unroll 4" in expansion.expand("#define N 4\n#pragma unroll N\n" + KERNEL)


@pytest.mark.parametrize(
    "text",
    [
        "#define A INT_MAX\n#if A\nint here;\n#endif\n",
        "#if 0\n#define CUDART_PI_F\n#endif\n#ifdef CUDART_PI_F\nint here;\n#endif\n",
        "#if 0\n#define INFINITY\n#endif\n#ifdef INFINITY\nint here;\n#endif\n",
        "#define M memcpy(0, 0, 0)\n#if 0\n#define memory\n#endif\n#ifdef memory\nint here;\n#endif\n",
    ],
)
def test_macros_of_headers_decide_nothing(text):
    assert "here" not in expansion.expand(text + KERNEL)


@pytest.mark.parametrize(
    "condition",
    [
        "#if __CUDA_ARCH__ >= 800",
        "#ifdef __CUDACC__",
        "#ifndef _WIN32",
        "#if defined(__cplusplus) && !defined(_MSC_VER)",
    ],
)
def test_conditions_on_nvcc_and_the_system_are_decided(condition):
    text = f"#ifndef _MINE_H_\n#define _MINE_H_\n{condition}\nint here;\n#endif\n{KERNEL}\n#endif\n"
    assert "here" in expansion.expand(text, nobody_defines=lambda includes, names: False)
    for read in (expansion.expand, expansion.without_directives):  # as the judge does
        with pytest.raises(simt.CompileError, match="macros of your own"):
            read(text)


@pytest.mark.parametrize("text", ["#define A __CUDA_ARCH__\n", "int x = __CUDA_ARCH__;\n"])
def test_what_is_decided_is_no_value(text):
    with pytest.raises(simt.CompileError, match="line 1: `__CUDA_ARCH__`"):
        expansion.expand(text + KERNEL)


@pytest.mark.parametrize("name", ["MY_DEBUG", "CUDART_VERSION", "INFINITY", "__CUDACC_RTC__"])
def test_macros_that_nobody_defines_may_be_asked_for(name):
    text = f"#include <cuda_runtime.h>\n#ifdef {name}\nint here;\n#endif\n" + KERNEL.replace("N", "1")
    with pytest.raises(simt.CompileError, match=f"line 2: #ifdef may ask only for macros of your own, not `{name}`"):
        expansion.expand(text)  # as the judge reads it
    if not nvrtc.available():
        return
    if name == "MY_DEBUG":
        assert cuda.compile(text, "k").name == "k"
    else:
        with pytest.raises(cuda.CompileError, match="a kernel must be the same for every compiler"):
            cuda.compile(text, "k")


def test_macros_change_no_header():
    text = "#define simple 3\n#define x y\n#define sync nothing\n#include <cooperative_groups.h>\n"
    assert simt.compile(text + "__global__ void k(float* x) { x[0] = simple; }").kernels


def test_text_without_macros_is_left_alone():
    text = "#include <mma.h>\n" + KERNEL + "\n// N\n"
    assert expansion.expand(text) == text
    once = expansion.expand(text + "#pragma unroll 4\n")
    assert expansion.expand(once) == once


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("\n#if 1\n" + KERNEL, 2, "unterminated"),
        ("#define F(a) a\n" + KERNEL + "\nint y = F(1, 2);", 3, "F"),
        ("#define N 1\n#if N\n#error no\n#endif", 3, "no"),
        ("#define threadIdx 1", 1, "another meaning"),
        ("#include <vector>", 1, "device headers"),
        ("#warning x", 1, "not allowed"),
    ],
)
def test_refusals_name_the_line(text, line, words):
    with pytest.raises(simt.CompileError) as e:
        expansion.expand(text)
    assert words in str(e.value) and e.value.line == line


@pytest.mark.parametrize("last", ["x = A40;", "#if A40\n#endif"])
def test_a_bomb_of_macros_ends(last):
    text = "#define A0 y + 1\n" + "".join(f"#define A{n + 1} A{n} + A{n}\n" for n in range(40))
    with pytest.raises(simt.CompileError, match="expand to more"):
        expansion.expand(text + last)
