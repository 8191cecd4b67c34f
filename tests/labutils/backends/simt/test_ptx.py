"""Inline PTX: each instruction computes what the PTX ISA says, what is not run is refused by name, and no asm statement
reaches the machine's compiler."""

import re
from pathlib import Path

import pytest
import torch

from labutils.backends import simt
from labutils.backends.simt import expansion, ptx, rules
from labutils.cuda import nvrtc
from tests.labutils.backends.simt import ptx_cases
from tests.labutils.backends.simt.conftest import HERE, Launcher, aligned

ROOT = Path(__file__).parents[4]
TOGETHER = (HERE / "ptx.cu").read_text()
KERNEL = "__global__ void k(float* x, unsigned n) {{ unsigned r; {} }}"


def test_numbers(build):
    out = aligned(torch.zeros(len(ptx_cases.CASES), dtype=torch.int64))
    assert build(ptx_cases.kernel(), "k")[1, 1](out).ok
    got = [v & (1 << 64) - 1 for v in out.tolist()]
    wrong = [(c.text, hex(g)) for c, g in zip(ptx_cases.CASES, got, strict=True) if g != c.expected]
    assert not wrong


@pytest.mark.skipif(not nvrtc.available(), reason="NVIDIA's compiler is not here")
@pytest.mark.parametrize(
    ("text", "kernel"), [(ptx_cases.kernel(), "k"), (TOGETHER, "memory")], ids=["alone", "together"]
)
def test_nvidias_assembler_takes_the_same_text(text, kernel):
    assert nvrtc.compile_source(text, (kernel,), 90).cubin


def test_every_instruction_is_tested_and_documented():
    tested = " ".join([TOGETHER, *(c.text for c in ptx_cases.CASES)])
    missing = {name for name in ptx.INSTRUCTIONS if not re.search(rf"\b{name}\b", tested)}
    assert missing == {"mma", "trap"}  # which have tests of their own
    table = (ROOT / "docs/emulator.md").read_text().partition("## Inline PTX")[2].partition("\n## ")[0]
    rows = re.findall(r"^\|[^|]+\|([^|]+)\|", table, flags=re.M)
    assert {name for row in rows for name in re.findall(r"`(\w+)", row)} == ptx.INSTRUCTIONS


@pytest.mark.gpu
def test_numbers_on_a_gpu():
    import labutils as lab

    out = torch.zeros(len(ptx_cases.CASES), dtype=torch.int64, device="cuda")
    lab.cuda.compile(ptx_cases.kernel(), "k")[1, 1](out)
    got = [v & (1 << 64) - 1 for v in out.tolist()]
    assert got == [c.expected for c in ptx_cases.CASES]


# --- what the lanes of a warp do together


def fragment_a(shape: str, kind: str, lane: int, i: int) -> tuple[int, int]:
    """Row and column of element `i` of a lane's part of A, as the PTX ISA words it for each shape."""
    group, thread = lane >> 2, lane % 4
    match shape, kind:
        case "m16n8k16", "f16" | "bf16":
            return (group if i < 2 or 4 <= i < 6 else group + 8), thread * 2 + (i & 1) + (8 if i >= 4 else 0)
        case "m16n8k8", "f16" | "bf16":
            return (group if i < 2 else group + 8), thread * 2 + (i & 1)
        case "m16n8k8", "tf32":
            return (group if i in (0, 2) else group + 8), (thread if i < 2 else thread + 4)
        case "m16n8k4", "tf32":
            return (group if i == 0 else group + 8), thread
        case "m16n8k16", "s8" | "u8":
            return (group if i < 4 else group + 8), thread * 4 + (i & 3)
        case "m16n8k32", "s8" | "u8":
            return (group if i < 4 or 8 <= i < 12 else group + 8), thread * 4 + (i & 3) + (16 if i >= 8 else 0)


