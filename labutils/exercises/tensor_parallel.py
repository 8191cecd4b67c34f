"""Unit 23: an MLP whose weights are split over ranks, forward and backward, on integers and exactly."""

import torch

from ..gpu.links import BadLog, Mismatch
from ..gpu.rank_inputs import inputs, weights
from ..gpu.simulated_comm import replay
from ..spec.exercise import Case, PlainExercise, Points, register

UNIT = "23_many_gpus"

PIECES = ("w_up", "b_up", "w_down", "b_down")
GRADIENTS = ("dx", "dw_up", "db_up", "dw_down", "db_down")


# --- shard ---------------------------------------------------------------------------------------------------------


def shard(w_up, b_up, w_down, b_down, rank: int, world: int) -> tuple[torch.Tensor, ...]:
    each = w_up.shape[1] // world
    own = slice(rank * each, (rank + 1) * each)
    return w_up[:, own], b_up[own], w_down[own], b_down


def _wrong_pieces(rank: int, world: int) -> dict[str, tuple]:
    """Pieces that a mistake gives, by name of the mistake."""

    def own(count: int, at: int = rank) -> slice:
        return slice(at * (count // world), (at + 1) * (count // world))

    rows = "w_up is split by rows. Then a rank holds only a partial sum of each activation, and ReLU needs the whole."
    return {
        rows: (lambda w_up, b_up, w_down, b_down: (w_up[own(len(w_up))], None, None, None)),
        "w_down is split by columns. Its rows belong to the hidden columns of this rank: split the rows.": (
            lambda w_up, b_up, w_down, b_down: (None, None, w_down[:, own(w_down.shape[1])], None)
        ),
        "b_up is not split. It has one number for each hidden column: keep those of this rank.": (
            lambda w_up, b_up, w_down, b_down: (None, b_up, None, None)
        ),
        "b_down is split. Every rank computes all columns of the output, so it needs the whole b_down.": (
            lambda w_up, b_up, w_down, b_down: (None, None, None, b_down[own(len(b_down))])
        ),
        "b_down is divided or set to 0. Keep it whole: mlp adds it once, after the all-reduce.": (
            lambda w_up, b_up, w_down, b_down: (None, None, None, torch.zeros_like(b_down))
        ),
        "The columns are dealt out one by one. Give each rank contiguous columns.": (
            lambda w_up, b_up, w_down, b_down: (w_up[:, rank::world], b_up[rank::world], w_down[rank::world], None)
        ),
        "These are the columns of another rank. Rank 0 has the first ones.": (
            lambda w_up, b_up, w_down, b_down: (
                tuple(piece for piece in shard(w_up, b_up, w_down, b_down, (rank + 1) % world, world)[:3]) + (None,)
            )
        ),
        "These are the columns of another rank; ranks start at 0.": (
            lambda w_up, b_up, w_down, b_down: (
                tuple(piece for piece in shard(w_up, b_up, w_down, b_down, world - 1 - rank, world)[:3]) + (None,)
            )
        ),
        "It is not split: each rank keeps hidden / world columns of w_up, and the same rows of w_down.": (
            lambda w_up, b_up, w_down, b_down: (w_up, None, w_down, None)
        ),
    }


def _examine_shards(sizes, arguments, yours) -> tuple[str, str] | None:
    width, hidden, world = sizes["width"], sizes["hidden"], sizes["world"]
    if not isinstance(yours, (list, tuple)) or len(yours) != world:
        return "shards returned other results than one per rank", "Do not change the given code."
    for rank, pieces in enumerate(yours):
        expected = [piece.tolist() for piece in shard(*weights(width, hidden), rank, world)]
        if not isinstance(pieces, (list, tuple)) or len(pieces) != len(PIECES):
            return f"rank {rank}: shard did not return four tensors", "Return w_up, b_up, w_down, b_down of this rank."
        for k, name in enumerate(PIECES):
            if pieces[k] != expected[k]:
                found, right = _shape(pieces[k]), _shape(expected[k])
                what = "has other values than expected" if found == right else f"is {found}, expected {right}"
                advice = _shard_advice(k, pieces[k], rank, world, width, hidden)
                return f"rank {rank} of {world}: {name} {what}", advice
    return None


def _shape(values) -> str:
    shape = []
    while isinstance(values, (list, tuple)):
        shape.append(len(values))
        values = values[0] if values else None
    return f"({', '.join(map(str, shape))}{',' * (len(shape) == 1)})"


def _shard_advice(k: int, values, rank: int, world: int, width: int, hidden: int) -> str:
    for text, wrong in _wrong_pieces(rank, world).items():
        piece = wrong(*weights(width, hidden))[k]
        if piece is not None and piece.tolist() == values:
            return text
    return "Each rank takes hidden / world columns of w_up, these elements of b_up, and these rows of w_down."


def _draw_split(rng) -> dict[str, int]:
    world = rng.randrange(2, 5)
    return {"width": world * rng.randrange(1, 4), "hidden": world * rng.randrange(1, 6), "world": world}


register(
    PlainExercise(
        id=f"{UNIT}/shard",
        title="Split the weights of an MLP",
        entry="shards",
        points=Points(correct=1),
        examine=_examine_shards,
        cases=(
            Case("width 4, hidden 8, 2 ranks", {"width": 4, "hidden": 8, "world": 2}),
            Case("width 8, hidden 16, 4 ranks", {"width": 8, "hidden": 16, "world": 4}),
            Case("width 6, hidden 6, 3 ranks", {"width": 6, "hidden": 6, "world": 3}),
            Case("a single rank", {"width": 3, "hidden": 5, "world": 1}),
        ),
        draw=_draw_split,
    )
)


# --- forward and backward ------------------------------------------------------------------------------------------


def forward(x, w_up, b_up, w_down, b_down) -> torch.Tensor:
    return torch.relu(x @ w_up + b_up) @ w_down + b_down


def backward(x, w_up, b_up, w_down, b_down, dy) -> dict[str, torch.Tensor]:
    """Gradients of forward, by name."""
    before = x @ w_up + b_up
    dh = (dy @ w_down.T) * (before > 0)
    return {
        "dx": dh @ w_up.T, "dw_up": x.T @ dh, "db_up": dh.sum(0), "dw_down": torch.relu(before).T @ dy,
        "db_down": dy.sum(0),
    }  # fmt: skip


def _output_mistakes(x, world: int, whole: list, rank: int) -> list[tuple[torch.Tensor, str]]:
    pieces = [shard(*whole, r, world) for r in range(world)]
    parts = [torch.relu(x @ p[0] + p[1]) @ p[2] for p in pieces]
    bias = whole[3]
    return [
        (sum(parts) + world * bias, "b_down is added on every rank before the sum, so world times: add it afterwards."),
        (sum(parts), "b_down is missing: add it after the all-reduce."),
        (parts[rank] + bias, "That is this rank's part. The parts of all ranks must be added: one all_reduce."),
        (parts[rank], "That is this rank's part. The parts must be added by one all_reduce, and then b_down."),
        (sum((x @ p[0] + p[1]) @ p[2] for p in pieces) + bias, "ReLU is missing between the two products."),
        (sum(torch.relu(x @ p[0]) @ p[2] for p in pieces) + bias, "b_up is missing: add it before ReLU."),
        (torch.relu(sum((x @ p[0] + p[1]) @ p[2] for p in pieces)) + bias,
         "ReLU belongs between the two products, not behind the second."),
    ]  # fmt: skip


def _gradient_mistakes(name: str, x, dy, world: int, whole: list, rank: int) -> list[tuple[torch.Tensor, str]]:
    pieces = [shard(*whole, r, world) for r in range(world)]
    own = [backward(x, *p, dy)[name] for p in pieces]
    w_up, b_up, w_down, _ = pieces[rank]
    unmasked = dy @ w_down.T
    always = torch.relu(unmasked)
    found = {
        "dx": [
            (own[rank], "That is this rank's part: each rank's columns add to dx, so dx needs one all_reduce."),
            (sum(dy @ p[2].T @ p[0].T for p in pieces), "The derivative of ReLU is missing: 0 where its input is ≤ 0."),
            (sum(torch.relu(dy @ p[2].T) @ p[0].T for p in pieces),
             "ReLU is applied to the gradient. Its derivative depends on the input of ReLU in the forward pass."),
        ],
        "dw_up": [(x.T @ unmasked, "The derivative of ReLU is missing."), (x.T @ always, "ReLU is applied to the "
                  "gradient. Its derivative depends on the input of ReLU in the forward pass.")],
        "db_up": [(unmasked.sum(0), "The derivative of ReLU is missing.")],
        "dw_down": [((x @ w_up + b_up).T @ dy, "The left factor is the output of ReLU, not its input."),
                    (own[rank] * world, "A weight's gradient is needed on its own rank only: no all_reduce.")],
        "db_down": [(world * own[rank], "db_down is the same on all ranks: a sum over tokens, not over ranks."),
                    (own[rank] // world, "db_down is the same on all ranks: do not divide it.")],
    }  # fmt: skip
    return [*found[name], *(((sum(own), "It is summed over ranks. Each rank keeps the gradient of its own weights."),)
            if name != "dx" else ())]  # fmt: skip


def _collectives(name: str, outcome, tokens: int, width: int) -> tuple[str, str] | None:
    """What a pass communicates, where that is not one all-reduce of (tokens, width)."""
    report = replay(outcome)
    if found := report.deadlock():
        return f"{name}: {found[0]}", found[1]
    calls = [c for c in report.calls[0] if c.verb != "wait"]
    verbs = [c.verb for c in calls]
    if verbs == ["all_reduce"] and len(calls[0].values) == tokens * width:
        return None
    if not verbs:
        return f"{name}: the ranks do not communicate", "Their parts must be added: one all_reduce."
    if "all_gather" in verbs:
        return f"{name}: {len(verbs)} collectives, with an all_gather; one all_reduce is enough", (
            "ReLU works on this rank's hidden columns alone, and its rows of w_down need only these columns."
        )
    if len(verbs) > 1:
        return f"{name}: {len(verbs)} collectives; one all_reduce is enough", (
            "Only results to which every rank adds a part need one: y forward, dx backward."
        )
    return f"{name}: {verbs[0]} of {len(calls[0].values)} elements, expected one all_reduce of {tokens * width}", (
        "Sum the output of the last product, (tokens, width)."
    )


def _examine_mlp(sizes, arguments, yours) -> tuple[str, str] | None:
    tokens, width, hidden, world = (sizes[k] for k in ("tokens", "width", "hidden", "world"))
    if not isinstance(yours, dict) or set(yours) != {"forward", "backward"}:
        return "mlp_run returned something else than its two logs", "Do not change the given code."
    whole, (x, dy) = weights(width, hidden), inputs(tokens, width)
    try:
        for name in ("forward", "backward"):
            wrong_values = (_wrong_output if name == "forward" else _wrong_gradient)(
                yours[name], x, dy, whole, tokens, width, world
            )
            if problem := wrong_values or _collectives(name, yours[name], tokens, width):
                return problem
    except Mismatch as e:
        return e.symptom, e.advice
    except BadLog as e:
        return f"mlp_run returned no log of calls: {e}", "Do not change the given code."
    return None


def _results(outcome, world: int) -> list:
    """What the ranks returned; none of a rank that never did."""
    report = replay(outcome)
    found = outcome["results"]
    if not isinstance(found, (list, tuple)) or len(found) != world:
        raise BadLog("it has other results than one per rank")
    return [] if report.stuck else list(found)


def _wrong_output(outcome, x, dy, whole, tokens, width, world) -> tuple[str, str] | None:
    expected = forward(x, *whole)
    for rank, y in enumerate(_results(outcome, world)):
        if y != expected.tolist():
            texts = [t for wrong, t in _output_mistakes(x, world, whole, rank) if wrong.tolist() == y]
            shape = f": {_shape(y)}, expected ({tokens}, {width})" * (_shape(y) != f"({tokens}, {width})")
            return f"forward, rank {rank} of {world}: y is wrong{shape}", (
                texts or ["Compute relu(x w_up + b_up) w_down with this rank's pieces. What is missing?"]
            )[0]
    return None


def _wrong_gradient(outcome, x, dy, whole, tokens, width, world) -> tuple[str, str] | None:
    full = backward(x, *whole, dy)
    for rank, found in enumerate(_results(outcome, world)):
        if not isinstance(found, (list, tuple)) or len(found) != len(GRADIENTS):
            return f"backward, rank {rank}: not five gradients", f"Return {', '.join(GRADIENTS)}."
        expected = backward(x, *shard(*whole, rank, world), dy) | {"dx": full["dx"]}
        for name, values in zip(GRADIENTS, found, strict=True):
            right = expected[name].tolist()
            if values != right:
                mistakes = _gradient_mistakes(name, x, dy, world, whole, rank)
                texts = [text for wrong, text in mistakes if wrong.tolist() == values]
                shape = f": {_shape(values)}, expected {_shape(right)}" if _shape(values) != _shape(right) else ""
                return f"backward, rank {rank} of {world}: {name} is wrong{shape}", (
                    texts or ["Differentiate from the last operation to the first, with this rank's pieces."]
                )[0]
    return None


def _mlp_case(name: str, tokens: int, width: int, hidden: int, world: int) -> Case:
    return Case(name, {"tokens": tokens, "width": width, "hidden": hidden, "world": world})


register(
    PlainExercise(
        id=f"{UNIT}/mlp",
        title="An MLP on several ranks, forward and backward",
        entry="mlp_run",
        points=Points(correct=3),
        examine=_examine_mlp,
        cases=(
            _mlp_case("2 ranks, 3 tokens", 3, 4, 8, 2),
            _mlp_case("4 ranks, 2 tokens", 2, 8, 16, 4),
            _mlp_case("3 ranks, one token", 1, 6, 6, 3),
            _mlp_case("a single rank", 4, 3, 5, 1),
        ),
        draw=lambda rng: {"tokens": rng.randrange(1, 6)} | _draw_split(rng),
    )
)
