"""What does not compile or must not be launched: every refusal names the rule and the learner's line."""

import ctypes
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from labutils.backends import child, simt
from labutils.backends.simt import build, source

ROOT = Path(__file__).parents[4]
KERNEL = "__global__ void k(float* x) {{ {} }}"


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("\n__global__ void k(float* x) { x[0] = 1 }", 2, "expected"),
        ("\n\n" + KERNEL.format("x[0] = y;"), 3, "y"),
        (KERNEL.format('asm("wgmma.fence.sync.aligned;");'), 1, "NVIDIA GPU"),
        ("__global__ void __cluster_dims__(2) k(float* x) { }", 1, "H100"),
        ("\n" + KERNEL.format("cuda::device::experimental::cp_async_bulk_wait_group_read();"), 2, "TMA"),
        (KERNEL.format("wgmma_fence();"), 1, "9.0"),
        (KERNEL.format("std::sort(x, x + 4);"), 1, "host's library"),
        ("#include <cstdlib>\n" + KERNEL.format(""), 1, "<cstdlib>"),
        ("#include <vector>\n" + KERNEL.format(""), 1, "device headers"),
        ('\n#include "/etc/passwd"\n' + KERNEL.format(""), 2, "/etc/passwd"),
        ('#inc\\\nlude "secret.h"\n' + KERNEL.format(""), 1, "device headers"),
        ('#define H "/etc/passwd"\n#include H\n' + KERNEL.format(""), 2, "not allowed"),
        ("%:include <vector>\n" + KERNEL.format(""), 1, "digraphs"),
        (KERNEL.format("k<<<1, 1>>>(x);"), 1, "host code"),
        ("int main() { return 0; }\n" + KERNEL.format(""), 1, "host code"),
        (KERNEL.format('static_assert(sizeof(x) == 4, "pointers are wide");'), 1, "pointers are wide"),
        ("\n" + KERNEL.format("float big[50000]; for (int i = 0; i < 50000; i++) big[i] = x[i]; x[0] = big[(int)*x];"),
         2, "128 KiB"),
        ('extern "C" int system(const char*);\n' + KERNEL.format('system("true");'), 1, "`extern`"),
        ("__device__ int system(const char*);\n" + KERNEL.format('system("true");'), None, "system"),
        ("__device__ float start = 0;\n" + KERNEL.format("x[0] = *new float;"), None, "`new`"),
        ("__device__ int f();\n" + KERNEL.format("x[0] = f();"), None, "device function"),
        ("struct S { int v; S() : v(clock()) {} };\n__device__ S s;\n" + KERNEL.format("x[0] = s.v;"), None, "running"),
        ("__device__ void f(float* x) { }", None, "no __global__"),
        ("template <int N> __global__ void k(float* x) { x[N] = 0; }", None, "k<"),
    ],
)  # fmt: skip
def test_refused_by_name_and_line(text, line, words):
    with pytest.raises(simt.CompileError) as e:
        simt.compile(text)
    assert words in str(e.value) and e.value.line == line
    if line:
        assert f"line {line}" in str(e.value)
    assert "simt" not in str(e.value).replace("simt_", "")


@pytest.mark.parametrize(
    "text",
    [
        KERNEL.format('asm("tcgen05.fence::before_thread_sync;");'),
        "#include <cuda/std/limits>\n" + KERNEL.format(""),
        "#include <cub/block/block_reduce.cuh>\n" + KERNEL.format(""),
        "__global__ void __cluster_dims__(2) k(float* x) { }",
    ],
)
def test_what_a_gpu_could_run_is_not_called_wrong(text):
    with pytest.raises(simt.NeedsGpu):
        simt.compile(text)


def test_what_is_wrong_on_a_gpu_too_is_called_wrong():
    for text in (KERNEL.format("std::sort(x, x);") + " // asm", "#include <vector>\n" + KERNEL.format("")):
        with pytest.raises(simt.CompileError) as e:
            simt.compile(text)
        assert not isinstance(e.value, simt.NeedsGpu)


def test_unknown_kernels_are_answered_with_the_known_ones():
    with pytest.raises(simt.CompileError, match="no kernel scale; its kernels are: k, other"):
        simt.compile(KERNEL.format("") + "\n__global__ void other() { }", ["scale"])


def test_comments_and_strings_are_not_code():
    text = '// #include <vector>\n/* asm("x") std::sort */\n' + KERNEL.format('printf("std::cout << asm");')
    assert "k" in simt.compile(text).kernels


