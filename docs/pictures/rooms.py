"""Draw docs/pictures/rooms.svg: the rooms of the code and what each imports.

    python docs/pictures/rooms.py

The rooms and the arrows come from the tree, by the reader of imports in tests/test_layout.py. Only the
horizontal positions and the short texts in `ROOMS` are written by hand. A room's floor is one above the highest room
that it imports. An arrow A → C is left out where A → B → C is drawn. tests/docs/test_rooms.py
checks that the file is up to date.
"""

import re
import sys
from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
SVG = Path(__file__).with_suffix(".svg")
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

import test_layout  # noqa: E402

from grader.__main__ import VERBS  # noqa: E402

ROOMS = {
    "labutils.environment": (1.9, "where compiled code is kept"),
    "labutils.support": (4.5, "versions that work"),
    "labutils.__main__": (8.8, "the doctor"),
    "labutils.language": (7.2, "messages in other languages"),
    "labutils.gpu": (6.8, "GPUs as numbers"),
    "labutils.plots": (2.7, "data in, figure out"),
    "labutils.spec": (2.1, "what an exercise is"),
    "labutils.cuda": (7.6, "CUDA C++ as text and binary"),
    "labutils.exercises": (3.5, "the course's exercises"),
    "labutils.backends": (7.0, "interpreter, emulator, GPU"),
    "labutils.check": (6.4, "from a run to a verdict"),
    "labutils.timing": (4.8, "stopwatch and ceilings"),
    "labutils.lessons": (3.5, "what single units show"),
    "labutils.study": (9.0, "a kernel explained, hints"),
    "grader.course": (7.1, "sources to notebooks"),
    "grader.marks": (5.9, "verdict to points"),
    "grader.judge": (1.2, "text to verdicts"),
    "grader.intake": (1.2, "exports to sound notebooks"),
    "grader.gradebook": (4.7, "nbgrader's, and our journal"),
    "grader.execute": (7.0, "sandboxed notebook runs"),
    "grader.reports": (1.2, "pages and tables"),
    "grader.redteam": (4.4, "attacks on the judge"),
    "grader.engines": (7.1, "where the work is done"),
    "grader.grading": (7.2, "one run over a class"),
    "grader.commands": (8.2, "the larger verbs"),
    "grader.demo": (5.9, "a sample class"),
    "grader.__main__": (8.6, "python -m grader VERB"),
    "bench": (1.6, "times on a GPU, beside libraries"),
}
"""Every room: the center of its box, in inches from the left edge, and what it is for."""

WIDTH, HEIGHT, FLOOR = 2.15, 0.5, 0.92
"""Size of a box, and the distance between floors, in inches."""

COLORS = {"labutils": "#d9e8f6", "grader": "#fbe3cd", "bench": "#e3e3e3"}


def room(module: str) -> str:
    """The room of a module; a package's own `__init__.py` is not in a room."""
    parts = module.split(".")
    return "bench" if parts[0] == "bench" else ".".join(parts[:2])


@cache
def imports() -> dict[str, set[str]]:
    """What each room imports, by room; verbs that `python -m grader` imports by name count as imports."""
    graph: dict[str, set[str]] = {}
    known = test_layout.modules(ROOT)
    pairs = [(arrow.module, arrow.target) for arrow in test_layout.arrows(known)]
    pairs += [("grader.__main__", module) for module, _ in VERBS.values()]
    for name in known:
        graph.setdefault(room(name), set())
    for module, target in pairs:
        if room(module) != room(target):
            graph[room(module)].add(room(target))
    faces = {"labutils", "grader"}
    return {name: targets - faces for name, targets in graph.items() if name not in faces}


@cache
def below(name: str) -> frozenset[str]:
    """Every room that a room imports, directly or through others."""
    return frozenset().union(*({target} | below(target) for target in imports()[name]))


@cache
def floor(name: str) -> int:
    return 1 + max((floor(target) for target in imports()[name]), default=-1)


def drawn() -> list[tuple[str, str]]:
    """The arrows of the picture: imports A → C for which no path A → B → C exists."""
    return [
        (name, target)
        for name, targets in sorted(imports().items())
        for target in sorted(targets)
        if not any(target in below(other) for other in targets - {target})
    ]


def shown(svg: str) -> tuple[set[str], set[tuple[str, str]]]:
    """The rooms and the arrows that a picture holds."""
    arrows = re.findall(r'id="arrow:([^"]+)"', svg)
    return set(re.findall(r'id="room:([^"]+)"', svg)), {tuple(arrow.split(":")) for arrow in arrows}


def middle(name: str) -> np.ndarray:
    return np.array([ROOMS[name][0], floor(name) * FLOOR + 0.78])


