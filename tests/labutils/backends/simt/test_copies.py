"""Asynchronous copies arrive at their thread's wait and no earlier: who does not wait is told."""

import pytest
import torch

from tests.labutils.backends.simt.conftest import aligned

HEAD = """
#include <cuda_pipeline.h>
#include <cuda/pipeline>
#include <cuda/barrier>
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <lab/mma.cuh>
namespace cg = cooperative_groups;
__global__ void k(const float* x, float* y) {
    const int t = threadIdx.x;
    __shared__ alignas(16) float s[128], other[128];
"""
START = "__pipeline_memcpy_async(s + t, x + t, 4);"
READ = "y[t] = s[127 - t];"
OWN = "y[127 - t] = s[t];"

LATE = {
    "neither commit nor wait": START + "__syncthreads();" + READ,
    "no commit": START + "__pipeline_wait_prior(0); __syncthreads();" + READ,
    "no wait": START + "__pipeline_commit(); __syncthreads();" + READ,
    "own copy, no wait": START + "__pipeline_commit();" + OWN,
    "the latest group may stay": START + "__pipeline_commit(); __pipeline_wait_prior(1); __syncthreads();" + READ,
    "written over": START + "s[t] = 0; __pipeline_commit(); __pipeline_wait_prior(0); __syncthreads();" + READ,
    "lab helper": "if (t < 32) copy_async(s + 4 * t, x + 4 * t); __syncthreads();" + READ,
    "group": "cg::memcpy_async(cg::this_thread_block(), s, x, 512); __syncthreads();" + READ,
    "group, one stage too many": "auto b = cg::this_thread_block(); cg::memcpy_async(b, s, x, 512);"
    " cg::wait_prior<1>(b);" + READ,
    "pipeline object": "auto p = cuda::make_pipeline(); cuda::memcpy_async(s + t, x + t, 4, p); p.producer_commit();"
    " __syncthreads();" + READ,
    "pipeline object, first of two stages": "auto p = cuda::make_pipeline();"
    " cuda::memcpy_async(other + t, x + t, 4, p); p.producer_commit();"
    " cuda::memcpy_async(s + t, x + t, 4, p); p.producer_commit(); p.consumer_wait(); __syncthreads();" + READ,
    "barrier": "__shared__ cuda::barrier<cuda::thread_scope_block> b; if (t == 0) init(&b, 128); __syncthreads();"
    " cuda::memcpy_async(s + t, x + t, 4, b); __syncthreads();" + READ,
}
RACES = {
    "no barrier after the wait": START + "__pipeline_commit(); __syncthreads(); __pipeline_wait_prior(0);"
    " y[t] = s[t ^ 1];",
}
CLEAN = {
    "waited for": START + "__pipeline_commit(); __pipeline_wait_prior(0); __syncthreads();" + READ,
    "own copy": START + "__pipeline_commit(); __pipeline_wait_prior(0);" + OWN,
    "two stages": START + "__pipeline_commit(); __pipeline_memcpy_async(other + t, x + t, 4); __pipeline_commit();"
    " __pipeline_wait_prior(1); __syncthreads();" + READ,
    "group": "auto b = cg::this_thread_block(); cg::memcpy_async(b, s, x, 512); cg::wait(b);" + READ,
    "pipeline of a block": "__shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> state;"
    " auto b = cg::this_thread_block(); auto p = cuda::make_pipeline(b, &state); p.producer_acquire();"
    " cuda::memcpy_async(b, s, x, 512, p); p.producer_commit(); p.consumer_wait();" + READ + " p.consumer_release();",
    "barrier": "__shared__ cuda::barrier<cuda::thread_scope_block> b; if (t == 0) init(&b, 128); __syncthreads();"
    " cuda::memcpy_async(s + t, x + t, 4, b); b.arrive_and_wait();" + READ,
}


def run(build, body):
    x, y = aligned(torch.arange(128.0)), aligned(torch.zeros(128))
    return build(HEAD + body + "\n}", "k")[1, 128](x, y), y


@pytest.mark.parametrize("name", LATE)
def test_nobody_touches_what_is_on_its_way(build, name):
    result, _ = run(build, LATE[name])
    assert [f.kind for f in result.findings] == ["missing-wait"], [str(f) for f in result.findings]
    assert "still on its way" in result.findings[0].message


@pytest.mark.parametrize(
    "name, said",
    [
        ("no wait", "(no wait since it was started)"),
        ("the latest group may stay", "(1 wait since it was started let it"),
    ],
)
def test_it_is_said_whether_somebody_waited(build, name, said):
    result, _ = run(build, LATE[name])
    assert said in result.findings[0].message


@pytest.mark.parametrize("name", RACES)
def test_others_need_a_barrier_after_the_wait(build, name):
    result, _ = run(build, RACES[name])
    assert {f.kind for f in result.findings} & {"missing-syncthreads", "missing-syncwarp", "missing-wait"}


@pytest.mark.parametrize("name", CLEAN)
def test_what_was_waited_for_is_there(build, name):
    result, y = run(build, CLEAN[name])
    assert result.ok, [str(f) for f in result.findings]
    assert torch.equal(y, torch.arange(127.0, -1, -1))
