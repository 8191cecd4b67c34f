"""What a sandboxed process can see: the system's folders and Python's, read-only, and the course without answers."""

from __future__ import annotations

import ast
import atexit
import functools
import hashlib
import importlib.util
import json
import os
import platform
import py_compile
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

import labutils
from grader.course import place
from grader.judge import nvrtc_facts
from labutils.cuda import nvrtc

INSIDE, PACKAGE = Path(__file__).with_name("inside"), "gpulab_inside"

READERS = (
    "__init__.py", "course/__init__.py", "course/cells.py", "course/place.py", "course/regions.py",
    "course/solutions.py", "course/submitted.py", "judge/__init__.py", "judge/copies.py", "judge/plan.py",
    "judge/reading.py", "judge/language", "intake/__init__.py", "intake/choice.py", "intake/matching.py",
    "intake/reading.py", "intake/repair.py", "intake/split_cells.py",
)  # fmt: skip
"""The part of the grader that reads what a submission holds (`inside/read.py`)."""

ANSWERS = {
    "gpu/occupancy.py": (
        *("occupancy", "_by_registers", "_by_shared", "waves", "tail"),
        *("warps_for_bytes", "warps_for_latency", "busy_share"),
    ),
    "gpu/pipeline.py": (
        *("idle", "finish", "simulate", "held", "missing", "needs", "one_forward_one_backward", "all_forward_first"),
    ),
    "gpu/machine.py": ("queue_time",),
    "gpu/placement.py": ("memory_gb", "step_ms", "allowed", "best"),
    "spec/precision.py": ("tolerance",),
}
"""Functions of labutils that compute what an exercise asks for. They are for the lessons and the checks: where a
submission's Python runs, they are there by name only."""

LEFT_OUT = ("walkthroughs.json",)
"""Files of labutils with solutions, which no sandbox has, not even one that runs a notebook for its feedback."""

PATH = "/usr/bin:/bin:/usr/sbin:/sbin"
"""Where a sandboxed process finds programs, the C++ compiler among them."""


@functools.cache
def bubblewrap() -> str | None:
    """The path of bubblewrap, if namespaces can be had on this machine."""
    path = shutil.which("bwrap")
    if path is None or os.environ.get("GPULAB_NO_BWRAP"):
        return None
    # With what every sandbox asks for: some containers allow namespaces, and no /proc in them.
    probe = [path, "--ro-bind", "/", "/", "--unshare-all", "--die-with-parent", "--proc", "/proc", "--dev", "/dev"]
    try:
        return path if subprocess.run([*probe, "true"], capture_output=True, timeout=10).returncode == 0 else None
    except (OSError, subprocess.TimeoutExpired):
        return None


@functools.cache
def available() -> dict:
    """What this machine has of the cage around a job: the `architecture` if its system calls are known, `seccomp` and
    `namespaces` as truths, and the version of `landlock` (0: none). Asked where the cage will be."""
    line = [sys.executable, "-B", "-m", f"{PACKAGE}.cage"]
    env = {"PYTHONPATH": str(course(False)), "PATH": PATH}
    try:
        return json.loads(subprocess.run(line, env=env, capture_output=True, timeout=30, check=True).stdout)
    except (OSError, ValueError, subprocess.SubprocessError):
        return {"architecture": None, "seccomp": False, "landlock": 0, "namespaces": False}


def warning() -> str | None:
    """What the instructor must know about the isolation on this machine, or None."""
    found = available()
    missing = []
    if not found["seccomp"]:
        which = f"the system calls of {platform.machine()} are not known here" if not found["architecture"] else ""
        missing.append(f"there is no filter of system calls ({which or 'this kernel takes none'})")
    if bubblewrap():
        if not missing:
            return None
        return f"Submissions are judged in a sandbox in which {missing[0]}: a kernel could try the operating system."
    if not found["landlock"]:
        missing.append("they could read and change this user's files (this kernel has no Landlock)")
    elif found["landlock"] < 6:
        missing.append("this kernel's Landlock does not bind signals and local sockets")
    if not found["namespaces"] or os.environ.get("GPULAB_NO_NAMESPACES"):
        missing.append("they share processes and network with this user's other programs")
    advice = "Install it: apt-get install bubblewrap."
    if shutil.which("bwrap"):  # as on Ubuntu 24.04, whose AppArmor forbids it to ordinary users, and in most containers
        advice = "It is installed, but may not make user namespaces: allow it with sysctl -w"
        advice += " kernel.apparmor_restrict_unprivileged_userns=0, or run the container with them."
    return (
        "Bubblewrap does not work here, so submissions are judged in plain child processes: what they print or return "
        f"decides nothing, but {'; '.join([*missing, 'they see which folders this machine has'])}. {advice}"
    )


@functools.cache
def course(exercises: bool = False) -> Path:
    """A folder with what runs inside: labutils, without `LEFT_OUT`, and without the exercises and `ANSWERS` unless they
    are asked for, and the readers.

    With the bytecode that Python keeps beside a module: nothing inside may write it.
    """
    return until_the_end("gpulab-inside-", functools.partial(_fill, exercises))


