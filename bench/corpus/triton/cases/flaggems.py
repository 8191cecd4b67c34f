"""FlagGems: operators of PyTorch in Triton, with scans, sorting, histograms, random numbers and generated kernels."""

import importlib
import inspect
import os
import re

import torch
import triton
from torch.nn import functional as F

from ..case import TF32, Collection


def without_its_launcher():
    """FlagGems launches compiled kernels in ways of its own, which it looks into: here Triton launches them."""
    os.environ["GEMS_VENDOR"] = "nvidia"
    for module in map(importlib.import_module, ("flag_gems.utils.libentry", "flag_gems.utils")):
        module.libentry = lambda: lambda kernel: kernel
        module.libtuner = lambda configs, key, **_: triton.autotune(configs, key)
    interpreted = triton.runtime.interpreter.InterpretedFunction
    interpreted.cache_key = property(lambda kernel: f"{kernel.fn.__module__}.{kernel.fn.__qualname__}")
    interpreted.__globals__ = property(lambda kernel: kernel.fn.__globals__)
    interpreted.src = property(lambda kernel: re.search(r"^ *def .*", inspect.getsource(kernel.fn), re.M | re.S)[0])
    importlib.import_module("flag_gems.utils.pointwise_dynamic").JITFunction = interpreted
    importlib.import_module("flag_gems.runtime").device.name = "cpu"
    importlib.import_module("flag_gems").vendor_name = "nvidia"


COLLECTION = Collection(
    "FlagGems",
    "FlagOpen",
    "532ff438c70343d7aec9becdabb76a71225a0553",
    "Apache-2.0",
    "src/flag_gems",
    root="src",
    bare=("flag_gems", "flag_gems.ops", "flag_gems.fused"),
    prepare=without_its_launcher,
)
case = COLLECTION.case


@case("flag_gems.ops.cumsum")
def cumulative_sums(m, draw):
    x = draw(3, 500)
    yield "rows", m.cumsum(x, 1), x.double().cumsum(1)
    yield "columns", m.cumsum(x, 0), x.double().cumsum(0)
    y = draw.integers(20000, high=9)
    yield "several blocks", m.cumsum(y, 0), y.cumsum(0)


@case("flag_gems.ops.cummax")
def cumulative_maximum(m, draw):
    x = draw(3, 200)
    values, indices = m.cummax(x, 1)
    expected = x.cummax(1)
    yield "values", values, expected.values.double()
    yield "indices", indices, expected.indices


@case("flag_gems.ops.cummin")
def cumulative_minimum(m, draw):
    x = draw(200, 3)
    values, indices = m.cummin(x, 0)
    expected = x.cummin(0)
    yield "values", values, expected.values.double()
    yield "indices", indices, expected.indices


@case("flag_gems.ops.sort")
def sort(m, draw):
    for x in (draw(3, 300), draw.integers(2, 200, low=-50, high=50, dtype=torch.int32)):
        for descending in (False, True):
            values, indices = m.sort_stable(x, stable=True, descending=descending)
            expected = x.sort(stable=True, descending=descending)
            yield "values", values, expected.values
            yield "indices", indices, expected.indices


@case("flag_gems.ops.topk")
def topk(m, draw):
    x = draw(4, 700)
    values, indices = m.topk(x, 9)
    expected = x.topk(9)
    yield "values", values, expected.values.double()
    yield "indices", indices, expected.indices


@case("flag_gems.ops.argmax")
def argmax(m, draw):
    x = draw(7, 300)
    yield "rows", m.argmax(x, 1), x.argmax(1)
    yield "all", m.argmax(x), x.argmax()


@case("flag_gems.ops.argmin")
def argmin(m, draw):
    x = draw(7, 300)
    yield "rows", m.argmin(x, 1), x.argmin(1)
    yield "all", m.argmin(x), x.argmin()


@case("flag_gems.ops.max")
def maximum(m, draw):
    x = draw(7, 300)
    yield "all", m.max(x), x.double().max()
    found, expected = m.max_dim(x, 1), x.max(1)
    yield "values", found.values, expected.values.double()
    yield "indices", found.indices, expected.indices


@case("flag_gems.ops.amax")
def amax(m, draw):
    x = draw(7, 300)
    yield "rows", m.amax(x, [1]), x.double().amax(1)
    yield "all", m.amax(x), x.double().amax()


