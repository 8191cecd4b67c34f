"""batch_invariant_ops: a persistent product, log softmax and means whose results do not depend on the batch."""

from ..case import TF32, Collection

COLLECTION = Collection(
    "batch_invariant_ops",
    "thinking-machines-lab",
    "f22b1fbe534b1fe045080f44a970a441caaf3c4f",
    "MIT",
    "batch_invariant_ops",
    bare=("batch_invariant_ops",),
)
case = COLLECTION.case


@case("batch_invariant_ops.batch_invariant_ops")
def matmul_persistent(m, draw):
    a, b, bias = draw(150, 90), draw(90, 140), draw(140)
    yield "result", m.matmul_persistent(a, b, bias), a.double() @ b.double() + bias, TF32


@case("batch_invariant_ops.batch_invariant_ops")
def log_softmax(m, draw):
    x = draw(7, 1500)
    yield "result", m.log_softmax(x), x.double().log_softmax(-1)


@case("batch_invariant_ops.batch_invariant_ops")
def means(m, draw):
    x = draw(5, 30, 20)
    for dim in range(3):
        yield f"of axis {dim}", m.mean_dim(x, dim), x.double().mean(dim)
