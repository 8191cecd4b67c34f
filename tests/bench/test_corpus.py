"""Other people's kernels: the harness on a collection of its own, and the real ones where they can be fetched."""

import subprocess

import numpy as np
import pytest

from bench.corpus import counters, run, sources
from bench.corpus.cases import all_cases
from bench.corpus.cuda import Case, f32, normal, out
from bench.counters import ncu
from labutils.gpu import device

FILE = """\
#include <iostream>
#include <cuda_runtime.h>
#include "lib/common.h"
#define BINDING(name) void name() { std::cout << #name; }
#define CHECK(x) if (x) { std::exit(1); }
struct Pair { float a, b; };
template <class T> T on_host(T x) { return std::max(x, T(1)); }
namespace ours {
__device__ float twice(Pair p) { return SCALE * p.a + p.b; }
std::vector<float> of_the_host;
}  // namespace ours
/* a comment with __global__ and { */
__global__ void twice(const float *x, float *y, int n) {
#ifdef SCALE
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = ours::twice(Pair{x[i], 0});
#endif
}
BINDING(a)
BINDING(b)
__global__ void past_the_end(const float *x, float *y, int n) { y[threadIdx.x] = x[threadIdx.x] * (n > 0 ? 2 : 1); }
__global__ void race(float *y) {
  __shared__ float s[64];
  s[threadIdx.x] = threadIdx.x;
  y[threadIdx.x] = s[threadIdx.x ^ 32];
}
__global__ void endless(float *y) { for (int i = 0;; ++i) y[i % 1] = i; }
template <int N> __global__ void fill(float *y) { y[threadIdx.x] = N; }
__global__ void library(float *y) { cublasGemm(y); }
int main() { twice<<<1, 1>>>(0, 0, 0); return 0; }
"""


@pytest.fixture
def collection(tmp_path, monkeypatch):
    """The name of a collection: a file, and a header of its own."""
    (tmp_path / "made" / "src" / "lib").mkdir(parents=True)
    (tmp_path / "made" / "src" / "file.cu").write_text("\ufeff" + FILE)
    (tmp_path / "made" / "src" / "lib" / "common.h").write_text("#pragma once\n#define SCALE 2\nvoid on_host_too();\n")
    monkeypatch.setenv(sources.FOLDER, str(tmp_path))
    monkeypatch.setitem(sources.SOURCES, "made", sources.Source("made", "nobody", "0" * 40, "MIT"))
    sources._place.cache_clear()
    sources._read.cache_clear()
    return "made"


def made(kernel, arguments, expect, **more):
    return Case("made", "src/file.cu", kernel, block=64, arguments=arguments, expect=expect, **more)


def test_device_code(collection):
    text = made("twice", {}, dict).text()
    for gone in ("iostream", "on_host", "of_the_host", "BINDING(a)", "past_the_end", "main", "pragma"):
        assert gone not in text
    for there in ("#include <cuda_runtime.h>", "#define SCALE 2", "struct Pair", "namespace ours {", "#ifdef SCALE"):
        assert there in text
    lines, theirs = text.splitlines(), FILE.splitlines()
    more = len(lines) - len(theirs)  # those of the header
    assert lines[theirs.index("#ifdef SCALE") + more] == "#ifdef SCALE"


@pytest.mark.compiler
def test_statuses(collection):
    both = {"x": normal(64), "y": out(64), "n": 64}
    cases = [
        made("twice", both, lambda x: 2 * x),
        made("twice", both, lambda x: 2 * x + 1e-5),
        made("past_the_end", both | {"x": normal(32)}, lambda x: 2 * np.resize(x, 64)),
        made("race", {"y": out(64)}, lambda: np.arange(64) ^ 32),
        made("race", {"y": out(64)}, lambda: np.arange(64) ^ 32, fault="no barrier"),
        made("twice", both, lambda x: 2 * x, fault="none"),
        made("endless", {"y": out(1)}, lambda: np.ones(1), time_limit=3.0),
        made("fill<3>", {"y": out(64)}, lambda: np.full(64, 3)),
        made("library", {"y": out(64)}, lambda: np.full(64, 3)),
        made("fill<3>", {"y": out(64)}, lambda: 1 / 0),
        made("twice", {"x": normal(64, dtype=f32), "y": normal(64), "n": 64}, lambda: {}),
    ]
    found = [(r.status, r.sentence) for r in run.results(cases)]
    statuses = ["right", "wrong", "wrong", "wrong", "fault", "wrong", "wrong", "right", "refused", "crash", "wrong"]
    assert [status for status, _ in found] == statuses
    for number, said in ((1, "64 elements differ"), (2, "x"), (4, "no barrier"), (8, "cublasGemm"), (9, "division")):
        assert said in found[number][1]