@case("flag_gems.ops.sum")
def sums(m, draw):
    x = draw(7, 11, 300)
    yield "all", m.sum(x), x.double().sum()
    yield "inner", m.sum_dim(x, [2]), x.double().sum(2)
    yield "outer", m.sum_dim(x, [0]), x.double().sum(0)


@case("flag_gems.ops.prod")
def products(m, draw):
    x = draw.uniform(7, 60, low=0.9, high=1.1)
    yield "all", m.prod(x), x.double().prod()
    yield "rows", m.prod_dim(x, 1), x.double().prod(1)


@case("flag_gems.ops.mean")
def means(m, draw):
    x = draw(7, 300)
    yield "all", m.mean(x), x.double().mean()
    yield "rows", m.mean_dim(x, [1]), x.double().mean(1)


@case("flag_gems.ops.all")
def all_of(m, draw):
    x = draw(7, 20) > -2
    yield "all", m.all(x), x.all()
    yield "rows", m.all_dim(x, 1), x.all(1)


@case("flag_gems.ops.any")
def any_of(m, draw):
    x = draw(7, 20) > 1.8
    yield "all", m.any(x), x.any()
    yield "rows", m.any_dim(x, 1), x.any(1)


@case("flag_gems.ops.var_mean")
def variance_and_mean(m, draw):
    x = draw(7, 300) + 3
    variance, mean = m.var_mean(x, [1])
    yield "variance of rows", variance, x.double().var(1)
    yield "mean of rows", mean, x.double().mean(1)
    variance, mean = m.var_mean(x)
    yield "variance", variance.reshape(()), x.double().var()
    yield "mean", mean.reshape(()), x.double().mean()


@case("flag_gems.ops.std")
def standard_deviation(m, draw):
    x = draw(7, 300) + 3
    yield "rows", m.std(x, [1]), x.double().std(1)
    yield "all", m.std(x), x.double().std()


@case("flag_gems.ops.vector_norm")
def vector_norms(m, draw):
    x = draw(7, 300)
    for order in (2, float("inf"), -float("inf"), 0, 1, 3):
        yield f"rows, {order}", m.vector_norm(x, order, [1]), torch.linalg.vector_norm(x.double(), order, [1])
        yield f"all, {order}", m.vector_norm(x, order).reshape(()), torch.linalg.vector_norm(x.double(), order)


@case("flag_gems.ops.count_nonzero")
def count_nonzero(m, draw):
    x = draw.integers(7, 300, high=3)
    yield "all", m.count_nonzero(x), x.count_nonzero()
    yield "rows", m.count_nonzero(x, 1), x.count_nonzero(1)


@case("flag_gems.ops.softmax")
def softmax(m, draw):
    for shape, dim in (((7, 300), 1), ((3, 60, 20), 1)):
        x, dy = draw(*shape), draw(*shape)
        p = x.double().softmax(dim)
        yield f"forward, {dim}", m.softmax(x, dim), p
        dx = m.softmax_backward(dy, p.float(), dim, torch.float32)
        yield f"backward, {dim}", dx, p * (dy - (p * dy).sum(dim, keepdim=True))


@case("flag_gems.ops.log_softmax")
def log_softmax(m, draw):
    x, dy = draw(7, 300), draw(7, 300)
    y = x.double().log_softmax(1)
    yield "forward", m.log_softmax(x, 1), y
    yield "backward", m.log_softmax_backward(dy, y.float(), 1, torch.float32), dy - y.exp() * dy.double().sum(1, True)


@case("flag_gems.ops.layernorm")
def layer_norm(m, draw):
    for rows, width in ((7, 300), (3, 5000)):
        x, w, b, dy = draw(rows, width), draw(width), draw(width), draw(rows, width)
        y, mean, rstd = m.layer_norm(x, (width,), w, b)
        leaves = [t.double().requires_grad_() for t in (x, w, b)]
        expected = F.layer_norm(leaves[0], (width,), *leaves[1:])
        expected.backward(dy.double())
        yield "forward", y, expected.detach()
        found = m.layer_norm_backward(dy, x, (width,), mean, rstd, w, b, [True] * 3)
        for name, mine, leaf in zip(("x", "w", "b"), found, leaves, strict=True):
            yield f"gradient of {name}", mine, leaf.grad


