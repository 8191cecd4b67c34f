"""attorch: the layers of torch.nn, forward and backward."""

import torch
from torch import nn
from torch.nn import functional as F

from ..case import CHAIN, TF32, Collection, agree

COLLECTION = Collection(
    "attorch", "BobMcDear", "67c2772baf33913ef51c2d1064f746ca17b63749", "MIT", "attorch", bare=("attorch",)
)
case = COLLECTION.case

ACTIVATIONS = {
    "sigmoid": torch.sigmoid,
    "logsigmoid": F.logsigmoid,
    "tanh": torch.tanh,
    "relu": F.relu,
    "gelu": F.gelu,
    "geluapprox": lambda x: F.gelu(x, approximate="tanh"),
    "silu": F.silu,
    "relu6": F.relu6,
    "hardsigmoid": F.hardsigmoid,
    "hardtanh": F.hardtanh,
    "hardswish": F.hardswish,
    "selu": F.selu,
    "mish": F.mish,
    "softplus": F.softplus,
    "softsign": F.softsign,
    "tanhshrink": F.tanhshrink,
    "leaky_relu_0.01": F.leaky_relu,
    "elu_1.5": lambda x: F.elu(x, 1.5),
    "celu_1.5": lambda x: F.celu(x, 1.5),
    "hardshrink_0.5": F.hardshrink,
    "softshrink_0.5": F.softshrink,
}


def layer(module, expected: nn.Module, **settings):
    """Functions of (x, weights…) for a layer and the layer of torch.nn that it stands for, with the same parameters."""
    names = [n for n, _ in expected.named_parameters()]

    def called(layer):
        def function(x, *weights):
            return torch.func.functional_call(layer, dict(zip(names, weights, strict=True)), (x,))

        return function

    return called(module), called(expected.double())


@case("attorch.act_layers")
def activations(m, draw):
    x = 3 * draw(300)
    for name, expected in ACTIVATIONS.items():
        for what, *row in agree(lambda x, name=name: m.ActFuncAutoGrad.apply(x, name, 0.0, True), expected, x):
            yield f"{name}, {what}", *row


@case("attorch.act_layers")
def activation_with_dropout(m, draw):
    x = draw(2000).abs() + 0.1
    y = m.ActFuncAutoGrad.apply(x, "relu", 0.25, True)
    kept = y != 0
    yield "kept elements", y[kept], x.double()[kept] / 0.75
    yield "share of kept elements", (kept.double().mean() - 0.75).abs() < 0.04, torch.tensor(True)


@case("attorch.dropout_layer")
def dropout(m, draw):
    x = (draw(2000).abs() + 0.1).requires_grad_()
    y = m.Dropout(0.25)(x)
    y.backward(torch.ones_like(y))
    kept = y.detach() != 0
    yield "kept elements", y.detach()[kept], x.detach().double()[kept] / 0.75
    yield "gradient", x.grad, kept.double() / 0.75
    yield "share of kept elements", (kept.double().mean() - 0.75).abs() < 0.04, torch.tensor(True)


@case("attorch.glu_layer")
def gated_linear_unit(m, draw):
    yield from agree(m.GLU(-1), lambda x: F.glu(x, -1), draw(7, 90))


@case("attorch.softmax_layers")
def softmax(m, draw):
    yield from agree(m.Softmax(-1), lambda x: x.softmax(-1), draw(7, 90))


@case("attorch.softmax_layers")
def log_softmax(m, draw):
    yield from agree(m.LogSoftmax(-1), lambda x: x.log_softmax(-1), draw(7, 90))


@case("attorch.softmax_layers")
def softmin(m, draw):
    yield from agree(m.Softmin(-1), lambda x: (-x).softmax(-1), draw(7, 90))


@case("attorch.layer_norm_layer")
def layer_norm(m, draw):
    yield from agree(*layer(m.LayerNorm(90, device="cpu"), nn.LayerNorm(90)), draw(11, 90), draw(90), draw(90))


