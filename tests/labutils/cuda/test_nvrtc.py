"""CUDA C++ through NVIDIA's runtime compiler, with no GPU and no driver."""

import pytest

from labutils.cuda import compiler_process, nvrtc

pytestmark = pytest.mark.skipif(not nvrtc.available(), reason="needs NVRTC (pip install nvidia-cuda-nvrtc)")


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("GPULAB_CACHE", str(tmp_path))


def test_an_error_names_the_learners_line():
    with pytest.raises(nvrtc.CompileError) as e:
        nvrtc.compile_source("__global__ void k(float* x) {\n    x[0] = y;\n}", ("k",), 80)
    assert e.value.text.splitlines()[0] == 'line 2: identifier "y" is undefined'
    assert "x[0] = y;" in e.value.text


def test_a_text_that_kills_the_compiler_gets_a_sentence():
    """NVRTC dies of an unknown type among the parameters of a template: here it is another process's end."""
    with pytest.raises(nvrtc.CompileError, match='line 2: identifier "unknown_t" is undefined'):
        nvrtc.compile_source("template <int N>\n__global__ void k(unknown_t* x) { x[0] = N; }", ("k<4>",), 80)
    assert nvrtc.compile_source("__global__ void k(float* x) { x[0] = 1; }", ("k",), 80).cubin  # a new process


def test_what_only_kills_it_gets_a_sentence_too(monkeypatch):
    def die(job):
        raise compiler_process.Died("SIGSEGV")

    monkeypatch.setattr(nvrtc, "_ask", die)
    with pytest.raises(nvrtc.CompileError, match=r"NVIDIA's compiler died of this text \(SIGSEGV\)"):
        nvrtc.compile_source("__global__ void k(float* x) { x[0] = 2; }", ("k",), 80)


def test_names_that_nvcc_knows_need_no_include():
    source = """
    template <class T> __global__ void k(const int8_t* a, uint64_t* b, ushort c, uint d, T e) { b[d] = a[c] + e; }"""
    assert nvrtc.compile_source(source, ("k<uint32_t>",), 80).lowered["k<uint32_t>"].startswith("_Z1k")


def test_host_headers_are_refused():
    with pytest.raises(nvrtc.CompileError, match='line 1: cannot open source file "cstdlib"'):
        nvrtc.compile_source("#include <cstdlib>\n__global__ void k(float* x) { x[0] = 0; }", ("k",), 80)


def test_the_unfilled_stub_is_reported():
    source = '__global__ void k(float* x) {\n    static_assert(false, "k is not written yet");\n}'
    with pytest.raises(nvrtc.CompileError, match="k is not written yet"):
        nvrtc.compile_source(source, ("k",), 80)


def test_the_second_time_comes_from_disk(monkeypatch):
    source = "__global__ void k(float* x) { x[0] = INFINITY; }"
    first = nvrtc.compile_source(source, ("k",), 90)
    assert first.target == "sm_90a" and first.lowered == {"k": "_Z1kPf"}

    def refuse(*_):
        raise AssertionError("compiled again")

    monkeypatch.setattr(nvrtc, "_ask", refuse)
    assert nvrtc.compile_source(source, ("k",), 90) == first
    with pytest.raises(AssertionError, match="compiled again"):
        nvrtc.compile_source(source + " ", ("k",), 90)


def test_cooperative_groups_and_half_headers_are_found():
    source = """
    #include <cooperative_groups.h>
    #include <cuda_bf16.h>
    __global__ void k(__nv_bfloat16* x) {
        auto block = cooperative_groups::this_thread_block();
        block.sync();
        x[block.thread_rank()] = __float2bfloat16(1.0f);
    }"""
    assert nvrtc.compile_source(source, ("k",), 90).cubin[:4] == b"\x7fELF"


def test_headers_that_nvcc_takes_from_the_host_are_there():
    names = sorted(nvrtc.STANDARD)
    source = (
        "".join(f"#include <{name}>\n" for name in names)
        + """
    #include <cuda/pipeline>
    __global__ void k(int64_t* x, uintptr_t y) {
        assert(INT_MAX > 0);
        x[0] = LLONG_MIN + (FLT_MAX > M_PI ? SIZE_MAX : DBL_MIN) + y;
        printf("%d", (int)sizeof(ptrdiff_t));
    }"""
    )
    assert nvrtc.compile_source(source, ("k",), 80).cubin[:4] == b"\x7fELF"
    assert {"cstdint", "stdint.h", "cassert", "assert.h"} <= nvrtc.STANDARD


def test_what_nvcc_knows_without_an_include_and_the_driver_header():
    source = "#include <cuda.h>\n__global__ void k(double* x) { x[0] = M_PI + HUGE_VALF; }"
    assert nvrtc.compile_source(source, ("k",), 80).cubin[:4] == b"\x7fELF"