def curves(start: np.ndarray, end: np.ndarray):
    """Bézier curves from one point down to another, the straight line first; (n, 2) points of each, in inches."""
    t = np.linspace(0, 1, 60)[:, None]
    for side in (0, 0.3, -0.3, 0.6, -0.6, 0.9, -0.9, 1.3, -1.3, 1.8, -1.8, 2.4, -2.4):
        bend = np.array([side, 0])
        first, second = start + (end - start) / 4 + bend, start + (end - start) * 3 / 4 + bend
        curve = (1 - t) ** 3 * start + 3 * t * (1 - t) ** 2 * first + 3 * t**2 * (1 - t) * second + t**3 * end
        yield (start, first, second, end), curve


def ports(arrows: list[tuple[str, str]], here: int) -> dict[tuple[str, str], float]:
    """Horizontal position of each arrow's start (`here` = 0) or end (1), in inches: no two on a box coincide."""
    places = {}
    for name in ROOMS:
        own = sorted((a for a in arrows if a[here] == name), key=lambda a: middle(a[1 - here])[0])
        for i, arrow in enumerate(own):
            places[arrow] = ROOMS[name][0] + WIDTH * 0.7 * ((i + 1) / (len(own) + 1) - 0.5)
    return places


def route(start: np.ndarray, end: np.ndarray, others: list[np.ndarray]):
    """Control points of the straightest curve that meets no other box."""
    margin = np.array([WIDTH / 2 + 0.06, HEIGHT / 2 + 0.06])
    for points, curve in curves(start, end):
        if not any((np.abs(curve - box) < margin).all(axis=1).any() for box in others):
            assert all(upper[1] >= lower[1] for upper, lower in pairwise(curve)), "arrows lead down"
            return points
    raise ValueError(f"every curve from {start} to {end} crosses a box: change the positions in ROOMS")


def draw(path: Path = SVG) -> None:
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot as plt
    from matplotlib.patches import FancyArrowPatch, FancyBboxPatch
    from matplotlib.path import Path as Curve

    plt.rcParams["svg.hashsalt"] = "rooms"  # the same tree gives the same file
    size = np.array([10.3, (1 + max(map(floor, ROOMS))) * FLOOR + 0.48])
    figure = plt.figure(figsize=size, facecolor="white")
    axes = figure.add_axes([0, 0, 1, 1], xlim=(0, size[0]), ylim=(0, size[1]))
    axes.axis("off")

    arrows = drawn()
    begins, ends = ports(arrows, 0), ports(arrows, 1)
    for arrow in arrows:
        others = [middle(name) for name in ROOMS if name not in arrow]
        start = np.array([begins[arrow], middle(arrow[0])[1] - HEIGHT / 2])
        end = np.array([ends[arrow], middle(arrow[1])[1] + HEIGHT / 2 + 0.02])
        curve = Curve(route(start, end, others), [Curve.MOVETO, Curve.CURVE4, Curve.CURVE4, Curve.CURVE4])
        style = {"arrowstyle": "-|>", "mutation_scale": 11, "linewidth": 1.1, "color": "#555555"}
        axes.add_patch(FancyArrowPatch(path=curve, gid="arrow:" + ":".join(arrow), shrinkA=0, shrinkB=0, **style))

    for name, (_, text) in ROOMS.items():
        x, y = middle(name)
        package, _, short = name.partition(".")
        corner = (x - WIDTH / 2 + 0.05, y - HEIGHT / 2 + 0.05)
        box = FancyBboxPatch(
            corner, WIDTH - 0.1, HEIGHT - 0.1, boxstyle="round,pad=0.05", fc=COLORS[package], ec="#444444"
        )
        box.set_gid(f"room:{name}")
        axes.add_patch(box)
        axes.text(x, y + 0.1, short or package, ha="center", va="center", fontsize=11, fontweight="bold")
        axes.text(x, y - 0.12, text, ha="center", va="center", fontsize=9)

    for i, (package, color) in enumerate(COLORS.items()):
        axes.add_patch(
            FancyBboxPatch((0.3 + 1.3 * i, 0.14), 0.2, 0.14, boxstyle="round,pad=0.02", fc=color, ec="#444444")
        )
        axes.text(0.6 + 1.3 * i, 0.21, package + "/", va="center", fontsize=10)
    note = 'An arrow says "imports". It is left out where other arrows lead to the same room.'
    axes.text(4.1, 0.21, note, va="center", fontsize=9)
    figure.savefig(path, metadata={"Date": None, "Creator": None})
    plt.close(figure)


if __name__ == "__main__":
    draw()
    print(f"{SVG.relative_to(ROOT)}: {len(ROOMS)} rooms, {len(drawn())} arrows")