def _fill(exercises: bool, folder: Path) -> None:
    source = Path(labutils.__file__).parent
    hide = shutil.ignore_patterns(*LEFT_OUT, *([] if exercises else ["exercises"]))
    shutil.copytree(source, folder / "labutils", ignore=hide, copy_function=copy)
    shutil.copytree(INSIDE, folder / PACKAGE, ignore=hide, copy_function=copy)
    if not exercises:
        for name, functions in ANSWERS.items():
            path = folder / "labutils" / name
            path.write_text(without(path.read_text(encoding="utf-8"), functions), encoding="utf-8")
            for old in path.parent.glob(f"__pycache__/{path.stem}.*"):
                old.unlink()
            py_compile.compile(str(path), doraise=True)
    for name in READERS:
        path, target = INSIDE.parents[1] / name, folder / "grader" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        (shutil.copytree if path.is_dir() else copy)(path, target)


_filling, _ending = threading.RLock(), threading.Event()


def until_the_end(prefix: str, fill: Callable[[Path], None] = lambda folder: None) -> Path:
    """A new folder, filled, which is removed when this process ends. A worker asked to end waits for none of its
    threads: one that is filling a folder stops at the next `copy`. Raises RuntimeError from then on."""
    with _filling:
        if _ending.is_set():
            raise RuntimeError("this process is ending")
        folder = Path(tempfile.mkdtemp(prefix=prefix))
        atexit.register(_remove, folder, os.getpid())
        fill(folder)
    return folder


def copy(source, target) -> None:
    """For `shutil.copytree`, in a folder that `until_the_end` fills."""
    if _ending.is_set():
        raise RuntimeError("this process is ending")
    shutil.copy2(source, target)


def _remove(folder: Path, owner: int) -> None:
    if os.getpid() == owner:  # not in a child that ends before its parent
        _ending.set()
        with _filling:
            shutil.rmtree(folder, ignore_errors=True)


def without(source: str, functions: tuple[str, ...]) -> str:
    """A module's text in which these functions and methods only raise an error. Raises LookupError if one is
    not there."""
    tree, left = ast.parse(source), set(functions)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name in functions:
            node.body = ast.parse(
                "raise NotImplementedError('an exercise asks for this: the judge leaves it out')"
            ).body
            left.discard(node.name)
    if left:
        raise LookupError(f"there is no {', '.join(sorted(left))}")
    return ast.unparse(tree)