@case("flag_gems.ops.groupnorm")
def group_norm(m, draw):
    x, w, b, dy = draw(2, 6, 5, 5), draw(6), draw(6), draw(2, 6, 5, 5)
    y, mean, rstd = m.group_norm(x, w, b, 2, 6, 25, 3)
    leaves = [t.double().requires_grad_() for t in (x, w, b)]
    expected = F.group_norm(leaves[0], 3, *leaves[1:])
    expected.backward(dy.double())
    yield "forward", y, expected.detach()
    found = m.group_norm_backward(dy, x, mean, rstd, w, 2, 6, 25, 3, [True] * 3)
    for name, mine, leaf in zip(("x", "w", "b"), found, leaves, strict=True):
        yield f"gradient of {name}", mine, leaf.grad


@case("flag_gems.ops.batch_norm")
def batch_norm(m, draw):
    x, w, b = draw(6, 5, 14), draw(5), draw(5)
    mean, variance = torch.zeros(5), torch.ones(5)
    y = m.batch_norm(x, w, b, mean, variance, training=True)[0]
    expected_mean, expected_variance = torch.zeros(5).double(), torch.ones(5).double()
    expected = F.batch_norm(x.double(), expected_mean, expected_variance, w.double(), b.double(), training=True)
    yield "result", y, expected
    yield "running mean", mean, expected_mean
    yield "running variance", variance, expected_variance


@case("flag_gems.ops.rms_norm")
def rms_norm(m, draw):
    x, w = draw(7, 300), draw(300)
    expected = x.double() * (x.double().square().mean(1, True) + 1e-5).rsqrt() * w
    yield "result", m.rms_norm(x, (300,), w), expected


@case("flag_gems.ops.weightnorm")
def weight_norm(m, draw):
    v, g = draw(7, 40), draw(7, 1)
    norm = v.double().norm(dim=1, keepdim=True)
    w, norms = m.weight_norm_interface(v, g, 0)
    yield "result", w, v.double() * g / norm
    yield "norms", norms.reshape(7, 1), norm


@case("flag_gems.ops.mm")
def matmul(m, draw):
    a, b = draw(70, 90), draw(90, 50)
    yield "result", m.mm(a, b), a.double() @ b.double(), TF32


@case(
    "flag_gems.ops.mm_streamk",
    fault="all threads store a tile of C, one announces it by an atomic, and no barrier stands between",
)
def matmul_stream_k(m, draw):
    a, b = draw(200, 160, dtype=torch.float16), draw(160, 200, dtype=torch.float16)
    c = torch.empty(200, 200, dtype=torch.float16)
    m.streamk_mm(a, b, c, 200, 200, 160, sm_count=6)
    yield "result", c, a.double() @ b.double()


@case("flag_gems.ops.bmm")
def matmul_batched(m, draw):
    a, b = draw(3, 70, 40), draw(3, 40, 50)
    yield "result", m.bmm(a, b), a.double() @ b.double(), TF32


@case("flag_gems.ops.addmm")
def matmul_with_bias(m, draw):
    c, a, b = draw(70, 50), draw(70, 40), draw(40, 50)
    yield "result", m.addmm(c, a, b, beta=0.5, alpha=2), 0.5 * c.double() + 2 * a.double() @ b.double(), TF32


@case("flag_gems.ops.mv")
def matrix_times_vector(m, draw):
    a, x = draw(70, 90), draw(90)
    yield "result", m.mv(a, x), a.double() @ x.double()


@case("flag_gems.ops.dot")
def dot(m, draw):
    for count in (300, 9000):
        x, y = draw(count), draw(count)
        yield f"{count} elements", m.dot(x, y), x.double() @ y.double()


@case("flag_gems.ops.vdot")
def complex_dot(m, draw):
    x, y = torch.complex(draw(300), draw(300)), torch.complex(draw(300), draw(300))
    yield "result", torch.view_as_real(m.vdot(x, y)), torch.view_as_real(torch.vdot(x.cdouble(), y.cdouble()))


@case("flag_gems.ops.kron")
def kronecker_product(m, draw):
    a, b = draw(5, 7), draw(4, 3)
    yield "result", m.kron(a, b), torch.kron(a.double(), b.double())


@case("flag_gems.ops.addmv")
def matrix_times_vector_with_bias(m, draw):
    c, a, x = draw(70), draw(70, 90), draw(90)
    yield "result", m.addmv(c, a, x, beta=0.5, alpha=2), 0.5 * c.double() + 2 * a.double() @ x.double()


