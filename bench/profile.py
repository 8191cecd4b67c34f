"""Unit 25 on a GPU: the three repairs one after another, and wide accesses beside narrow ones, PyTorch and a copy.

python -m bench.profile [--json FILE]
"""

import functools
import sys
import tempfile

from bench.common import Table, fail, run
from grader.course.mutants import mutants
from grader.course.solutions import load_text, solution_text

UNIT = "25_profile"
SIDE = 8192
WIDE = 1 << 27
STEPS = ("as_given", "first_step", "second_step")

_folder = tempfile.TemporaryDirectory()


def variant(exercise: str, name: str | None = None):
    """The exercise's function: the solution, or a correct variant from its mutants."""
    text = next((m.text for m in mutants(f"{UNIT}/{exercise}") if m.name == name), "")
    return getattr(load_text(solution_text(UNIT), _folder.name, text), exercise)


def measure(table: Table) -> None:
    measure_steps(table)
    measure_widths(table)


def measure_steps(table: Table) -> None:
    import torch

    ring = [(torch.randn(SIDE, SIDE, device="cuda"), torch.empty(SIDE, SIDE, device="cuda")) for _ in range(2)]
    functions = {"solution": variant("interleave")} | {name: variant("interleave", name) for name in STEPS}
    expected = torch.empty_like(ring[0][1])
    functions["solution"](ring[0][0], expected)
    for name, function in functions.items():
        function(*ring[0])
        if not torch.allclose(ring[0][1], expected, rtol=1e-5, atol=1e-6):
            fail(f"interleave, {name}, is wrong")
    rings = {name: [functools.partial(f, *data) for data in ring] for name, f in functions.items()}
    table.compare(f"interleave {SIDE} x {SIDE}", 8 * SIDE * SIDE, rings)


def measure_widths(table: Table) -> None:
    import torch

    half = {"device": "cuda", "dtype": torch.float16}
    ring = [(torch.randn(WIDE, **half), 1.5, torch.empty(WIDE, **half)) for _ in range(2)]
    functions = {
        "16 bytes": variant("brighten"),
        "8 bytes": variant("brighten", "two_of_eight"),
        "2 bytes": variant("brighten", "one_by_one"),
        "torch.mul": lambda x, scale, out: torch.mul(x, scale, out=out),
    }
    rings = {name: [functools.partial(f, *data) for data in ring] for name, f in functions.items()}
    table.compare(f"brighten {WIDE} fp16", 4 * WIDE, rings)


def main() -> int:
    return run(__doc__, "python -m bench.profile", measure, lambda table: print("Nothing to tune."))


if __name__ == "__main__":
    sys.exit(main())