@functools.cache
def warm_cache() -> Path:
    """A folder with the emulator's runtime, which takes seconds to build, and nobody's kernels."""
    from labutils import environment
    from labutils.backends.simt import build

    compilers = [path for name in ("g++", "clang++") if (path := shutil.which(name, path=PATH))]
    key = [build.shim_hash(), *((path, os.stat(path).st_ctime) for path in compilers)]
    folder = environment.cache_folder() / f"judge-{hashlib.sha256(repr(key).encode()).hexdigest()[:16]}"
    if not any(folder.glob("simt/runtime-*.so")):  # asking for it imports PyTorch in a process of its own
        program = "from labutils.backends.simt import build; build.runtime(build.compiler())"
        paths = os.pathsep.join([str(Path(labutils.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
        # with the compiler that is found inside, not with another one of this user's: else each job builds it anew
        env = os.environ | {"GPULAB_CACHE": str(folder), "PYTHONPATH": paths, "PATH": PATH}
        env.pop("CXX", None)
        subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, check=False)
        folder.mkdir(parents=True, exist_ok=True)
    return folder


def hidden() -> list[Path]:
    """What no sandbox may see: the course's source, with solutions, exercises, perhaps submissions and grades.

    Where the grader is installed as a package, it and labutils lie among other packages, and the course elsewhere.
    """
    if not place.installed():
        return [place.CODE]
    return [Path(labutils.__file__).resolve().parent, INSIDE.parents[1], place.ROOT]


@functools.cache
def _packages() -> list[str]:
    """Folders in which the packages lie that sandboxed programs import.

    Not all need be those of this Python's own: packages may be on PYTHONPATH alone, in several folders, or linked from
    elsewhere. The course's source is on PYTHONPATH, too, and is none of them.
    """
    found = [Path(place) for place in sys.path if any(Path(place or ".").glob("*.dist-info"))]
    for name in ("torch", "triton", "nbformat", "IPython", "numpy"):
        spec = importlib.util.find_spec(name)
        if spec and spec.origin:
            found += [Path(spec.origin).parents[1], Path(spec.origin).resolve().parents[1]]
    return [path for path in dict.fromkeys(map(str, found)) if os.path.isabs(path) and Path(path) not in hidden()]


def folders() -> list[str]:
    """What the Python of this process needs, as paths none of which holds another or the course's source: folders of
    the system, and those of its packages."""
    paths = ["/usr", "/lib", "/lib64", "/bin", "/sbin", "/etc/alternatives", "/etc/ld.so.cache"]
    paths += [sys.prefix, sys.base_prefix]
    for value in _toolkit().values():
        paths += [p for p in value.split(os.pathsep) if os.path.isabs(p)]

    paths += _packages()
    for secret in hidden():
        paths = [part for path in paths for part in _beside(Path(path), secret)]
    found: list[str] = []
    for path in sorted(paths, key=len):  # what holds others first
        if os.path.exists(path) and not any(path == f or path.startswith(f"{f}/") for f in found):
            found.append(path)
    return found


def _beside(path: Path, hidden: Path) -> list[str]:
    """The path, or if `hidden` is below it, what is next to it: a course in /usr/src stays out of sight
    although sandboxed programs read /usr."""
    if not hidden.resolve().is_relative_to(path.resolve()):
        return [str(path)]
    if path.resolve() == hidden.resolve():
        return []
    children = sorted(path.resolve().iterdir())
    inside = [child for child in children if hidden.resolve().is_relative_to(child.resolve())]
    beside = [str(child) for child in children if child not in inside]
    return beside + [part for child in inside if not child.is_symlink() for part in _beside(child, hidden)]


def _listed() -> list[str]:
    """Folders of packages that hold something hidden: Python must list them to find the other packages."""
    return [path for path in _packages() if any(h.is_relative_to(Path(path).resolve()) for h in hidden())]


def namespaces(course: Path) -> list[str]:
    """The beginning of bubblewrap's command line: all that this machine's tools need, read-only, `course` as /course,
    the warm cache, and nothing to write to."""
    line = [bubblewrap(), "--unshare-all", "--new-session", "--cap-drop", "ALL", "--uid", "1000", "--gid", "1000"]
    for path in folders():
        line += ["--ro-bind", path, path]
    line += ["--ro-bind", str(course), "/course", "--ro-bind", str(warm_cache()), "/warm", "--dir", "/scratch"]
    return [*line, "--proc", "/proc", "--dev", "/dev"]


def command(course: Path) -> list[str]:
    """Bubblewrap's command line for the judge's programs."""
    # What one job writes no other may find: each gets a /scratch, /tmp and /dev/shm of its own (inside/zygote.py).
    return [*namespaces(course), "--dir", "/tmp", "--chdir", "/scratch", "--remount-ro", "/dev", "--remount-ro", "/"]


def environment(scratch: str, course: str, more: dict[str, str]) -> dict[str, str]:
    """The environment of a sandboxed process; nothing of this one's but where the tools are."""
    packages, tools = _packages(), folders()
    # without bubblewrap /proc, /tmp and /dev/shm are everybody's, and the warm cache is a copy in the job's own folder
    isolated = scratch == "/scratch"
    readable = [*tools, *course.split(os.pathsep), *(["/warm", "/proc"] if isolated else [])]
    writable = [scratch, *(["/tmp", "/dev/shm"] if isolated else [])]
    return {
        "PATH": PATH,
        "HOME": scratch,
        # there is no /etc/passwd in which getpass, and so PyTorch's compiler, could find a name
        "USER": "submission",
        "LOGNAME": "submission",
        "TORCHINDUCTOR_CACHE_DIR": f"{scratch}/inductor",
        "TMPDIR": scratch if scratch != "/scratch" or any(p.startswith("/tmp/") for p in tools) else "/tmp",
        "PYTHONPATH": os.pathsep.join(dict.fromkeys([course, *packages])),
        "PYTHONHASHSEED": "0",
        "PYTHONDONTWRITEBYTECODE": "1",
        "CUDA_VISIBLE_DEVICES": "",
        "OMP_NUM_THREADS": "1",
        "TRITON_CACHE_DIR": f"{scratch}/triton",
        "GPULAB_CACHE": f"{scratch}/gpulab",
        "TRITON_DEFAULT_FP_FUSION": "1",
        "LANG": "C.UTF-8",
        # what `inside/cage.py` leaves a job: tools to read, folders of its own
        "GPULAB_READABLE": os.pathsep.join(readable),
        "GPULAB_WRITABLE": os.pathsep.join(writable),
        "GPULAB_LISTED": os.pathsep.join(_listed()),
        **_toolkit(),
        **more,
    }


@functools.cache
def _toolkit() -> dict[str, str]:
    """Where NVRTC and its headers were found outside: searching takes processes and seconds."""
    found = {k: os.environ[k] for k in TOOLKIT if k in os.environ}
    if known := nvrtc_facts.facts():
        found[nvrtc.HEADERS] = os.pathsep.join(known["headers"])
        before = found.get("LD_LIBRARY_PATH", "")
        found["LD_LIBRARY_PATH"] = os.pathsep.join([*known["folders"], *([before] if before else [])])
    return found


TOOLKIT = ("CUDA_HOME", "CUDA_PATH", "LD_LIBRARY_PATH")
"""How a CUDA toolkit outside Python's packages is found."""