def fragment_b(shape: str, kind: str, lane: int, i: int) -> tuple[int, int]:
    """The same of B."""
    group, thread = lane >> 2, lane % 4
    match shape, kind:
        case "m16n8k16" | "m16n8k8", "f16" | "bf16":
            return thread * 2 + (i & 1) + (8 if i >= 2 else 0), group
        case "m16n8k8" | "m16n8k4", "tf32":
            return thread + 4 * i, group
        case _, "s8" | "u8":
            return thread * 4 + (i & 3) + (16 if i >= 4 else 0), group


MMA = [
    ("m16n8k16", "f16", "f32"),
    ("m16n8k16", "f16", "f16"),
    ("m16n8k8", "f16", "f32"),
    ("m16n8k16", "bf16", "f32"),
    ("m16n8k8", "tf32", "f32"),
    ("m16n8k4", "tf32", "f32"),
    ("m16n8k16", "s8", "s32"),
    ("m16n8k32", "u8", "s32"),
]
ELEMENTS = {"f16": torch.float16, "bf16": torch.bfloat16, "tf32": torch.float32, "s8": torch.int8, "u8": torch.uint8,
            "f32": torch.float32, "s32": torch.int32}  # fmt: skip


def mma_kernel(number: int, shape: str, kind: str, result: str) -> str:
    """A kernel that reads each lane's registers of a, b and c, and writes those of d."""
    b = int(shape[6:]) // (4 * 4 // ELEMENTS[kind].itemsize)
    d = 2 if result == "f16" else 4
    letter, word = ("f", "float") if result == "f32" else ("r", "unsigned")

    def places(first: int, count: int) -> str:
        return "{" + ", ".join(f"%{first + i}" for i in range(count)) + "}"

    text = f"mma.sync.aligned.{shape}.row.col.{result}.{kind}.{kind}.{result} "
    text += ", ".join([places(0, d), places(d, 2 * b), places(d + 2 * b, b), places(0, d)])
    outputs = ", ".join(f'"+{letter}"(d[{i}])' for i in range(d))
    inputs = ", ".join(f'"r"({x}[t * {n} + {i}])' for x, n in (("a", 2 * b), ("b", b)) for i in range(n))
    return f"""__global__ void mma{number}(const unsigned* a, const unsigned* b, {word}* c) {{
        int t = threadIdx.x; {word} d[{d}];
        for (int i = 0; i < {d}; i++) d[i] = c[t * {d} + i];
        asm volatile("{text};" : {outputs} : {inputs});
        for (int i = 0; i < {d}; i++) c[t * {d} + i] = d[i];
    }}
    """


@pytest.fixture(scope="module")
def mma_module():
    return simt.compile("".join(mma_kernel(i, *m) for i, m in enumerate(MMA)))


