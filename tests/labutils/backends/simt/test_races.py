"""What orders two accesses, and which pairs of them are races whatever came of them on this machine."""

import pytest
import torch

from tests.labutils.backends.simt.conftest import aligned

HEAD = """__global__ void k(int* data, int* out, int n) {
  __shared__ int s[64];
  const int t = threadIdx.x, lane = t % 32;
  (void)s; (void)lane;
"""


def run(build, body, threads=64, blocks=1, head=HEAD, n=0, **options):
    data, out = (aligned(torch.zeros(4096, dtype=torch.int32)) for _ in range(2))
    result = build(head + body + "\n}", "k")[blocks, threads](data, out, n, **options)
    return [f.kind for f in result.findings], result


# --- what a warp's lanes order

MEETINGS = {
    "__syncwarp();": True,
    "__threadfence_block(); __syncwarp();": True,
    'asm volatile("bar.warp.sync 0xffffffff;");': True,
    "__syncthreads();": True,
    "__ballot_sync(~0u, 1);": False,
    "__any_sync(~0u, 1);": False,
    "__all_sync(~0u, 1);": False,
    "__shfl_sync(~0u, t, 0);": False,
    "__shfl_xor_sync(~0u, t, 16);": False,
    "__match_any_sync(~0u, 1);": False,
    "__reduce_add_sync(~0u, 1u);": False,
    "__activemask();": False,
}


@pytest.mark.parametrize("meeting", MEETINGS)
def test_only_a_meeting_that_orders_memory_does(build, meeting):
    body = f"  s[lane] = t; {meeting}\n  out[t] = s[lane ^ 1];"
    kinds, _ = run(build, body, threads=32)
    assert kinds == ([] if MEETINGS[meeting] else ["missing-syncwarp"])


GROUPS = {
    "tile.sync();": True,
    "cg::sync(tile);": True,
    "cg::coalesced_threads().sync();": True,
    "tile.shfl(t, 0);": False,
    "tile.any(1);": False,
    "cg::reduce(tile, t, cg::plus<int>());": False,
    "cg::coalesced_threads();": False,
}


@pytest.mark.parametrize("meeting", GROUPS)
def test_only_a_group_s_sync_orders_memory(build, meeting):
    head = "#include <cooperative_groups.h>\n#include <cooperative_groups/reduce.h>\n"
    head += "namespace cg = cooperative_groups;\n"
    body = f"  auto tile = cg::tiled_partition<32>(cg::this_thread_block()); (void)tile;\n  s[lane] = t; {meeting}\n"
    kinds, _ = run(build, body + "  out[t] = s[lane ^ 1];", threads=32, head=head + HEAD)
    assert kinds == ([] if GROUPS[meeting] else ["missing-syncwarp"])


# --- a warp's times come to no end

MANY = "  for (int i = 0; i < n; i++) __syncwarp();\n"


@pytest.mark.parametrize("n", [0, 65_400, 70_000, 140_000])
def test_a_race_is_found_after_any_number_of_meetings(build, n):
    kinds, result = run(build, MANY + "  s[lane] = t;\n  out[t] = s[lane ^ 1];", threads=32, n=n)
    assert kinds == ["missing-syncwarp"], [str(f) for f in result.findings]


@pytest.mark.parametrize("n", [65_400, 70_000, 140_000])
def test_order_is_known_after_any_number_of_meetings(build, n):
    body = "  s[lane] = t; __threadfence(); out[t] = t;\n" + MANY + "  out[t ^ 1] = s[lane ^ 1];\n  __syncwarp();\n"
    kinds, result = run(build, body + MANY + "  s[lane] = out[t ^ 2]; __syncwarp(); out[t] = s[lane ^ 3];", 32, n=n)
    assert kinds == [], [str(f) for f in result.findings]


@pytest.mark.parametrize(("body", "expected"), [("", ["missing-syncwarp"]), ("__syncwarp();", [])])
def test_half_a_warp_that_met_often_has_not_met_the_other(build, body, expected):
    half = "  s[lane] = t;\n  if (t < 16) for (int i = 0; i < n; i++) __syncwarp(0xffff);\n  " + body
    kinds, _ = run(build, half + "\n  if (t < 16) out[t] = s[31 - lane];", threads=32, n=70_000)
    assert kinds == expected


def test_more_fences_than_can_be_followed_are_left_to_a_gpu(build):
    body = "  for (int i = 0; i < n; i++) __threadfence();"
    kinds, result = run(build, body, threads=1, n=70_000)
    assert kinds == ["needs-gpu"] and result.findings[0].fatal and "too many" in result.findings[0].message
    assert run(build, body, threads=1, n=20_000)[0] == []


# --- loads of what no thread of the launch writes

