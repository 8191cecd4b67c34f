"""Unit 24: the loss of a language model and its gradient, in chunks of the vocabulary; and the memory that takes."""

import torch

from ..spec.exercise import (
    Bound,
    Case,
    Contract,
    Cost,
    KernelExercise,
    KnownMistake,
    PlainExercise,
    Points,
    array,
    out,
    register,
)
from ._attention import away, combined, stored

UNIT = "24_loss"
IGNORED = -100
"""The target of a row that does not count, as in PyTorch."""
CHUNK = 64
"""Columns of a chunk in the launcher, where the arrays are small."""

# --- memory --------------------------------------------------------------------------------------------------------


def peak_bytes(rows: int, width: int, vocabulary: int, chunk: int) -> tuple[int, int]:
    """Bytes for logits and gradients: by PyTorch's three matrices of 2-byte logits, and by chunks."""
    return 6 * rows * vocabulary, rows * (2 * chunk + 4 * width)


def _examine_peak(sizes, arguments, yours) -> tuple[str, str] | None:
    rows, width, vocabulary, chunk = (sizes[k] for k in ("rows", "width", "vocabulary", "chunk"))
    try:
        found = tuple(float(v) for v in yours)
        whole, chunked = found
    except (TypeError, ValueError):
        return f"peak_bytes returned {str(yours)[:40]}, not two numbers", "Return whole, chunked: two numbers of bytes."
    expected = peak_bytes(rows, width, vocabulary, chunk)
    if found == expected:
        return None
    if found == expected[::-1]:
        return "the two results are in the wrong order", "Return whole first, then chunked."
    logits, part, sums = 2 * rows * vocabulary, 2 * rows * chunk, 4 * rows * width
    if whole != expected[0]:
        hints = {
            logits: "Logits, their log-softmax and the gradient of the logits are in memory at the same time.",
            2 * logits: "Three matrices of this shape are in memory at the same time.",
            expected[0] // 2: "That counts elements. Each element has 2 bytes.",
            2 * expected[0]: "Each element of the three matrices has 2 bytes, not 4.",
            expected[0] + sums // 2: "dx is a result; count only the three matrices.",
        }
        hint = hints.get(whole, "Count three matrices of rows × vocabulary elements of 2 bytes.")
        return f"whole: {whole:,.0f} bytes, expected {expected[0]:,}", hint
    hints = {
        part: "The accumulators of dx are missing: rows × width elements of 4 bytes.",
        sums: "The logits of one chunk are missing.",
        part + sums // 2: "The accumulators of dx have 4 bytes per element.",
        2 * part + sums: "The logits of a chunk have 2 bytes per element, and exp overwrites them in place.",
        3 * part + sums: "Weights overwrite the logits of the chunk, so one matrix is enough.",
        rows * (chunk + width): "That counts elements.",
        part + 4 * width: "The accumulators have a row for each row of x.",
        -(-vocabulary // chunk) * part + sums: "All chunks use the same memory, one after another.",
    }
    hint = hints.get(chunked, "Add the logits of one chunk (2 bytes) and the accumulators of dx (4 bytes).")
    return f"chunked: {chunked:,.0f} bytes, expected {expected[1]:,}", hint


def _memory(name: str, rows: int, width: int, vocabulary: int, chunk: int) -> Case:
    return Case(name, {"rows": rows, "width": width, "vocabulary": vocabulary, "chunk": chunk})


register(
    PlainExercise(
        id=f"{UNIT}/peak_bytes",
        title="Memory for a loss",
        entry="peak_bytes",
        points=Points(correct=1),
        make=lambda **sizes: sizes,
        examine=_examine_peak,
        cases=(
            _memory("8192 rows, Llama 3 8B", 8192, 4096, 128_256, 16_384),
            _memory("one row", 1, 4096, 128_256, 16_384),
            _memory("GPT-2, chunks that do not divide the vocabulary", 4096, 768, 50_257, 8192),
            _memory("a single chunk", 100, 64, 1000, 1000),
        ),
        draw=lambda rng: {
            "rows": rng.randrange(1, 20_000),
            "width": rng.randrange(1, 10_000),
            "vocabulary": rng.randrange(1000, 300_000),
            "chunk": rng.randrange(1, 1000),
        },
    )
)

# --- the loss and its gradient -------------------------------------------------------------------------------------


def _targets(sizes, g) -> torch.Tensor:
    """Targets at the edges of chunks first, then random ones; about a fifth of the rows are ignored, but not row 0."""
    M, V = sizes["M"], sizes["V"]
    edges = torch.tensor([V - 1, 0, CHUNK - 1, CHUNK, V // 2]).clamp(max=V - 1)
    targets = torch.randint(0, V, (M,), generator=g)
    count = min(M, len(edges))
    targets[:count] = edges[:count]
    ignored = torch.rand(M, generator=g) < 0.2
    ignored[0] = False
    return targets.masked_fill(ignored, IGNORED).double()


def _parts(x, w, targets):
    """(logits, valid rows, targets that can index)."""
    targets = targets.long()
    return x @ w.T, targets != IGNORED, targets.clamp(min=0)


def _result(z, l_scale, w, valid, target, count=None, use=None):
    """loss and dx from logits; `l_scale` multiplies softmax, `use` are the logits of the targets."""
    count = valid.sum() if count is None else count
    use = z.gather(1, target[:, None])[:, 0] if use is None else use
    rows = torch.logsumexp(z, 1) - use
    dx = (l_scale * torch.softmax(z, 1) @ w - w[target]) / count
    return {"loss": (rows * valid).sum()[None] / count, "dx": dx * valid[:, None]}


def loss(x, w, targets):
    z, valid, target = _parts(x, w, targets)
    return _result(z, 1, w, valid, target)


def _magnitude(x, w, targets):
    """M of the error model: logits and their weights are rounded to the arrays' format, sums are fp32."""
    z, valid, target = _parts(x, w, targets)
    n, u, count = w.shape[0] + w.shape[1], stored(x, w), valid.sum()
    P, summed = torch.softmax(z, 1), x.abs() @ w.abs().T
    of_target = target[:, None]
    moved = torch.clamp(P * torch.expm1((2 * u * z.abs()).clamp(max=50)), max=1)
    at_least = torch.maximum(P, 2.0**-14 * P.amax(1, keepdim=True))
    z_t, lse = z.gather(1, of_target)[:, 0].abs(), torch.logsumexp(z, 1).abs()
    rows = (P * summed).sum(1) + summed.gather(1, of_target)[:, 0] + lse + z_t + 1
    rounded = moved.sum(1) + u * z_t
    expected = P @ w
    spread = away((2 * P * summed)[None], w[None], expected[None])[0]
    shifted = away(moved[None], w[None], expected[None])[0]
    sums = P @ w.abs() + w[target].abs() + spread
    return {
        "loss": combined(n, (rows * valid).sum()[None] / count, (rounded * valid).sum()[None] / count),
        "dx": combined(n, sums / count, (2 * u * at_least @ w.abs() + shifted) / count) * valid[:, None],
    }


def _walk(x, w, targets, rescale_l=True, rescale_acc=True, restart=False, per_chunk=False):
    """The result of a loop over chunks that forgets to rescale, or starts anew in each chunk."""
    z, valid, target = _parts(x, w, targets)
    m = torch.full((len(x),), -torch.inf, dtype=x.dtype)
    total, acc = torch.zeros_like(m), torch.zeros_like(x)
    for start in range(0, w.shape[0], CHUNK):
        part = z[:, start : start + CHUNK]
        new = part.amax(1) if per_chunk else torch.maximum(m, part.amax(1))
        factor = torch.exp(m - new)
        p = torch.exp(part - new[:, None])
        total = p.sum(1) + (0 if restart else total * (factor if rescale_l else 1))
        acc = acc * (factor[:, None] if rescale_acc else 1) + p @ w[start : start + CHUNK]
        m = new
    rows = m + torch.log(total) - z.gather(1, target[:, None])[:, 0]
    dx = (acc / total[:, None] - w[target]) / valid.sum()
    return {"loss": (rows * valid).sum()[None] / valid.sum(), "dx": dx * valid[:, None]}


def _with_target(place):
    """The loss with other logits in the place of the targets': `place(z, target)`."""

    def compute(x, w, targets):
        z, valid, target = _parts(x, w, targets)
        return _result(z, 1, w, valid, target, use=place(z, target))

    return compute


def _within_chunk(z, target):
    """The logit at the target's place within its chunk, in the last chunk that has such a column."""
    place = target % CHUNK
    last = (z.shape[1] - 1 - place) // CHUNK * CHUNK
    return z.gather(1, (place + last)[:, None])[:, 0]


def _only_last(z, target):
    start = (z.shape[1] - 1) // CHUNK * CHUNK
    return torch.where(target >= start, z.gather(1, target[:, None])[:, 0], 0.0)


def _all_rows(x, w, targets):
    z, valid, target = _parts(x, w, targets)
    return _result(z, 1, w, valid, target, count=len(x))


def _nothing_ignored(x, w, targets):
    """Rows to ignore count with target 0."""
    z, valid, target = _parts(x, w, targets)
    return _result(z, 1, w, torch.ones_like(valid), target, count=valid.sum())


def _ignored_without_logit(x, w, targets):
    """The loss of rows to ignore counts, and no logit is subtracted: none was stored. dx is right."""
    z, valid, target = _parts(x, w, targets)
    more = (torch.logsumexp(z, 1) * ~valid).sum() / valid.sum()
    right = loss(x, w, targets)
    return right | {"loss": right["loss"] + more}


def _dx(change):
    """`change(dx of the right result, x, w, targets, valid)`; the loss is right."""

    def compute(x, w, targets):
        right = loss(x, w, targets)
        _, valid, target = _parts(x, w, targets)
        return right | {"dx": change(right["dx"], x, w, target, valid[:, None])}

    return compute


def _of_loss(change):
    """`change(loss of the right result, x, w, targets)`; dx is right."""

    def compute(x, w, targets):
        right = loss(x, w, targets)
        z, valid, target = _parts(x, w, targets)
        return right | {"loss": (change(z, target) * valid).sum()[None] / valid.sum()}

    return compute


def _padded(x, w, targets):
    """Lanes past the last column of the last chunk count with logit 0."""
    z, valid, target = _parts(x, w, targets)
    lanes = torch.nn.functional.pad(z, (0, -z.shape[1] % CHUNK))
    share = torch.exp(torch.logsumexp(z, 1) - torch.logsumexp(lanes, 1))[:, None]
    right = _result(z, share, w, valid, target)
    more = ((torch.logsumexp(lanes, 1) - torch.logsumexp(z, 1)) * valid).sum() / valid.sum()
    return {"loss": right["loss"] + more, "dx": right["dx"]}


def _mistake(sentence: str, compute, kind: str = "wrong-formula") -> KnownMistake:
    return KnownMistake(kind, sentence, compute)


KNOWN_MISTAKES = (
    _mistake(
        "l and acc are not rescaled when the maximum grows", lambda **i: _walk(**i, rescale_l=False, rescale_acc=False)
    ),
    _mistake(
        "l is not rescaled when the maximum grows: multiply it by the factor", lambda **i: _walk(**i, rescale_l=False)
    ),
    _mistake(
        "dx is not rescaled when the maximum grows: store the factor exp(m − m_new)",
        lambda **i: _walk(**i, rescale_acc=False),
    ),
    _mistake("l counts only the last chunk", lambda **i: _walk(**i, restart=True), "missing-accumulation"),
    _mistake(
        "the maximum is that of each chunk alone, and nothing keeps the largest one",
        lambda **i: _walk(**i, per_chunk=True, rescale_l=False, rescale_acc=False),
    ),
    _mistake("{name} divides by the number of all rows: divide by `count`, the rows that are not ignored", _all_rows),
    _mistake("rows whose target is −100 are not ignored", _nothing_ignored),
    _mistake("{name} counts the rows whose target is −100: their share is 0", _ignored_without_logit),
    _mistake(
        "the logit of the target comes from a later chunk: store it only where the target's chunk is",
        _with_target(_within_chunk),
    ),
    _mistake(
        "the target is compared with columns of the chunk: compare it with start + column, as it counts all words",
        _of_loss(lambda z, t: torch.logsumexp(z, 1) - torch.where(t < CHUNK, z.gather(1, t[:, None])[:, 0], 0.0)),
    ),
    _mistake("the logit of the target is kept only if the target is in the last chunk", _with_target(_only_last)),
    _mistake("each lane past the end adds exp(0 − m): load logits past `width` as -inf", _padded, "padded-lanes"),
    _mistake(
        "loss leaves out the maximum: lse = m + log(l)",
        _of_loss(lambda z, t: torch.logsumexp(z - z.amax(1, keepdim=True), 1) - z.gather(1, t[:, None])[:, 0]),
    ),
    _mistake("loss has the wrong sign", _of_loss(lambda z, t: z.gather(1, t[:, None])[:, 0] - torch.logsumexp(z, 1))),
    _mistake("loss leaves out the logit of the target", _of_loss(lambda z, t: torch.logsumexp(z, 1))),
    _mistake(
        "loss adds the logit of the target: subtract it",
        _of_loss(lambda z, t: torch.logsumexp(z, 1) + z.gather(1, t[:, None])[:, 0]),
    ),
    _mistake(
        "loss leaves out the logarithm: lse = m + log(l)",
        _of_loss(
            lambda z, t: z.amax(1) + torch.exp(z - z.amax(1, keepdim=True)).sum(1) - z.gather(1, t[:, None])[:, 0]
        ),
    ),
    _mistake(
        "dx leaves out the row of w of the target: subtract it", _dx(lambda dx, x, w, t, v: dx + w[t] * v / v.sum())
    ),
    _mistake(
        "dx adds the row of w of the target: subtract it", _dx(lambda dx, x, w, t, v: dx + 2 * w[t] * v / v.sum())
    ),
    _mistake("dx has the wrong sign", _dx(lambda dx, x, w, t, v: -dx)),
    _mistake("dx is not divided by `count`", _dx(lambda dx, x, w, t, v: dx * v.sum())),
    _mistake(
        "dx divides only the weights' part by `count`", _dx(lambda dx, x, w, t, v: dx + w[t] * v / v.sum() - w[t] * v)
    ),
    _mistake(
        "dx of ignored rows is not 0",
        _dx(lambda dx, x, w, t, v: _nothing_ignored(x, w, torch.where(v[:, 0], t, IGNORED))["dx"]),
    ),
    _mistake("dx is not divided by l", _dx(lambda dx, x, w, t, v: _undivided(x, w, t, v))),
)


def _undivided(x, w, target, valid):
    z = x @ w.T
    p = torch.exp(z - z.amax(1, keepdim=True))
    return (p @ w - w[target]) * valid / valid.sum()


def _library(x, w, targets):
    x = x.detach().requires_grad_()
    found = torch.nn.functional.cross_entropy(x @ w.T, targets.long())
    found.backward()
    return found.detach().float().reshape(1), x.grad


def _of(name: str, M: int, V: int, D: int, *arguments, **options) -> Case:
    return Case(f"{name}{M} rows, {V} words, width {D}", {"M": M, "V": V, "D": D}, *arguments, **options)


register(
    KernelExercise(
        id=f"{UNIT}/linear_cross_entropy",
        title="Loss and gradient without logits",
        entry="linear_cross_entropy",
        points=Points(
            correct=5,
            bounds=(
                Bound(
                    "scratch memory, relative to inputs and outputs",
                    "scratch_bytes",
                    per="compulsory_bytes",
                    at_most=0.3,
                ),
                Bound("bytes moved, relative to inputs and outputs", "moved_bytes", per="compulsory_bytes", at_most=12),
            ),
        ),
        arguments={
            "x": array("M", "D"),
            "w": array("V", "D", fill={"wide": "normal"}),  # logits are kept in fp16, which two wide ranges would leave
            "targets": array("M", fill=_targets, dtype="int32"),
            "loss": out(dtype="float32"),
            "dx": out("M", "D"),
        },
        reference=loss,
        magnitude=_magnitude,
        contract=Contract(dtype="float16", operands="float16", terms=lambda sizes: sizes["V"] + sizes["D"]),
        cost=lambda sizes, item: Cost(
            item * sizes["D"] * (sizes["M"] + sizes["V"]) + 4 * sizes["M"],
            item * sizes["M"] * sizes["D"] + 4,
            4 * sizes["M"] * sizes["V"] * sizes["D"],
        ),
        cases=(
            _of("one chunk, ", 3, CHUNK, 16, "position"),
            _of("", 1, CHUNK + 1, 16),
            _of("", 7, 2 * CHUNK, 32),
            _of("2³² elements apart, ", 12, 3 * CHUNK - 1, 32, "position", "far"),
            _of("", 33, 2 * CHUNK + 5, 16),
            _of("logits far below zero, ", 6, 150, 16, "opposed"),
            _of("logits up to a thousand, ", 9, 140, 24, "integers"),
            _of("values of all sizes, ", 8, 100, 16, "wide"),
            _of("bf16, ", 10, 200, 32, dtype="bfloat16"),
            _of("padded rows, ", 9, 131, 40, layout="padded"),
            _of("not aligned, ", 5, 97, 32, layout="offset"),
            _of("many words, ", 33, 645, 40),
        ),
        draw=lambda rng: {
            "M": rng.randrange(1, 40),
            "V": rng.randrange(2, 400),
            "D": 8 * rng.randrange(1, 9),
        },
        tiny=Case("3 rows, 4 words, width 8", {"M": 3, "V": 4, "D": 8}, "integers"),
        bench={"M": 4096, "V": 65_536, "D": 4096},
        library=_library,
        known_mistakes=KNOWN_MISTAKES,
    )
)