@pytest.mark.parametrize("number", range(len(MMA)), ids=[" ".join(m) for m in MMA])
def test_mma(mma_module, number):
    shape, kind, result = MMA[number]
    depth, element = int(shape[6:]), ELEMENTS[kind]
    torch.manual_seed(number)
    low = 0 if kind == "u8" else -8
    a, b = torch.randint(low, 8, (16, depth)), torch.randint(low, 8, (depth, 8))
    c = torch.randint(-8, 8, (16, 8))
    parts = [16 * depth // 32, 8 * depth // 32]
    a_lanes = [[a[fragment_a(shape, kind, lane, i)].item() for i in range(parts[0])] for lane in range(32)]
    b_lanes = [[b[fragment_b(shape, kind, lane, i)].item() for i in range(parts[1])] for lane in range(32)]
    sums = [[((lane >> 2) + 8 * (i >> 1), lane % 4 * 2 + (i & 1)) for i in range(4)] for lane in range(32)]
    registers = [torch.tensor(v).to(element).view(torch.int32) for v in (a_lanes, b_lanes)]
    out = torch.tensor([[c[p].item() for p in row] for row in sums]).to(ELEMENTS[result])
    held = aligned(out if result == "f32" else out.view(torch.int32))
    launcher = Launcher(mma_module.kernels[f"mma{number}"])
    assert launcher[1, 32](*map(aligned, registers), held).ok
    expected = a @ b + c
    got = held.view(ELEMENTS[result])
    assert got.tolist() == [[expected[p].item() for p in row] for row in sums]


@pytest.fixture(scope="module")
def together():
    module = simt.compile(TOGETHER)
    return lambda name: Launcher(module.kernels[name])


def test_matrices_and_copies(together):
    x = torch.arange(256, dtype=torch.int16)
    plain, turned = (aligned(torch.zeros(256, dtype=torch.int16)) for _ in range(2))
    pieces = aligned(torch.zeros(128, dtype=torch.int32))
    assert together("matrices")[1, 32](aligned(x), plain, turned, pieces).ok
    eights = x.view(4, 8, 8)
    assert torch.equal(pieces.view(torch.int16).view(32, 4, 2).permute(1, 0, 2).reshape(4, 8, 8), eights)
    assert torch.equal(plain, x)
    assert torch.equal(turned[:128].view(2, 8, 8), eights[:2].transpose(1, 2))


def test_lanes(together):
    out = aligned(torch.zeros(64, 13, dtype=torch.int32))
    assert together("lanes")[1, 64](out).ok
    for t, row in enumerate(out.tolist()):
        lane, warp = t % 32, t // 32
        first = t - lane % 8
        members = sum(1 << i for i in range(32) if i % 4 == t % 4)
        assert [v & 0xFFFFFFFF for v in row] == [
            lane, warp, (1 << lane) - 1, t ^ 3, t - 1 if lane % 8 else 99, min(t + 1, first + 7),
            t - lane % 4 + 2, (0xFFFFFFFF, 0xFF)[warp], (1, 0)[warp], members, (496, 1520)[warp], 0xFFFFFFFF,
            int(lane == 0),
        ]  # fmt: skip


def test_memory(together):
    x, y = aligned(torch.arange(512.0)), aligned(torch.zeros(128))
    sums, flags = aligned(torch.zeros(2, dtype=torch.int32)), aligned(torch.zeros(2, dtype=torch.int32))
    result = together("memory")[1, 128](x, y, sums, flags)
    assert result.ok, [str(f) for f in result.findings]
    assert torch.equal(y, torch.arange(512.0).view(128, 4)[:, 1].flip(0))
    assert sums.tolist() == [127 * 64, 127] and flags.tolist() == [7, 7 << 8]
    counts = result.counters
    assert counts.global_load_requests == 4 + 1 and counts.global_load_sectors == 4 * 16 + 1
    assert counts.shared_store_requests == 4 and counts.shared_store_wavefronts == 16


def test_mbarriers(together):
    y = aligned(torch.zeros(64))
    result = together("arrivals")[1, 64](y)
    assert result.ok, [str(f) for f in result.findings]
    assert torch.equal(y, torch.arange(63.0, -1, -1))


# --- what is refused


@pytest.mark.parametrize(
    ("statement", "name"),
    [
        ('asm volatile("wgmma.fence.sync.aligned;");', "wgmma.fence.sync.aligned"),
        ('asm("tcgen05.alloc.cta_group::1.sync.aligned.b32 [%0], 32;" :: "r"(n));', "tcgen05.alloc"),
        ('asm("add.rz.f32 %0, %1, %2;" : "=r"(r) : "r"(n), "r"(n));', "add.rz.f32"),
        ('asm("cp.async.bulk.commit_group;");', "cp.async.bulk.commit_group"),
        ('asm("mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32 %0, %1, %1, %0;" : "+r"(r) : "r"(n));', "m8n8k4"),
        ('asm("mov.u32 %0, %%envreg3;" : "=r"(r));', "%envreg3"),
        ('asm("nop" : : "a"(60), "D"(0));', '"a"'),
        ('asm("syscall");', "syscall"),
        ('asm("mov.u32 %0, %7;" : "=r"(r));', "%7"),
        ('asm("mov.u32 %1, %0;" : "=r"(r) : "r"(n));', "no output"),
        ('asm("{ .reg .b128 q; }");', ".b128"),
        ('asm("ld.param.u32 %0, [p];" : "=r"(r));', "ld.param.u32"),
        ('asm("red.global.exch.b32 [%0], %1;" :: "l"(x), "r"(n));', "red.global.exch.b32"),
        ('asm("{ .reg .b16 h; cvt.rn.bf16.s32 h, %0; }" :: "r"(n));', "cvt.rn.bf16.s32"),
        ('asm("add.u32 %0, %1" : "=r"(r) : "r"(n));', "add.u32"),
    ],
)  # fmt: skip
def test_what_the_emulator_does_not_run_needs_a_gpu(statement, name):
    with pytest.raises(simt.NeedsGpu) as e:
        rules.check("\n" + KERNEL.format(statement))
    assert e.value.line == 2 and name in str(e.value)
    assert "inline PTX" in str(e.value) and "NVIDIA GPU" in str(e.value)


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("asm x;", "is written as"),
        ('asm(n : "=r"(r));', "takes strings only"),
        ('asm("mov.u32 %0, 1;" : "r"(r));', "no constraint of an output"),
        ('asm("" : "=r" r);', "is written as"),
        ('asm volatile("bar.sync 0;" :: "r"([]{ asm("bar.sync 0;"); return 0; }()));', "within an operand"),
        ('asm("bar.sync 0;" ::"r"(n + __asm__("bar.sync 0;")));', "within an operand"),
    ],
)
def test_what_is_no_inline_ptx_is_wrong(statement, words):
    with pytest.raises(simt.CompileError, match=words) as e:
        rules.check(KERNEL.format(statement))
    assert e.value.line == 1 and not isinstance(e.value, simt.NeedsGpu)