def test_parameters():
    text = """struct S { int a[3]; };
    template <class T, int N> __global__ void k(const T* __restrict__ x, T (*rows)[4], unsigned char flag, S s, bool on,
                                                double z = 1.0) { }"""
    kernel = simt.compile(text, ["k<float, 8>"]).kernels["k<float, 8>"]
    assert [(p.name, p.size, p.kind) for p in kernel.parameters if p.name != "rows"] == [
        ("x", 8, "pointer"), ("flag", 1, "unsigned"), ("s", 12, "other"), ("on", 1, "unsigned"), ("z", 8, "floating")
    ]  # fmt: skip
    assert kernel.parameters[0].type.replace(" ", "") in ("constfloat*", "constfloat*__restrict__")


def kernel(body="x[threadIdx.x] = 1;", before=""):
    return simt.compile(before + KERNEL.format(body)).kernels["k"]


@pytest.mark.parametrize(
    ("grid", "block", "shared", "words"),
    [
        (1, 1025, 0, "1025 threads"),
        (1, (32, 33), 0, "1056 threads"),
        (1, 0, 0, "0 threads"),
        ((1, 70000), 32, 0, "65,535"),
        (0, 32, 0, "grid"),
        (1, 32, 232449, "227 KB"),
        ((1, 1, 1, 1), 32, 0, "one to three"),
    ],
)
def test_launch_limits(grid, block, shared, words):
    x = torch.zeros(2048)
    with pytest.raises(simt.LaunchError, match=words):
        kernel().launch(grid, block, shared, [x.data_ptr()])


def test_static_shared_memory_is_limited_for_each_kernel():
    body = "__shared__ float s[{}]; s[threadIdx.x] = 1; x[threadIdx.x] = s[threadIdx.x];"
    two = KERNEL.format(body.format(8000)) + "\n" + KERNEL.format(body.format(8000)).replace("k(", "other(")
    x = torch.zeros(32)
    arrays = {"x": simt.MemoryRange(x.data_ptr(), 32, 4)}
    assert simt.compile(two).kernels["k"].launch(1, 32, 0, [x.data_ptr()], arrays=arrays).ok
    with pytest.raises(simt.LaunchError, match="48 KB"):
        kernel(body.format(13000)).launch(1, 32, 0, [x.data_ptr()])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [([], "takes 1 arguments"), ([1.5], "integer"), (["x"], "integer"), ([-1], "cannot hold"), ([b"123"], "8 bytes")],
)
def test_arguments_are_checked(arguments, words):
    with pytest.raises(simt.LaunchError, match=words):
        kernel().launch(1, 32, 0, arguments)


def test_chosen_blocks_only():
    x = torch.zeros(128)
    k = kernel("x[blockIdx.x * 32 + threadIdx.x] = 1;")
    arrays = {"x": simt.MemoryRange(x.data_ptr(), 128, 4)}
    k.launch(4, 32, 0, [x.data_ptr()], arrays=arrays, blocks=[1, 3])
    assert x.view(4, 32)[:, 0].tolist() == [0, 1, 0, 1]
    with pytest.raises(simt.LaunchError, match="0 to 3"):
        k.launch(4, 32, 0, [x.data_ptr()], arrays=arrays, blocks=[4])


def test_device_and_constant_variables_can_be_set():
    text = "__constant__ float w[3];\n__device__ int calls = 0;\n" + KERNEL.format(
        "x[threadIdx.x] = w[threadIdx.x]; if (threadIdx.x == 0) calls += 1;"
    )
    module, x = simt.compile(text), torch.zeros(3)
    address, size = module.variable("w")
    assert size == 12
    ctypes.memmove(address, (ctypes.c_float * 3)(1, 2, 3), 12)
    module.kernels["k"].launch(1, 3, 0, [x.data_ptr()], arrays={"x": simt.MemoryRange(x.data_ptr(), 3, 4)})
    assert x.tolist() == [1, 2, 3]
    assert ctypes.c_int.from_address(module.variable("calls")[0]).value == 1
    with pytest.raises(KeyError):
        module.variable("nothing")


def test_grid_sync_needs_a_cooperative_launch():
    k = simt.compile("#include <cooperative_groups.h>\n" + KERNEL.format("cooperative_groups::this_grid().sync();"))
    result = k.kernels["k"].launch(2, 32, 0, [0], cooperative=False)
    assert result.findings[0].kind == "barrier-divergence" and "cooperative" in result.findings[0].message
    assert k.kernels["k"].launch(2, 32, 0, [0]).ok