@case("flag_gems.ops.addr")
def outer_product(m, draw):
    c, x, y = draw(70, 90), draw(70), draw(90)
    yield "result", m.addr(c, x, y), c.double() + x.double()[:, None] * y


@case("flag_gems.ops.conv2d")
def convolution(m, draw):
    x, w, b = draw(2, 4, 9, 9), draw(6, 2, 3, 3), draw(6)
    expected = F.conv2d(x.double(), w.double(), b.double(), padding=1, groups=2)
    yield "result", m.conv2d(x, w, b, padding=1, groups=2), expected, TF32


@case("flag_gems.ops.avg_pool2d")
def average_pooling(m, draw):
    x, dy = draw(2, 3, 9, 9), draw(2, 3, 4, 4)
    leaf = x.double().requires_grad_()
    expected = F.avg_pool2d(leaf, 2)
    expected.backward(dy.double())
    yield "forward", m.avg_pool2d(x, 2), expected.detach()
    yield "backward", m.avg_pool2d_backward(dy, x, 2, 2, 0, False, True, None), leaf.grad


@case("flag_gems.ops.max_pool2d_with_indices")
def max_pooling(m, draw):
    x = draw(2, 3, 9, 9)
    values, indices = m.max_pool2d_with_indices(x, 3, 2, 1)
    expected = F.max_pool2d(x, 3, 2, 1, return_indices=True)
    yield "values", values, expected[0].double()
    yield "indices", indices, expected[1]


@case("flag_gems.ops.upsample_nearest2d")
def upsample(m, draw):
    x = draw(2, 3, 5, 7)
    yield "result", m.upsample_nearest2d(x, (11, 13)), F.interpolate(x.double(), (11, 13))


@case("flag_gems.ops.upsample_bicubic2d_aa")
def upsample_bicubic(m, draw):
    x = draw(1, 2, 9, 9)
    expected = F.interpolate(x.double(), (5, 6), mode="bicubic", antialias=True, align_corners=False)
    yield "result", m._upsample_bicubic2d_aa(x, (5, 6)), expected


@case("flag_gems.ops.embedding")
def embedding(m, draw):
    weight, ids, dy = draw(30, 24), draw.integers(4, 9, high=30), draw(4, 9, 24)
    yield "forward", m.embedding(weight, ids), weight.double()[ids]
    expected = torch.zeros(30, 24).double().index_add(0, ids.flatten(), dy.double().reshape(-1, 24))
    yield "backward", m.embedding_backward(dy, ids, 30), expected
    counts = torch.bincount(ids.flatten(), minlength=30).clamp(min=1)[:, None]
    scaled = m.embedding_backward(dy, ids, 30, scale_grad_by_freq=True)
    yield "backward, scaled", scaled, expected / counts


@case("flag_gems.ops.nllloss")
def negative_log_likelihood(m, draw):
    x, target, weight = draw(9, 30).log_softmax(1), draw.integers(9, high=30), draw.uniform(30, low=0.5)
    loss, total = m.nll_loss_forward(x, target, weight, 1)
    leaf = x.double().requires_grad_()
    expected = F.nll_loss(leaf, target, weight.double())
    expected.backward()
    yield "forward", loss, expected.detach()
    dx = m.nll_loss_backward(torch.tensor(1.0), x, target, weight, 1, total_weight=total)
    yield "backward", dx, leaf.grad


@case("flag_gems.ops.mse_loss")
def squared_error(m, draw):
    x, y = draw(7, 300), draw(7, 300)
    yield "mean", m.mse_loss(x, y, 1), F.mse_loss(x.double(), y.double())


@case("flag_gems.ops.dropout")
def dropout(m, draw):
    x = draw(3000).abs() + 0.1
    y, mask = m.dropout(x, 0.25)
    yield "result", y, mask * x.double() / 0.75
    yield "share of kept elements", (mask.double().mean() - 0.75).abs() < 0.04, torch.tensor(True)
    yield "gradient", m.dropout_backward(x, mask, 1 / 0.75), mask * x.double() / 0.75


@case("flag_gems.ops.rand")
def uniform_numbers(m, draw):
    x = m.rand((4000,), device=torch.device("cpu"))
    yield "range", ((x >= 0) & (x < 1)).all(), torch.tensor(True)
    yield "mean", (x.mean() - 0.5).abs() < 0.03, torch.tensor(True)
    yield "different numbers", torch.tensor(x.unique().numel() > 3900), torch.tensor(True)