def test_operands_have_the_size_of_their_constraint():
    with pytest.raises(simt.CompileError, match="another size than its constraint"):
        simt.compile(KERNEL.format('asm("mov.u32 %0, %1;" : "=r"(r) : "r"(x));'))


def test_nothing_of_a_template_but_numbers_reaches_the_compiler():
    words = "{ .reg .pred secret; here: setp.eq.u32 secret, %1, 0x2a; /* more */ @secret bra here; // words\\n }"
    text = KERNEL.format(f'asm __volatile__("{words}" : "=r"(r) : "r"(n /* of mine */ +\n1)); x[0] = r;')
    translated = ptx.translated(expansion.expand(text))
    assert not re.search(r"\b(__)?asm(__)?\b|secret|here|words|more|mine", translated)
    assert "42" in translated and translated.count("\n") == text.count("\n") + 2  # of the include and #line
    assert ptx.translated("int a; // asm") == "int a; // asm"


def test_a_trap_is_one():
    assert "__trap()" in ptx.translated(KERNEL.format('asm("trap;");'))


def test_the_judge_leaves_inline_ptx_to_a_gpu():
    with pytest.raises(simt.NeedsGpu, match="runs on an NVIDIA GPU only") as e:
        ptx.refuse(expansion.expand('#define WAIT asm("bar.sync 0;")\n' + KERNEL.format("WAIT;")))
    assert e.value.line == 2
    ptx.refuse(KERNEL.format('printf("asm"); // asm'))


def test_a_finding_has_the_line_of_the_asm_statement(build):
    text = """__global__ void k(float* x) {
  float v;
  asm volatile("ld.global.f32 %0,"
               " [%1];" : "=f"(v)
               : "l"(x + 64 + threadIdx.x));
  x[threadIdx.x] = v;
}"""
    result = build(text, "k")[1, 32](aligned(torch.zeros(64)))
    assert [f.kind for f in result.findings] == ["out-of-bounds"] and result.findings[0].line in (3, 4, 5)