READ_ONLY = {
    "before": "  out[t] = t; __syncthreads();\n  data[t] = __ldg(out + t);",
    "after": "  data[t] = __ldg(out + (t ^ 1)); __syncthreads();\n  out[t] = t;",
    "its own": "  out[t] = t;\n  data[t] = __ldg(out + t);",
    "in place": "  out[t] = __ldg(out + t) + 1;",
    "an atomic": "  data[t] = __ldg(out + t); __syncthreads();\n  atomicAdd(out + t, 1);",
    "wide": "  out[t] = t; __syncthreads();\n  if (t < 16) data[t] = __ldg((const int4*)out + t).y;",
    "inline PTX": "  out[t] = t; __syncthreads();\n"
    '  asm volatile("ld.global.nc.s32 %0, [%1];" : "=r"(n) : "l"(out + t)); data[t] = n;',
    "wide inline PTX": "  out[t] = t; __syncthreads(); int m; if (t < 32)\n"
    '  asm volatile("ld.global.nc.v2.s32 {%0, %1}, [%2];" : "=r"(n), "=r"(m) : "l"(out + 2 * t)); data[t] = n + m;',
}  # fmt: skip


@pytest.mark.parametrize("form", READ_ONLY)
def test_a_read_only_load_of_what_the_launch_writes_is_found(build, form):
    kinds, result = run(build, READ_ONLY[form])
    assert set(kinds) == {"race"}, [str(f) for f in result.findings]
    finding = result.findings[0]
    assert finding.array == "out" and "by __ldg" in finding.message and "plain load" in finding.advice
    assert {finding.line, finding.other_line} <= {5, 6}


def test_a_read_only_load_of_what_another_block_writes_is_found(build):
    body = "  if (blockIdx.x) out[t] = 1;\n  else data[t] = __ldg(out + t);"
    for order in (1, 2, 3):
        kinds, _ = run(build, body, blocks=2, order=order)
        assert set(kinds) == {"race"}


def test_read_only_loads_of_other_elements_are_fine(build):
    kinds, _ = run(build, "  out[64 + t] = __ldg(out + t) + __ldg(data + t); data[64 + t] = out[64 + t];")
    assert kinds == []


# --- different values for one place

WRITES = {
    "one half of eight bytes": (
        "  if (lane == 0) ((long long*)out)[0] = t ? 0x100000000ll : 0x200000000ll;", True
    ),
    "one quarter of sixteen bytes": ("  if (lane == 0) ((int4*)out)[0] = make_int4(1, 2, 3, t);", True),
    "halves that would fold to one word": (
        "  unsigned a = 5, b = 7; uint2 v = t < 32 ? make_uint2(0, (a << 7 | a >> 25) ^ b) : make_uint2(a, b);\n"
        "  if (lane == 0) ((uint2*)out)[0] = v;", True
    ),
    "the same sixteen bytes": ("  ((int4*)out)[0] = make_int4(1, 2, 3, 4);", False),
    "the same as four": ("  if (t < 32) ((int4*)out)[0] = make_int4(1, 2, 3, 4); else out[t % 4] = t % 4 + 1;", False),
    "the same, then another": ("  if (lane == 0) out[0] = 1;\n  if (t == 32) out[0] = 2;", True),
    "the same, then another, in a warp": ("  if (t < 2) out[0] = 1;\n  if (t == 1) out[0] = 2;", True),
    "the same, a meeting, then another": ("  if (t < 2) out[0] = 1;\n  __syncwarp(); if (t == 0) out[0] = 2;", False),
    "the same, a barrier, then another": ("  out[0] = 1; __syncthreads(); if (t == 0) out[0] = 2;", False),
    "the same twice": ("  out[0] = 1; out[0] = 1;", False),
}  # fmt: skip


@pytest.mark.parametrize("form", WRITES)
def test_stores_of_different_values_are_a_race(build, form):
    body, wrong = WRITES[form]
    kinds, result = run(build, body)
    assert bool(kinds) == wrong, [str(f) for f in result.findings]
    assert set(kinds) <= {"race", "missing-syncthreads", "missing-syncwarp"}


# --- barriers of some of a block's threads