@case("flag_gems.ops.randn")
def normal_numbers(m, draw):
    x = m.randn((4000,), device=torch.device("cpu"))
    yield "mean", x.mean().abs() < 0.08, torch.tensor(True)
    yield "deviation", (x.std() - 1).abs() < 0.06, torch.tensor(True)


@case("flag_gems.ops.exponential_")
def exponential_numbers(m, draw):
    x = m.exponential_(torch.empty(4000), 2.0)
    yield "mean", (x.mean() - 0.5).abs() < 0.05, torch.tensor(True)
    yield "range", (x >= 0).all(), torch.tensor(True)


@case(
    "flag_gems.ops.randperm",
    fault="the flags of the look-back are stored by plain stores, which race with the volatile loads that poll them",
)
def permutation(m, draw):
    for count in (100, 3000):
        found = m.randperm(count, device=torch.device("cpu"))
        yield f"{count} numbers", found.sort().values, torch.arange(count)


@case("flag_gems.ops.unique")
def unique(m, draw):
    for count in (300, 20000):
        x = draw.integers(count, high=50)
        values, inverse, counts = m._unique2(x, True, True, True)
        expected = x.unique(return_inverse=True, return_counts=True)
        for what, mine, theirs in zip(
            ("values", "inverse", "counts"), (values, inverse, counts), expected, strict=True
        ):
            yield f"{what} of {count}", mine, theirs


@case("flag_gems.ops.isin")
def is_in(m, draw):
    x, few, many = draw.integers(300, high=500), draw.integers(9, high=500), draw.integers(2000, high=9000)
    yield "comparison", m.isin_by_comparation(x, few, False), torch.isin(x, few)
    yield "search", m.isin_by_search(x, many, False, False, False), torch.isin(x, many)


@case("flag_gems.ops.isin", fault="the last tile of a row that is no multiple of the tile takes away what others found")
def is_in_by_comparison(m, draw):
    x, many = draw.integers(300, high=500), draw.integers(600, high=900)
    yield "result", m.isin_by_comparation(x, many, False), torch.isin(x, many)


@case("flag_gems.ops.nonzero")
def nonzero(m, draw):
    x = draw.integers(9, 50, high=3)
    yield "result", m.nonzero(x), x.nonzero()


@case("flag_gems.ops.masked_select")
def masked_select(m, draw):
    x = draw(9, 50)
    yield "result", m.masked_select(x, x > 0.3), x.double()[x > 0.3]


@case("flag_gems.ops.index_select")
def index_select(m, draw):
    x, index = draw(9, 50), draw.integers(20, high=9)
    yield "result", m.index_select(x, 0, index), x.double()[index]


@case("flag_gems.ops.gather")
def gather(m, draw):
    x, index = draw(9, 50), draw.integers(9, 20, high=50)
    yield "result", m.gather(x, 1, index), x.double().gather(1, index)


@case("flag_gems.ops.scatter")
def scatter(m, draw):
    x, src = draw(9, 50), draw(9, 20)
    index = torch.stack([draw.order(50)[:20] for _ in range(9)])
    yield "result", m.scatter(x, 1, index, src), x.double().scatter(1, index, src.double())
    same = draw.integers(9, 20, high=50)
    added = m.scatter(x, 1, same, src, reduce="add")
    yield "added", added, x.double().scatter_add(1, same, src.double())


@case("flag_gems.ops.index_add")
def index_add(m, draw):
    x, index, src = draw(9, 50), draw.order(9)[:6], draw(6, 50)
    yield "result", m.index_add(x, 0, index, src, alpha=2), x.double().index_add(0, index, src.double(), alpha=2)


@case("flag_gems.ops.repeat_interleave")
def repeat_interleave(m, draw):
    repeats = draw.integers(40, high=5)
    yield "result", m.repeat_interleave_tensor(repeats), torch.arange(40).repeat_interleave(repeats)


@case("flag_gems.ops.quantile")
def quantile(m, draw):
    x, q = draw(7, 60), torch.tensor([0.1, 0.5, 0.9])
    yield "result", m.quantile(x, q, 1), torch.quantile(x.double(), q.double(), 1)


@case("flag_gems.ops.triu")
def upper_triangle(m, draw):
    x = draw(2, 30, 40)
    yield "result", m.triu(x, 1), x.double().triu(1)


