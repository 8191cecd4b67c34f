"""Unit 14, persistent kernels: choosing a configuration in few trials, on simulated kernels."""

from __future__ import annotations

from ..gpu.tuning import SPACE, DoesNotFit, SimulatedKernel
from ..spec.exercise import Case, PlainExercise, Points, register

UNIT = "14_matmul_triton_persistent"
TRIALS, CLOSE = 20, 1.05
"""Configurations that may be timed, of 384, and how much longer than the best time the chosen one may take."""


def _arguments(seed: int) -> dict:
    return {"kernel": SimulatedKernel(seed), "space": dict(SPACE), "trials": TRIALS}


def _problem(yours) -> tuple[str, str] | None:
    """Why the result is no configuration."""
    if not isinstance(yours, dict) or set(yours) != set(SPACE):
        return f"tune returned {str(yours)[:60]}", f"Return a dict with {', '.join(SPACE)}."
    for name, value in yours.items():
        if value not in SPACE[name]:
            return f"{name} is {value!r}, which is not in the space", f"Choose one of {SPACE[name]}."
    return None


def _examine(sizes, arguments, yours) -> tuple[str, str] | None:
    kernel: SimulatedKernel = arguments["kernel"]
    if problem := _problem(yours):
        return problem
    tried = len(kernel.tried)
    if tried > TRIALS:
        return f"{tried} trials; {TRIALS} are allowed", (
            "Keep the times that you know, and do not time a configuration twice. Tune one value at a time."
        )
    if not tried:
        return "nothing was timed", "kernel.seconds(**config) times a configuration."
    try:
        took = kernel.truth(**yours) / kernel.best()
    except DoesNotFit:
        return "the chosen configuration does not fit", "One that does not fit takes infinitely long."
    if took <= CLOSE:
        return None
    message = f"the chosen configuration takes {took:.2f} × the best time; at most {CLOSE} × is allowed"
    return message, _why(kernel, yours)


def _why(kernel: SimulatedKernel, yours: dict) -> str:
    """What to try, for a configuration that fits but is slow."""
    timed = []
    for config in kernel.tried:
        try:
            timed.append((kernel.truth(**config), config))
        except DoesNotFit:
            continue
    if timed and min(timed, key=lambda pair: pair[0])[0] < 0.99 * kernel.truth(**yours):
        return "You timed a faster one. Return the fastest, not the last or the slowest."
    untouched = [name for name in SPACE if len({c.get(name) for c in kernel.tried}) < len(SPACE[name])]
    if untouched:
        return f"Not all values of {untouched[0]} were timed. Tune one value at a time, and keep the best of each."
    return (
        "All values were timed, but some only where they do not fit. Start where everything else leaves room: few "
        "stages, small tiles, many warps."
    )


register(
    PlainExercise(
        id=f"{UNIT}/tune",
        title="A good configuration in 20 trials",
        entry="tune",
        points=Points(correct=2),
        make=_arguments,
        examine=_examine,
        cases=tuple(
            Case(f"problem {k}", {"seed": seed}) for k, seed in enumerate((1, 0, 17, 45, 61, 133, 186, 300), 1)
        ),
        draw=lambda rng: {"seed": rng.randrange(1000, 10**6)},
    )
)