def mappings():
    return len(Path("/proc/self/maps").read_text().splitlines())


def test_threads_leave_room_for_the_mappings_of_others():
    """Linux allows a process 65530 mappings; each thread of a block that waits takes two while the launch runs."""
    k = simt.compile("#include <cooperative_groups.h>\n" + KERNEL.format("cooperative_groups::this_grid().sync();"))
    before = mappings()
    assert k.kernels["k"].launch(24, 1024, 0, [0]).ok
    assert mappings() < before + 10_000
    with pytest.raises(simt.LaunchError, match="25,600 threads.*at most 24,576"):
        k.kernels["k"].launch(25, 1024, 0, [0])
    waits = simt.compile(KERNEL.format("__syncthreads();"), checked=False)
    assert waits.kernels["k"].launch(128, 1024, 0, [0], checked=False, threads=64).ok
    assert mappings() < before + 20_000


@pytest.mark.parametrize("checked", [True, False])
def test_results_do_not_depend_on_the_number_of_threads(checked):
    k = simt.compile(KERNEL.format('if (threadIdx.x == 0) printf("%d ", blockIdx.x); if (blockIdx.x >= 40) assert(0);'))
    results = [k.kernels["k"].launch(200, 32, 0, [0], checked=checked, threads=n) for n in (1, 2, 5) for _ in range(20)]
    assert {r.printed for r in results} == {"".join(f"{b} " for b in range(41))}
    assert {tuple(map(str, r.findings)) for r in results} == {tuple(map(str, results[0].findings))}
    assert results[0].findings[0].block == (40, 0, 0)


def test_float_atomics_add_in_one_order():
    k = simt.compile("__global__ void k(const float* x, float* y) { atomicAdd(y, x[blockIdx.x]); }", checked=False)
    x, sums = torch.randn(3000), set()
    for n in (1, 2, 4):
        y = torch.zeros(1)
        k.kernels["k"].launch(3000, 1, 0, [x.data_ptr(), y.data_ptr()], checked=False, threads=n)
        sums.add(y.item())
    assert len(sums) == 1


def test_launches_in_a_forked_child():
    """As the notebook's check runs them: the memory is shared, whatever the kernel does the parent lives."""
    from labutils.spec.inputs import shared_bytes

    x = shared_bytes(4 * 64).view(torch.float32)
    module = simt.compile(KERNEL.format("x[blockIdx.x * 32 + threadIdx.x] = 1;"), checked="both")

    def job(checked):
        arrays = {"x": simt.MemoryRange(x.data_ptr(), 64, 4)}
        result = module.kernels["k"].launch(2, 32, 0, [x.data_ptr()], arrays=arrays, checked=checked, threads=2)
        return {"findings": len(result.findings), "sum": float(x.sum())}

    results = list(child.fork([lambda: job(True), lambda: job(False)], 20))
    assert results == [{"findings": 0, "sum": 64.0}] * 2
    assert x.sum() == 64


def test_importing_starts_no_compiler():
    code = (
        "import labutils, subprocess, os\ndef fail(*a, **k): raise SystemExit('a process was started')\n"
        "subprocess.Popen.__init__ = fail\nos.posix_spawn = fail\nimport labutils.backends.simt"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT).returncode == 0