@case("flag_gems.ops.trace")
def trace(m, draw):
    x = draw(30, 40)
    yield "result", m.trace(x), x.double().trace()


@case("flag_gems.ops.diag")
def diagonal(m, draw):
    x, y = draw(30), draw(9, 12)
    yield "to a matrix", m.diag(x, 1), x.double().diag(1)
    yield "of a matrix", m.diag(y, -1), y.double().diag(-1)


@case("flag_gems.ops.eye_m")
def identity(m, draw):
    yield "result", m.eye_m(30, 20, dtype=torch.float32, device=torch.device("cpu")), torch.eye(30, 20).double()


@case("flag_gems.ops.linspace")
def linspace(m, draw):
    found = m.linspace(-1.0, 2.0, 77, dtype=torch.float32, device=torch.device("cpu"))
    yield "result", found, torch.linspace(-1, 2, 77).double()


@case("flag_gems.ops.arange")
def arange(m, draw):
    yield "result", m.arange_start(3, 40, 2, device=torch.device("cpu")), torch.arange(3, 40, 2)


@case("flag_gems.ops.cat")
def concatenation(m, draw):
    parts = [draw(3, 5), draw(3, 9), draw(3, 2)]
    yield "result", m.cat(parts, 1), torch.cat(parts, 1).double()


@case("flag_gems.ops.vstack")
def vertical_stack(m, draw):
    parts = [draw(3, 5), draw(4, 5), draw(2, 5)]
    yield "result", m.vstack(parts), torch.vstack(parts).double()


@case("flag_gems.ops.slice_scatter")
def slice_scatter(m, draw):
    x, src = draw(9, 20), draw(9, 5)
    expected = torch.slice_scatter(x.double(), src.double(), 1, 2, 17, 3)
    yield "result", m.slice_scatter(x, src, 1, 2, 17, 3), expected


@case("flag_gems.ops.select_scatter")
def select_scatter(m, draw):
    x, src = draw(9, 20), draw(9)
    yield "result", m.select_scatter(x, src, 1, 7), torch.select_scatter(x.double(), src.double(), 1, 7)


@case("flag_gems.ops.attention")
def attention(m, draw):
    q, k, v = (draw(1, 2, 96, 64, dtype=torch.float16) for _ in range(3))
    for causal in (False, True):
        expected = F.scaled_dot_product_attention(q.double(), k.double(), v.double(), is_causal=causal)
        found = m.scaled_dot_product_attention(q, k, v, is_causal=causal)
        yield f"causal {causal}", found[0] if isinstance(found, tuple) else found, expected


POINTWISE = {
    "abs": torch.abs,
    "exp": torch.exp,
    "rsqrt": lambda x: x.abs().add(0.1).rsqrt(),
    "sin": torch.sin,
    "tanh": torch.tanh,
    "gelu": F.gelu,
    "silu": F.silu,
    "sigmoid": torch.sigmoid,
    "relu": F.relu,
    "erf": torch.erf,
    "log_sigmoid": F.logsigmoid,
    "softplus": F.softplus,
    "reciprocal": torch.reciprocal,
}


def pointwise(name):
    def run(m, draw):
        x = draw(7, 60)
        argument = x.abs() + 0.1 if name == "rsqrt" else x
        yield "result", getattr(m, name)(argument), POINTWISE[name](x.double())

    run.__name__ = f"pointwise_{name}"
    return case(f"flag_gems.ops.{name}")(run)


for _name in POINTWISE:
    pointwise(_name)


@case("flag_gems.ops.add")
def pointwise_add(m, draw):
    x, y = draw(7, 60), draw(60)
    yield "broadcast", m.add(x, y, alpha=2), x.double() + 2 * y


@case("flag_gems.ops.where")
def pointwise_where(m, draw):
    x, y = draw(7, 60), draw(7, 60)
    yield "result", m.where_inner(x > y, x, y), torch.maximum(x, y).double()


@case("flag_gems.ops.div")
def pointwise_division(m, draw):
    x, y = (
        draw.integers(300, low=-50, high=50),
        draw.integers(300, low=1, high=9) * (2 * draw.integers(300, high=2) - 1),
    )
    yield "floor", m.floor_divide(x, y), torch.div(x, y, rounding_mode="floor")
    yield "remainder", m.remainder(x, y), torch.remainder(x, y)
    x, y = 9 * draw(300), draw(300)
    yield "truncated", m.trunc_divide(x, y), torch.div(x, y, rounding_mode="trunc").double()