OBJECT = (
    "#include <cuda/barrier>\n#define BARRIER __shared__ cuda::barrier<cuda::thread_scope_block> b\n"
    + HEAD
    + "BARRIER;"
)
BARRIERS = {
    "all arrive and wait": (
        "init(&b, 64); __syncthreads(); s[t] = t; b.arrive_and_wait();\n out[t] = s[63 - t];", True
    ),
    "all arrive, one waits": (
        "init(&b, 64); __syncthreads(); s[t] = t; auto k = b.arrive();\n if (t == 40) { b.wait(k);"
        " for (int i = 0; i < 64; i++) out[i] = s[i]; }", True
    ),
    "one alone arrives": (
        "init(&b, 1); __syncthreads(); s[t] = t;\n if (t == 63) { b.arrive_and_wait(); out[0] = s[0]; }", False
    ),
    "the others' warp does not arrive": (
        "init(&b, 32); __syncthreads(); s[t] = t;\n if (t < 32) { b.arrive_and_wait(); out[t] = s[63 - t]; }", False
    ),
    "only its own warp is read": (
        "init(&b, 32); __syncthreads(); s[t] = t;\n if (t < 32) { b.arrive_and_wait(); out[t] = s[31 - t]; }", True
    ),
    "a store behind the arrival": (
        "init(&b, 64); __syncthreads(); auto k = b.arrive(); s[t] = t;\n b.wait(k); out[t] = s[63 - t];", False
    ),
    "a store before nobody waits": (
        "init(&b, 64); __syncthreads(); s[t] = t; b.arrive();\n out[t] = s[63 - t];", False
    ),
    "two phases": (
        "init(&b, 64); __syncthreads(); s[t] = t; b.arrive_and_wait(); int v = s[63 - t];\n b.arrive_and_wait();"
        " s[t] = v; b.arrive_and_wait(); out[t] = s[63 - t];", True
    ),
    "the second phase is missing": (
        "init(&b, 64); __syncthreads(); s[t] = t; b.arrive_and_wait(); int v = s[63 - t];\n s[t] = v;", False
    ),
    "one lane waits, its warp meets": (
        "init(&b, 32); __syncthreads(); if (t < 32) { s[t] = t; b.arrive(); } else { if (t == 32) {\n"
        " b.wait({0}); } __syncwarp(); out[t] = s[t - 32]; }", True
    ),
    "one lane waits, its warp does not meet": (
        "init(&b, 32); __syncthreads(); if (t < 32) { s[t] = t; b.arrive(); } else { if (t == 32)\n"
        " b.wait({0});\n out[t] = s[t - 32]; }", False
    ),
    "what the arriving had seen": (
        "BARRIER2; init(&b, 32); init(&c, 1); __syncthreads(); if (t >= 32) { s[t] = t; b.arrive(); }\n"
        " if (t == 0) { b.wait({0}); c.arrive(); } if (t == 31) { c.wait({0}); out[0] = s[40]; }", True
    ),
    "what the arriving saw later": (
        "BARRIER2; init(&b, 32); init(&c, 1); __syncthreads(); if (t >= 32) { s[t] = t; b.arrive(); }\n"
        " if (t == 0) { c.arrive(); b.wait({0}); } if (t == 31) { c.wait({0}); out[0] = s[40]; }", False
    ),
}  # fmt: skip


@pytest.mark.parametrize("form", BARRIERS)
def test_a_barrier_orders_those_who_arrive_before_those_who_wait(build, form):
    body, fine = BARRIERS[form]
    body = body.replace("BARRIER2", "__shared__ cuda::barrier<cuda::thread_scope_block> c")
    body = body.replace("init(&", "if (t == 0) init(&")
    kinds, result = run(build, body, head=OBJECT)
    assert bool(kinds) != fine, [str(f) for f in result.findings]
    assert set(kinds) <= {"missing-syncthreads", "missing-syncwarp", "uninitialized-shared"}


NAMED = {
    "all of a group": ('asm volatile("bar.sync 1, 32;");', "t < 32", "s[31 - t]", True),
    "another group": ('asm volatile("bar.sync 1, 32;");', "t < 32", "s[63 - t]", False),
    "one arrives, the other waits": (
        'if (t < 32) asm volatile("bar.sync 1, 64;"); else asm volatile("bar.arrive 1, 64;");', "t < 32", "s[63 - t]",
        True,
    ),
    "who only arrives reads": (
        'if (t < 32) asm volatile("bar.sync 1, 64;"); else asm volatile("bar.arrive 1, 64;");', "t >= 32", "s[63 - t]",
        False,
    ),
    "the whole block": ('asm volatile("bar.sync 1, 64;");', "true", "s[63 - t]", True),
}  # fmt: skip


@pytest.mark.parametrize("form", NAMED)
def test_a_named_barrier_orders_those_who_come_to_it(build, form):
    barrier, who, read, fine = NAMED[form]
    if barrier.startswith("asm"):
        barrier = f"if ({who}) {barrier}"
    kinds, result = run(build, f"  s[t] = t; {barrier}\n  if ({who}) out[t] = {read};")
    assert bool(kinds) != fine, [str(f) for f in result.findings]
    assert set(kinds) <= {"missing-syncthreads"}


@pytest.mark.parametrize("waits", [True, False])
def test_a_barrier_and_a_fence_publish_what_a_block_wrote(build, waits):
    body = (
        "if (t == 0) init(&b, 64); __syncthreads(); data[blockIdx.x * 64 + t] = t; __threadfence();\n"
        "auto k = b.arrive();"
        + ("b.wait(k);" if waits else "(void)k;")
        + " if (t == 0) { s[0] = atomicAdd(out, 1); __threadfence(); } __syncthreads();\n"
        " if (s[0] == gridDim.x - 1) { int sum = 0; for (int i = 0; i < gridDim.x; i++) sum += data[i * 64 + 63 - t];"
        " out[1 + t] = sum; }"
    )
    kinds, result = run(build, body, blocks=4, head=OBJECT, order=3)
    assert bool(kinds) != waits, [str(f) for f in result.findings]
