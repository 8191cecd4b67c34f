"""For each kernel of the folder kernels/: its inputs, and the assertions on its outputs."""

import ctypes
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import arange, int32, randint, randn, zeros

KERNELS = Path(__file__).parent / "kernels"
CASES = {}


def case(function):
    CASES[function.__name__] = function
    return function


def close(got, expected, tolerance=1e-4):
    torch.testing.assert_close(got, expected, rtol=tolerance, atol=tolerance)


def ceil(a, b):
    return -(-a // b)


@case
def vector_add(k, n=10007):
    a, b, c = randn(n), randn(n), zeros(n)
    k()[ceil(n, 256), 256](a, b, c, n)
    assert torch.equal(c, a + b)


@case
def grey(k, height=61, width=83):
    x, out = randint(0, 256, (height, width, 3), dtype=torch.uint8), zeros(height, width, dtype=torch.uint8)
    k()[(ceil(width, 16), ceil(height, 8)), (16, 8)](x, out, height, width)
    f = x.float()
    assert torch.equal(out, (0.25 * f[..., 0] + 0.5 * f[..., 1] + 0.25 * f[..., 2]).to(torch.uint8))


@case
def convolve(k, n=5000):
    x, out = randn(n), zeros(n)
    k()[ceil(n, 128), 128](x, out, n)
    weights = torch.tensor([1.0, 2, 3, 4, 5, 4, 3, 2, 1])
    close(out, F.conv1d(x[None, None], weights[None, None], padding=4)[0, 0], 1e-3)


@case
def transpose(k, height=100, width=133):
    a, out = randn(height, width), zeros(width, height)
    k("transpose<32, 8>")[(ceil(width, 32), ceil(height, 32)), (32, 8)](a, out, height, width)
    assert torch.equal(out, a.t())


def reduction(k, shared_bytes, elements=256, n=10000):
    x, out = randn(n), zeros(ceil(n, elements))
    k()[ceil(n, elements), 256, shared_bytes](x, out, n)
    close(out.sum(), x.sum(), 1e-3)


@case
def reduce_interleaved(k):
    reduction(k, 1024)


@case
def reduce_strided(k):
    reduction(k, 1024)


@case
def reduce_sequential(k):
    reduction(k, 1024)


@case
def reduce_last_warp(k):
    reduction(k, 0, 512)


@case
def reduce_atomic(k, n=10000):
    x, out = randn(n), zeros(1)
    k()[8, 256](x, out, n)
    close(out[0], x.sum(), 1e-3)


@case
def reduce_vector(k, n=10000):
    x, out = randn(n), zeros(1)
    k()[8, 256](x, out, n // 4)
    close(out[0], x.sum(), 1e-3)


def matmul(k, name=None, shape=(50, 70, 40), block=(16, 16)):
    m, n, d = shape
    a, b, c = randn(m, d), randn(d, n), zeros(m, n)
    k(name)[(ceil(n, 16), ceil(m, 16)), block](a, b, c, m, n, d)
    close(c, a @ b, 1e-3)


@case
def matmul_naive(k):
    matmul(k)


@case
def matmul_tiled(k):
    matmul(k)


@case
def matmul_registers(k):
    a, b, c = randn(128, 64), randn(64, 128), zeros(128, 128)
    k("matmul_registers<64, 64, 16, 4, 4>")[(2, 2), 256](a, b, c, 128, 128, 64)
    close(c, a @ b, 1e-3)


@case
def matmul_wmma(k, m=64, n=48, d=80):
    a, b, c = randn(m, d).half(), randn(d, n).half(), zeros(m, n)
    k()[ceil(m // 16 * (n // 16) * 32, 128), 128](a, b, c, m, n, d)
    close(c, 2 * (a.float() @ b.float()), 1e-2)


@case
def matmul_bf16(k, m=32, n=48, d=64):
    a, b, c = randn(m, d).bfloat16(), randn(n, d).bfloat16(), zeros(m, n)
    k()[(n // 16, m // 16), 32](a, b, c, n, d)
    close(c, a.float() @ b.float().t(), 1e-2)


@case
def matmul_tf32(k, m=32, n=32, d=40):
    a, b, c = randn(m, d), randn(d, n), zeros(m, n)
    k()[(n // 16, m // 16), 32](a, b, c, n, d)
    close(c, a @ b, 3e-2)


@case
def softmax(k, rows=37, cols=203):
    x, y = randn(rows, cols), zeros(rows, cols)
    k()[ceil(rows, 4), 128](x, y, rows, cols)
    close(y, x.softmax(-1))


@case
def layernorm(k, rows=9, d=300):
    x, gain, y = randn(rows, d), randn(d), zeros(rows, d)
    k()[rows, 128](x, gain, y, d)
    close(y, F.layer_norm(x, (d,), gain), 1e-3)


@case
def attention(k, n=100):
    q, key, v, out = randn(n, 32), randn(n, 32), randn(n, 32), zeros(n, 32)
    k("attention<32>")[ceil(n, 64), 64](q, key, v, out, n, 32**-0.5)
    close(out, F.scaled_dot_product_attention(q[None], key[None], v[None])[0], 1e-3)


@case
def flash_wmma(k, n=64):
    q, key, v, out = randn(n, 16).half(), randn(n, 16).half(), randn(n, 16).half(), zeros(n, 16)
    k()[4, 32](q, key, v, out, n, 0.25)
    close(out, F.scaled_dot_product_attention(q.float()[None], key.float()[None], v.float()[None])[0], 1e-2)


@case
def tile_reduce(k, n=5000):
    x, out = randint(-50, 50, (n,), dtype=int32), zeros(3, dtype=int32)
    out[2] = -(10**6)
    k()[4, 128](x, out, n)
    parts = F.pad(x, (0, 10 * 512 - n)).view(10, 512).sum(0)
    assert out.tolist() == [int(x.sum()), int(x.sum()), int(parts.max())]


@case
def tile_shuffle(k):
    x, sums, turned, votes = randint(-50, 50, (128,), dtype=int32), *(zeros(n, dtype=int32) for n in (16, 128, 16))
    k()[2, 64](x, sums, turned, votes)
    rows = x.view(16, 8)
    assert torch.equal(sums, rows.sum(1).int())
    assert torch.equal(turned.view(16, 8), rows.roll(-1, 1))
    assert torch.equal(votes, ((rows & 1) << arange(8)).sum(1).int())


@case
def histogram(k, n=20000):
    x, bins = randint(0, 256, (n,), dtype=torch.uint8), zeros(256, dtype=int32)
    k()[6, 128](x, bins, n)
    assert torch.equal(bins.long(), torch.bincount(x.long(), minlength=256))


@case
def last_block(k, n=5000):
    x, part, out = randn(n), zeros(8), zeros(1)
    kernel = k()
    for _ in range(2):  # the counter is ready for the next launch
        kernel[8, 128](x, part, out, n)
        close(out[0], x.sum(), 1e-3)


@case
def compact(k, n=3000):
    x, out, count = randint(-9, 10, (n,), dtype=int32), zeros(n, dtype=int32), zeros(1, dtype=int32)
    k()[ceil(n, 128), 128](x, out, count, n)
    kept = x[x > 0]
    assert int(count) == len(kept) and torch.equal(out[: len(kept)].sort().values, kept.sort().values)


@case
def mma_shapes(k):
    a, b = randn(16, 16), randn(16, 16)
    d, packed = zeros(2, 16, 16), zeros(32, dtype=int32)
    k()[1, 32](a.half(), b.half(), a.bfloat16(), b.bfloat16(), d, packed)
    close(d[0], a.half().float() @ b.half().float(), 1e-5)
    close(d[1], a.bfloat16().float() @ b.bfloat16().float(), 1e-5)
    assert torch.equal(packed.view(torch.float16).view(32, 2)[:, 0], arange(32).half())
    assert set(packed.view(torch.float16).view(32, 2)[:, 1].tolist()) == {1.5}


@case
def half_axpy(k, n=2000):
    x, y = randn(n).half(), randn(n).half()
    expected = (1.5 * x.float() + y.float()).half()
    k()[ceil(n // 2, 128), 128](ctypes.c_uint16(0x3E00), x, y, n // 2)
    assert torch.equal(y, expected)


@case
def half_math(k, n=1000):
    x, y = randn(n).half(), zeros(n).half()
    k()[ceil(n, 128), 128](x, y, n)
    root = (x.abs().float().sqrt().half() + 1) * 0.5
    close(y, root.clamp(max=1.5), 2e-3)


@case
def bf16_scale(k, n=1000):
    x, y = randn(n).bfloat16(), zeros(n).bfloat16()
    k()[ceil(n, 128), 128](x, y, 0.37, n)
    assert torch.equal(y, (x.float() * torch.tensor(0.37)).bfloat16())


@case
def scan_steps(k, n=200):
    x, y = randn(n), zeros(n)
    k()[1, 256](x, y, n)
    close(y, x.cumsum(0), 1e-3)


@case
def scan_tree(k):
    x = randint(0, 9, (512,), dtype=int32)
    y = torch.zeros_like(x)
    k()[1, 256, 2048](x, y, 512)
    assert torch.equal(y, (x.cumsum(0) - x).int())


@case
def scan_warp(k, n=500):
    x, y = randint(0, 9, (n,), dtype=int32), zeros(n, dtype=int32)
    k()[1, 512](x, y, n)
    assert torch.equal(y, x.cumsum(0).int())


@case
def bitonic(k):
    x = randn(512)
    expected = x.sort().values
    k()[1, 256](x)
    assert torch.equal(x, expected)


@case
def warp_shared(k):
    x, y = randn(1024), zeros(32)
    k()[4, 256](x, y)
    close(y, x.view(32, 32).sum(1), 1e-3)


@case
def stencil(k, height=45, width=70):
    x, y = randn(height, width), zeros(height, width)
    k()[(ceil(width, 16), ceil(height, 16)), (16, 16)](x, y, height, width)
    p = F.pad(x, (1, 1, 1, 1))
    close(y, x - 0.25 * (p[1:-1, :-2] + p[1:-1, 2:] + p[:-2, 1:-1] + p[2:, 1:-1]))


@case
def grid_sync(k, n=500):
    x, part, y = randn(n).abs(), zeros(8), zeros(n)
    k()[8, 64](x, part, y, n)
    close(y, x / x.sum())


@case
def spinlock(k):
    x = zeros(1)
    k()[3, 256](x)
    assert x[0] == 24


@case
def cas_loop(k, n=1000):
    x, out = randn(n), torch.full((1,), -1e9)
    k()[ceil(n, 128), 128](x, out, n)
    assert out[0] == x.max()


@case
def pipeline(k, tiles=5):
    x, y = randn(2, tiles, 128), zeros(2, 32)
    k()[2, 32](x, y, tiles)
    index = (arange(32)[:, None] * 4 + arange(4) * 37) % 128
    close(y, x[:, :, index].sum((1, 3)), 1e-3)


@case
def pipeline_object(k):
    x, y = randn(3, 256), zeros(3, 128)
    k()[3, 128](x, y)
    close(y, x[:, :128] + x.flip(1)[:, :128])


@case
def read_only(k, n=700):
    table, index, out = randn(50), randint(0, 50, (n,), dtype=int32), zeros(n)
    k()[ceil(n, 256), 256](table, index, out, n)
    assert torch.equal(out, table[index.long()])


@case
def structs(k, n=300):
    p, step = randn(n, 4), (ctypes.c_float * 4)(0.5, 1, 2, 4)
    p[:, 3] = 0
    expected = p[:, :3] + 0.5 * torch.tensor([1.0, 2, 4])
    k()[3, 128](p, step, n)
    close(p[:, :3], expected)
    assert (p[:, 3].contiguous().view(int32) == 1).all()


@case
def three_dimensions(k):
    out = zeros(5, 6, 7, dtype=int32)
    k()[(2, 2, 3), (4, 4, 2)](out, 7, 6, 5)
    z, y, x = torch.meshgrid(arange(5), arange(6), arange(7), indexing="ij")
    assert torch.equal(out, (10000 * z + 100 * y + x).int())


@case
def votes(k):
    x, out = randint(0, 8, (32,), dtype=int32), zeros(6, 32, dtype=int32)
    k()[1, 32](x, out)
    bits = 1 << arange(32)

    def mask(selected):
        total = int((bits * selected).sum())
        return total - (1 << 32) if total >> 31 else total

    assert out[0].tolist() == [mask(x == v) for v in x]
    assert (out[1] == x.sum() + x.max() - 8).all()
    assert (out[2] == int((x == 3).any()) + 2).all()
    assert out[3].tolist() == [mask(x % 2 == 1) if v % 2 else 0 for v in x]
    assert (out[4] == 0).all()  # 0xffffffff + 1
    lanes = arange(32)
    up = torch.where(lanes % 8 >= 3, x[(lanes - 3).clamp(0)], x)
    assert torch.equal(out[5], x[lanes ^ 5] + up)


@case
def half_masks(k):
    x, out = randint(0, 100, (32,), dtype=int32), zeros(32, dtype=int32)
    k()[1, 32](x, out)
    assert (out[:16] == x[:16].sum()).all() and (out[16:] == x[16:].max()).all()


@case
def barrier_votes(k):
    x, out = randint(-99, 99, (160,), dtype=int32), zeros(3, dtype=int32)
    k()[1, 160](x, out, 160)
    assert out.tolist() == [int((x > 0).sum()), 1, int((x == 77).any())]


@case
def several(k, n=100):
    x, y = randint(-9, 9, (n,), dtype=int32), zeros(n, dtype=int32)
    k("several")[1, 128](x, y, n)
    k("second")[1, n](y)
    assert torch.equal(y, -(x**2 + x**3))


@case
def print(k):
    result = k()[2, 64](torch.tensor([1.5, 2.25]))
    assert result.printed == "".join(
        f"block {b} thread {t}: {v}\n" for b in (0, 1) for t, v in ((0, "1.50"), (1, "2.25"))
    )


@case
def flag_wait(k):
    flag, data, out = (zeros(1, dtype=int32) for _ in range(3))
    k()[1, 64](flag, data, out)
    assert out[0] == 42


@case
def recursion(k):
    out = zeros(64, dtype=int32)
    k()[1, 64](out)
    numbers = [0, 1]
    while len(numbers) < 12:
        numbers.append(numbers[-1] + numbers[-2])
    assert out.tolist() == [numbers[i % 12] for i in range(64)]


@case
def same_value(k, n=200):
    x, found = torch.full((n,), -1, dtype=int32), zeros(1, dtype=int32)
    k()[2, 128](x, found, n)
    assert found[0] == 1


@case
def partitions(k, n=1000):
    x, by_sign = randn(n), zeros(n)
    ranks, tiles = zeros(n, dtype=int32), zeros(n, dtype=int32)
    k()[ceil(n, 128), 128](x, by_sign, ranks, tiles, n)
    lane, thread = arange(n) % 32, arange(n) % 128
    padded = torch.cat([x, zeros(-n % 32)]).view(-1, 32)
    negative = padded.where(padded < 0, 0.0).sum(1).repeat_interleave(32)[:n]
    positive = padded.where(padded >= 0, 0.0).sum(1).repeat_interleave(32)[:n]
    close(by_sign, torch.where(x < 0, negative, positive))
    assert torch.equal(ranks, (lane // 3 * 100 + torch.where(lane % 3 == 2, 10, 11)).int())
    assert torch.equal(tiles, (lane // 8 * 100 + 40 + thread // 32).int())


@case
def library_barrier(k, n=1000):
    x, out = randn(n), zeros(n)
    k()[ceil(n, 128), 128](x, out, n)
    blocks = torch.cat([x, zeros(-n % 128)]).view(-1, 128)
    close(out, (blocks.roll(1, 1) + 2.0 * arange(128)).flip(1).flatten()[:n])


@case
def library_atomics(k, n=1000):
    x = randint(-99, 99, (n,), dtype=int32)
    total, largest, handed, flag, got = zeros(5, 1, dtype=int32).unbind()
    k()[ceil(n, 128), 128](x, total, largest, handed, flag, got, n)
    assert (total.item(), largest.item(), got.item()) == (x.sum().item(), x.max().item(), 42)