@case("flag_gems.fused.topk_softmax")
def topk_softmax(m, draw):
    logits = draw(20, 16)
    weights, ids, source = (
        torch.empty(20, 4),
        torch.empty(20, 4, dtype=torch.int32),
        torch.empty(20, 4, dtype=torch.int32),
    )
    m.topk_softmax(weights, ids, source, logits)
    expected = logits.double().softmax(1).topk(4)
    yield "weights", weights, expected.values
    yield "experts", ids, expected.indices


@case("flag_gems.fused.moe_align_block_size")
def moe_align(m, draw):
    ids, experts, block = draw.integers(20, 2, high=4, dtype=torch.int32), 4, 16
    counts = torch.bincount(ids.flatten(), minlength=experts)
    padded = (counts + block - 1) // block * block
    most = ids.numel() + experts * (block - 1)
    order, owners = (
        torch.full((most,), ids.numel(), dtype=torch.int32),
        torch.zeros(most // block + 1, dtype=torch.int32),
    )
    total = torch.zeros(1, dtype=torch.int32)
    m.moe_align_block_size_triton(ids, experts, block, order, owners, total)
    yield "elements", total[0], padded.sum()
    yield "experts of blocks", owners[: int(total) // block], torch.arange(experts).repeat_interleave(padded // block)
    flat, start = ids.flatten(), 0
    for e in range(experts):
        mine = order[start : start + int(counts[e])].sort().values
        yield f"tokens of expert {e}", mine, (flat == e).nonzero()[:, 0]
        start += int(padded[e])


@case("flag_gems.fused.rotary_embedding")
def rotary(m, draw):
    angle = draw.uniform(30, 16, high=6.0)
    q, k = draw(2, 30, 4, 32), draw(2, 30, 2, 32)

    def turned(x):
        a, b = x.double().chunk(2, -1)
        c, s = angle.double().cos()[:, None], angle.double().sin()[:, None]
        return torch.cat([a * c - b * s, b * c + a * s], -1)

    mine = m.apply_rotary_pos_emb(q, k, angle.cos(), angle.sin())
    yield "q", mine[0], turned(q)
    yield "k", mine[1], turned(k)


@case("flag_gems.fused.cross_entropy_loss")
def cross_entropy(m, draw):
    target = draw.integers(9, high=30)
    for smoothing in (0.0, 0.1):
        x = draw(9, 30).requires_grad_()
        leaf = x.detach().double().requires_grad_()
        loss = m.cross_entropy_loss(x, target, label_smoothing=smoothing)
        expected = F.cross_entropy(leaf, target, label_smoothing=smoothing)
        loss.backward()
        expected.backward()
        yield f"forward, {smoothing}", loss.detach(), expected.detach()
        yield f"backward, {smoothing}", x.grad, leaf.grad


@case("flag_gems.fused.instance_norm")
def instance_norm(m, draw):
    x, w, b = draw(2, 3, 60), draw(3), draw(3)
    yield "result", m.instance_norm(x, w, b), F.instance_norm(x.double(), weight=w.double(), bias=b.double())


@case("flag_gems.fused.skip_layernorm")
def skip_layer_norm(m, draw):
    x, r, w, b = draw(7, 60), draw(7, 60), draw(60), draw(60)
    expected = F.layer_norm(x.double() + r, (60,), w.double(), b.double())
    yield "result", m.skip_layer_norm(x, r, (60,), w, b), expected


@case("flag_gems.fused.reshape_and_cache")
def paged_cache(m, draw):
    keys, values = draw(7, 2, 16), draw(7, 2, 16)
    key_cache, value_cache = torch.zeros(3, 2, 4, 8, 4), torch.zeros(3, 2, 16, 8)
    slots, one = draw.order(24)[:7], torch.tensor(1.0)
    m.reshape_and_cache(keys, values, key_cache, value_cache, slots, "auto", one, one)
    expected_keys, expected_values = torch.zeros(3, 2, 4, 8, 4).double(), torch.zeros(3, 2, 16, 8).double()
    for t, slot in enumerate(slots.tolist()):
        expected_keys[slot // 8, :, :, slot % 8] = keys[t].double().view(2, 4, 4)
        expected_values[slot // 8, :, :, slot % 8] = values[t].double()
    yield "keys", key_cache, expected_keys
    yield "values", value_cache, expected_values