def test_no_kernel_is_counted_twice():
    ids = [case.id for case in all_cases()]
    assert len(ids) == len(set(ids))


def test_a_collection_is_fetched_at_its_commit(tmp_path, monkeypatch):
    def git(*arguments):
        subprocess.run(["git", "-C", tmp_path / "theirs", *arguments], check=True, capture_output=True)

    (tmp_path / "theirs").mkdir()
    git("init", "--quiet")
    git("config", "uploadpack.allowFilter", "true")
    git("config", "uploadpack.allowAnySHA1InWant", "true")
    for text in ("first", "second"):
        (tmp_path / "theirs" / "a.cu").write_text(text)
        git("add", "a.cu")
        git("-c", "user.name=a", "-c", "user.email=a@b", "commit", "--quiet", "-m", text)
    commit = subprocess.check_output(["git", "-C", tmp_path / "theirs", "rev-parse", "HEAD~"], text=True).strip()
    monkeypatch.setenv("GPULAB_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv(sources.FOLDER, raising=False)
    monkeypatch.setattr(sources.Source, "url", f"file://{tmp_path / 'theirs'}")
    source = sources.Source("theirs", "somebody", commit, "MIT")
    assert source.read("a.cu") == "first"
    with pytest.raises(FileNotFoundError, match=r"no b\.cu"):
        source.read("b.cu")
    with pytest.raises(sources.NotHere, match="cannot be fetched"):
        sources.Source("others", "somebody", "1" * 40, "MIT").read("a.cu")


def test_the_files_of_the_counted_kernels_can_be_carried_along(collection, tmp_path, monkeypatch):
    case = made("twice", {}, dict)
    sources.export(case.source, case.files(), tmp_path / "carried")
    assert sorted(p.name for p in (tmp_path / "carried" / "made" / "src").rglob("*.*")) == ["common.h", "file.cu"]
    text = case.text()
    monkeypatch.setenv(sources.FOLDER, str(tmp_path / "carried"))
    sources._place.cache_clear()
    sources._read.cache_clear()
    assert case.text() == text
    assert len(counters.chosen()) == 20


PROFILER = """\
#!/bin/sh
echo "==PROF== Connected"
echo '"ID","Kernel Name","Metric Name","Metric Value"'
echo '"0","void fill<(int)3>(float *)","l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum","1,024"'
echo '"0","void fill<(int)3>(float *)","another","7"'
echo '"1","twice(const float *, float *, int)","l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum","2"'
"""


def test_a_profile_is_read_launch_by_launch(collection, tmp_path, monkeypatch):
    (tmp_path / "ncu").write_text(PROFILER)
    (tmp_path / "ncu").chmod(0o755)
    monkeypatch.setattr(counters, "ncu", lambda: str(tmp_path / "ncu"))
    cases = [made("fill<3>", {"y": out(64)}, dict), made("twice", {}, dict)]
    assert counters.measured(cases) == [{"global_store_sectors": 1024}, {"global_load_requests": 2}]
    with pytest.raises(RuntimeError, match="2 of 1 launches were profiled"):
        counters.measured(cases[:1])


@pytest.mark.gpu
@pytest.mark.timeout(900)
def test_totals_of_public_kernels_equal_nsight_computes():
    if not device.has_gpu() or ncu() is None:
        pytest.skip("needs a CUDA GPU and Nsight Compute (ncu)")
    try:
        rows = counters.compare(counters.chosen())
    except sources.NotHere as e:
        pytest.skip(str(e))
    same = [r for r in rows if r["emulator"] == r["hardware"]]
    assert len(same) >= 0.98 * len(rows), [r for r in rows if r not in same]


@pytest.mark.compiler
@pytest.mark.slow
@pytest.mark.timeout(4 * 3600)
def test_the_corpus_runs():
    """Every kernel of the collections that can be read here: no wrong result, no false alarm, no crash."""
    found = list(run.results(all_cases()))
    here = [r for r in found if r.status != "not here"]
    if not here:
        pytest.skip(found[0].sentence)
    assert not [r for r in here if r.status in ("wrong", "false alarm", "crash")]
    assert sum(r.as_it_should_be for r in here) >= 0.95 * len(here)
