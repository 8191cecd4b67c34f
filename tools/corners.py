"""Machines on which something is missing, old or new, and notebooks run there.

    python -m tools.corners colab oldest newest cuda      make each environment, run unit 00 in it, say the times

`colab` has this environment's packages, as a Colab session has its own before the first cell, and then the wheel of
labutils. The others are new environments with packages from the package index: `oldest` and `newest` with PyTorch's CPU
build, `cuda` with the one from PyPI (2.9 GB). tests/labutils/test_corners.py uses environments in which a package is
really absent: folders of links to this one's packages, less those.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

DRIVER = """
import sys
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
shell.run_line_magic("colors", "nocolor")
for cell in sys.stdin.read().split("\\0"):
    shell.run_cell(cell)
"""
"""Runs cells as a notebook does: an error ends its cell, not the others."""

PICTURE = "lab.coalescing(lambda k: 4 * k)"
WIDGET = "lab.widgets.waves()"
PLAIN = """
def number_of_programs(n, block):
    return -(-n // block)
lab.check("00_start/number_of_programs")
"""
TRITON = """
import triton, triton.language as tl
@triton.jit
def scale_kernel(x_ptr, factor, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + offs, tl.load(x_ptr + offs, mask=offs < n) * factor, mask=offs < n)
def scale(x, factor, out):
    scale_kernel[(triton.cdiv(x.numel(), 1024),)](x, factor, out, x.numel(), BLOCK=1024)
lab.check("00_start/scale")
"""
CUDA = """%%cuda
__global__ void scale_cuda_kernel(const float* x, float factor, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = factor * x[i];
}"""
LAUNCHER = """
def scale_cuda(x, factor, out):
    scale_cuda_kernel[-(-x.numel() // 256), 256](x, factor, out, x.numel())
lab.tiny("00_start/scale_cuda")
lab.check("00_start/scale_cuda")
"""


def environment_without(folder: Path, *missing: str) -> Path:
    """The Python of a new environment in `folder` with the packages of this one, less those whose files in
    site-packages begin with one of `missing`."""
    packages = folder / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"
    packages.mkdir(parents=True)
    for entry in Path(sysconfig.get_path("purelib")).iterdir():
        if not entry.name.startswith(("__", "labutils", *missing)):
            (packages / entry.name).symlink_to(entry)
    base = Path(sys.base_prefix) / "bin"
    (folder / "pyvenv.cfg").write_text(f"home = {base}\ninclude-system-site-packages = false\n")
    (folder / "bin").mkdir()
    (folder / "bin" / "python").symlink_to(Path(sys.executable).resolve())
    return folder / "bin" / "python"


def path_without(folder: Path, *missing: str) -> str:
    """A PATH with this machine's programs, less those whose names begin with one of `missing`."""
    folder.mkdir()
    for place in os.environ["PATH"].split(os.pathsep):
        for program in Path(place).glob("*") if Path(place).is_dir() else ():
            if not program.name.startswith(missing) and not (folder / program.name).exists():
                (folder / program.name).symlink_to(program.resolve())
    return str(folder)


def notebook(
    cells: Sequence[str],
    home: Path,
    python: Path | str = sys.executable,
    inside: Sequence[str] = (),
    source: Path | None = ROOT,
    **variables,
) -> str:
    """What a learner sees of these cells behind `lab.setup()`, in a home folder; `inside` is a command that runs the
    rest. `source`: where labutils is imported from; None: where it is installed. A variable that is None is taken away.
    """
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("GPULAB", "XDG", "TRITON", "MPL"))}
    kept |= {"IPYTHONDIR": str(home.parent / "ipython")}
    kept |= {"HOME": str(home), "PYTHONPATH": source and str(source), "CUDA_VISIBLE_DEVICES": ""}
    kept = {k: str(v) for k, v in (kept | variables).items() if v is not None}
    text = "\0".join(["import labutils as lab\nlab.setup()", *cells])
    command = [*inside, str(python), "-c", DRIVER]
    done = subprocess.run(command, input=text, env=kept, capture_output=True, text=True, timeout=400, cwd=home)
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    return said


def room(megabytes: float, *folders: Path) -> list[str]:
    """A command that runs another with folders of so much room each, empty at first."""
    disk = [part for f in folders for part in ("--size", str(int(megabytes * 2**20)), "--tmpfs", str(f))]
    return ["bwrap", "--dev-bind", "/", "/", *disk]


def read_only(folder: Path) -> list[str]:
    """A command that runs another with a folder in which nothing can be written, not even by root."""
    return ["bwrap", "--dev-bind", "/", "/", "--ro-bind", str(folder), str(folder)]


def namespaces() -> bool:
    """Can this machine run bubblewrap?"""
    command = ["bwrap", "--dev-bind", "/", "/", "true"]
    return bool(shutil.which("bwrap")) and subprocess.run(command, capture_output=True).returncode == 0


def errors(said: str) -> list[str]:
    """What looks like a failure of ours and not like a sentence."""
    return re.findall(r"^.*(?:Traceback|\bNameError|UsageError|Exception ignored|Warning:).*$", said, re.MULTILINE)


# --- environments of their own ---------------------------------------------------------------------------------------

CPU_INDEX = "https://download.pytorch.org/whl/cpu"


@dataclass(frozen=True)
class Corner:
    """An environment: which Python, if not this one; what pip installs beside labutils; is PyTorch the CPU build?"""

    python: str = ""
    packages: tuple[str, ...] = ()
    cpu: bool = True


def corners() -> dict[str, Corner]:
    """The corners of the table of support (labutils/support.py)."""
    from labutils.support import PYTHON, REQUIREMENTS

    oldest = [f"{r.name}=={_series(r.least)}" for r in REQUIREMENTS]
    return {
        "colab": Corner(),
        "oldest": Corner(f"python{PYTHON[0]}.{PYTHON[1]}", tuple(oldest)),
        "newest": Corner("python3.13", tuple(r.specifier for r in REQUIREMENTS)),
        "cuda": Corner("", tuple(r.specifier for r in REQUIREMENTS), cpu=False),
    }


def _series(version: str) -> str:
    """The releases that begin with a version: 2.9 is 2.9.*, and 13.0.3 is itself."""
    return version if version.count(".") > 1 else f"{version}.*"


LINKED = ("pip", "jupyterlab", "nbgrader", "pytest", "ruff", "dask", "distributed")
"""Packages that Colab does not have, or that the new environment gets for itself."""


def make(name: str, corner: Corner, folder: Path, wheel: Path) -> Path:
    """The Python of a corner's new environment, in which the wheel of labutils is installed. What pip says goes to
    `folder`/pip.log. Prints the seconds that it took."""
    begin = time.monotonic()
    if name == "colab":
        python = environment_without(folder, "labutils", "ipywidgets", *LINKED)
        subprocess.run([sys.executable, "-m", "pip", "--version"], check=True, capture_output=True)
        pip = [sys.executable, "-m", "pip", "--python", str(python)]
    else:
        base = shutil.which(corner.python) if corner.python else sys.executable
        if base is None:
            raise SystemExit(f"{name}: there is no {corner.python} on PATH")
        subprocess.run([base, "-m", "venv", str(folder)], check=True)
        python = folder / "bin" / "python"
        pip = [str(python), "-m", "pip"]
    made = time.monotonic()
    with (folder / "pip.log").open("w") as log:
        install = [*pip, "install", "--disable-pip-version-check", "--progress-bar=off"]
        for step in steps(name, corner, wheel):
            subprocess.run([*install, *step], check=True, stdout=log, stderr=log)
    print(f"{name}: environment {made - begin:.0f} s, pip {time.monotonic() - made:.1f} s", flush=True)
    return python


def steps(name: str, corner: Corner, wheel: Path) -> list[list[str]]:
    """What pip is to install, one command after the other.

    PyTorch comes first and stays: its releases name one release of Triton each, and work with newer ones.
    """
    if name == "colab":
        return [[str(wheel)]]
    project = tomllib.loads((ROOT / "labutils" / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = {_name(text): text for text in project["dependencies"] + project["optional-dependencies"]["cuda"]}
    wanted |= {_name(pin): pin for pin in corner.packages}
    torch, triton = wanted.pop("torch"), wanted.pop("triton")
    index = ["--index-url", CPU_INDEX] if corner.cpu else []
    return [[*index, torch], [*wanted.values(), "ipython"], ["--no-deps", triton, str(wheel)]]


def _name(requirement: str) -> str:
    """The package that a requirement is for."""
    return re.match(r"[\w.-]+", requirement)[0]


def versions(python: Path) -> str:
    """What is in an environment of that which the table of support names."""
    from labutils.support import REQUIREMENTS

    program = "import platform, sys\nfrom importlib.metadata import version\n"
    program += "print('Python ' + platform.python_version(), *(f'{n} {version(n)}' for n in sys.argv[1:]), sep=', ')"
    command = [str(python), "-c", program, *(r.name for r in REQUIREMENTS)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def unit(name: str) -> list[str]:
    """The code cells of a unit with its solutions, less the first, which is lab.setup()."""
    from grader.course.sources import source_notebook

    cells = source_notebook(ROOT / "solutions" / name).cells
    return [cell.source for cell in cells if cell.cell_type == "code"][1:]


def build_wheel(folder: Path) -> Path:
    """The wheel of labutils, built from a copy, so that nothing of the build stays in the tree."""
    source = shutil.copytree(ROOT / "labutils", folder / "source", ignore=shutil.ignore_patterns("__pycache__", ".*"))
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", str(folder)]
    subprocess.run([*command, str(source)], check=True)
    (wheel,) = folder.glob("*.whl")
    return wheel


def run(name: str, corner: Corner, folder: Path, wheel: Path) -> list[str]:
    """What went wrong in a corner, in sentences."""
    from labutils import exercises

    before = {path: path.stat().st_mtime_ns for path in Path(sysconfig.get_path("purelib")).glob("t[or]*-*/RECORD")}
    python, home = make(name, corner, folder / name, wheel), folder / f"home-{name}"
    home.mkdir()
    print(f"{name}: {versions(python)}", flush=True)
    begin = time.monotonic()
    said = notebook(unit("00_start"), home, python, source=None)
    seconds = time.monotonic() - begin
    wanted = sum(e.points.total for e in exercises.all_exercises().values() if e.unit == "00_start")
    got = sum(float(points) for points in re.findall(r"^([\d.]+) of [\d.]+ points$", said, re.MULTILINE))
    print(f"{name}: unit 00 {seconds:.1f} s, {got:g} of {wanted:g} points", flush=True)
    problems = [f"{name}: {line}" for line in errors(said)]
    if got != wanted:
        problems.append(f"{name}: {got:g} of {wanted:g} points:\n{said}")
    if name == "colab":
        now = {path: path.stat().st_mtime_ns for path in before}
        linked = [p for p in (folder / name).rglob("site-packages/t[or]*-*") if re.match(r"(torch|triton)-", p.name)]
        if now != before or len(linked) < 2 or not all(p.is_symlink() for p in linked):
            problems.append("colab: pip changed torch or Triton")
    return problems


def main() -> int:
    known = corners()
    parser = argparse.ArgumentParser(prog="python -m tools.corners", description="run unit 00 in other environments")
    parser.add_argument("corner", nargs="*", metavar="CORNER", help=f"{', '.join(known)}; default: colab")
    parser.add_argument("--pypi", action="store_true", help="take PyTorch from the package index alone")
    args = parser.parse_args()
    chosen = args.corner or ["colab"]
    if unknown := set(chosen) - set(known):  # `choices` refuses the default of a list, before Python 3.12
        parser.error(f"no corner is called {', '.join(sorted(unknown))}")
    problems = []
    with tempfile.TemporaryDirectory(prefix="corners-") as scratch:
        folder = Path(scratch)
        (folder / "wheel").mkdir()
        wheel = build_wheel(folder / "wheel")
        for name in chosen:
            corner = known[name]
            problems += run(name, replace(corner, cpu=corner.cpu and not args.pypi), folder, wheel)
    print("\n".join(problems) or f"Works in: {', '.join(chosen)}.")
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