def test_no_compiler_is_said_kindly(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CXX", "no-such-compiler")
    monkeypatch.setattr(build.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(simt.NoCompiler, match="apt install g"):
        build.compiler()


def test_cache_is_shared_by_processes_at_once(tmp_path):
    code = (
        "from labutils.backends import simt\n"
        "k = simt.compile('__global__ void k(int n) { printf(\"%d\", n); }').kernels['k']\n"
        "print(k.launch(1, 1, 0, [7]).printed)"
    )
    environment = {**os.environ, "GPULAB_CACHE": str(tmp_path)}
    command = [sys.executable, "-c", code]
    running = [subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE) for _ in range(2)]
    assert [p.communicate(timeout=200)[0] for p in running] == [b"7\n"] * 2
    files = sorted(p.suffix for p in (tmp_path / "simt").iterdir())
    assert files.count(".so") == 3  # the runtime, the self-test, the kernel
    assert not [p for p in (tmp_path / "simt").iterdir() if p.is_dir()]


def test_line_numbers_survive_the_rewriting():
    text = (
        "#define A 1\n\nextern __shared__\n  float s[];\n\n__device__ float f(int i) { return s[i]; }\n"
        "__global__ void k(float* x)\n{\n  x[0] = f(0);\n}\n"
    )
    prepared = source.prepare(text)
    assert prepared.text.count("\n") == text.count("\n")
    assert prepared.text.splitlines()[8] == "  x[0] = f(0);"
    assert prepared.shared["s"].dynamic


@pytest.mark.parametrize(
    "text",
    [
        "extern float __shared__ s[];\n__global__ void k(float* x) { BODY }",
        "__global__ void k(float* x) { extern float __shared__ s[]; BODY }",
        "__global__ void k(float* x) { extern volatile float __shared__ s[]; BODY }",
        "__global__ void k(float* x) { extern\nfloat\n__shared__ s[]; BODY }",
        "__global__ void k(float* x) { extern __shared__ float rows[][16]; float* s = rows[0]; BODY }",
        "extern __shared__ __align__(16) float rows[][4][4];\n"
        "__global__ void k(float* x) { float* s = rows[0][0]; BODY }",
    ],
)
def test_dynamic_shared_memory_as_others_write_it(text):
    body = "s[threadIdx.x] = threadIdx.x; __syncthreads(); x[threadIdx.x] = s[63 - threadIdx.x];"
    x = torch.zeros(64)
    k = simt.compile(text.replace("BODY", body)).kernels["k"]
    assert k.launch(1, 64, 256, [x.data_ptr()], arrays={"x": simt.MemoryRange(x.data_ptr(), 64, 4)}).ok
    assert x.tolist() == list(range(63, -1, -1))


def test_move_and_forward_are_those_of_utility():
    text = (
        "#include <utility>\n#include <cuda/barrier>\n__global__ void k(float* x) {\n"
        "__shared__ cuda::barrier<cuda::thread_scope_block> bar; if (threadIdx.x == 0) init(&bar, blockDim.x);\n"
        "__syncthreads(); auto token = bar.arrive(); bar.wait(MOVE(token)); float a = 2;\n"
        "x[threadIdx.x] = std::forward<float>(a); }"
    )
    for move in ("std::move", "cuda::std::move"):
        x = torch.zeros(32)
        k = simt.compile(text.replace("MOVE", move)).kernels["k"]
        assert k.launch(1, 32, 0, [x.data_ptr()], arrays={"x": simt.MemoryRange(x.data_ptr(), 32, 4)}).ok
        assert x.tolist() == [2] * 32
    with pytest.raises(simt.CompileError, match="host's library"):
        simt.compile(text.replace("MOVE", "std::launder"))


def test_findings_and_counters_are_plain_data():
    k = kernel("x[threadIdx.x] += x[0];")
    x = torch.zeros(64)
    result = k.launch(1, 64, 0, [x.data_ptr()], arrays={"x": simt.MemoryRange(x.data_ptr(), 64, 4)})
    json.dumps([f.__dict__ for f in result.findings])
    assert json.loads(json.dumps(result.counters.to_json()))["global_load_requests"] == 4


# ---- speed, with a margin for busy machines


def timed(launch, repeat=3):
    """Seconds of processor time: other work on the machine does not count."""
    best = 1e9
    for _ in range(repeat):
        start = time.process_time()
        launch()
        best = min(best, time.process_time() - start)
    return best


def test_fast_vector_add_of_a_million():
    text = (Path(__file__).parent / "kernels/vector_add.cu").read_text()
    k = simt.compile(text, checked=False).kernels["vector_add"]
    a, b, c = torch.randn(3, 1 << 20)
    arguments = [a.data_ptr(), b.data_ptr(), c.data_ptr(), 1 << 20]
    assert timed(lambda: k.launch(4096, 256, 0, arguments, checked=False)) < 0.2


def test_checked_tiled_matmul():
    text = (Path(__file__).parent / "kernels/matmul_tiled.cu").read_text()
    k = simt.compile(text).kernels["matmul_tiled"]
    n = 256
    matrices = [*torch.randn(2, n, n), torch.zeros(n, n)]
    arrays = {name: simt.MemoryRange(m.data_ptr(), n * n, 4) for name, m in zip("ABC", matrices, strict=True)}
    arguments = [*(m.data_ptr() for m in matrices), n, n, n]
    seconds = timed(lambda: k.launch((16, 16), (16, 16), 0, arguments, arrays=arrays, time_limit=60.0), 1)
    torch.testing.assert_close(matrices[2], matrices[0] @ matrices[1], rtol=1e-3, atol=1e-3)
    assert seconds < 5