@case("attorch.rms_norm_layer")
def rms_norm(m, draw):
    yield from agree(*layer(m.RMSNorm(90, eps=1e-5, device="cpu"), nn.RMSNorm(90, eps=1e-5)), draw(11, 90), draw(90))


@case("attorch.batch_norm_layer")
def batch_norm(m, draw):
    yield from agree(*layer(m.BatchNorm1d(5, device="cpu"), nn.BatchNorm1d(5)), draw(6, 5, 14), draw(5), draw(5))


@case("attorch.batch_norm_layer")
def batch_norm_evaluated(m, draw):
    yield from agree(
        *layer(m.BatchNorm2d(3, device="cpu").eval(), nn.BatchNorm2d(3).eval()),
        draw(2, 3, 5, 5),
        draw(3),
        draw(3),
        backward=False,
    )


@case("attorch.conv_layer")
def convolution(m, draw):
    yield from agree(
        *layer(m.Conv2d(4, 6, 3, padding=1, device="cpu"), nn.Conv2d(4, 6, 3, padding=1)),
        draw(2, 4, 9, 9),
        draw(6, 4, 3, 3),
        draw(6),
        precision=TF32,
    )


@case("attorch.pooling_layer")
def average_pooling(m, draw):
    yield from agree(m.AvgPool2d(2), nn.AvgPool2d(2), draw(2, 3, 8, 8), backward=False, precision=TF32)


@case("attorch.linear_layer")
def linear(m, draw):
    weight, bias = draw(24, 40), draw(24)
    mine = m.Linear(40, 24, device="cpu")
    with torch.no_grad():
        mine.weight.copy_(weight.T if mine.weight.shape == (40, 24) else weight)
        mine.bias.copy_(bias)
    yield from agree(mine, lambda x: x @ weight.double().T + bias, draw(30, 40), precision=TF32)


@case("attorch.cross_entropy_loss_layer")
def cross_entropy(m, draw):
    target = draw.integers(9, high=70)
    yield from agree(lambda x: m.CrossEntropyLoss()(x, target), lambda x: F.cross_entropy(x, target), draw(9, 70))


@case("attorch.cross_entropy_loss_layer")
def cross_entropy_weighted(m, draw):
    target, weight = draw.integers(9, high=70), draw.uniform(70, low=0.5)
    yield from agree(
        lambda x: m.CrossEntropyLoss(weight=weight)(x, target),
        lambda x: F.cross_entropy(x, target, weight.double()),
        draw(9, 70),
    )


@case("attorch.nll_loss_layer")
def negative_log_likelihood(m, draw):
    target, weight = draw.integers(9, high=70), draw.uniform(70, low=0.5)
    yield from agree(
        lambda x: m.NLLLoss(weight=weight)(x, target),
        lambda x: F.nll_loss(x, target, weight.double()),
        draw(9, 70).log_softmax(-1),
    )


@case("attorch.p_loss_layers")
def losses_of_differences(m, draw):
    target = draw(300)
    losses = {"L1": F.l1_loss, "MSE": F.mse_loss, "SmoothL1": F.smooth_l1_loss, "Huber": F.huber_loss}
    for name, expected in losses.items():
        loss = lambda x, name=name: getattr(m, f"{name}Loss")()(x, target)  # noqa: E731
        for what, *row in agree(loss, lambda x, expected=expected: expected(x, target.double()), draw(300)):
            yield f"{name}, {what}", *row


@case("attorch.multi_head_attention_kernels")
def attention(m, draw):
    for causal in (False, True):
        mask = torch.ones(128, 128, dtype=torch.bool).tril() if causal else torch.ones(128, 128, dtype=torch.bool)

        def expected(q, k, v, mask=mask):
            return (q @ k.mT * 0.3).masked_fill(~mask, float("-inf")).softmax(-1) @ v

        yield from agree(
            lambda q, k, v, causal=causal: m._attention.apply(q, k, v, causal, 0.3, False),
            expected,
            *(draw(1, 2, 128, 16) for _ in range(3)),
            precision=CHAIN,
        )
