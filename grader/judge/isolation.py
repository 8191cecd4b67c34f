"""What a sandboxed process can see: the system's folders and Python's, read-only, and the course without answers."""

from __future__ import annotations

import atexit
import contextlib
import functools
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import labutils
from labutils.cuda import nvrtc

INSIDE, PACKAGE = Path(__file__).with_name("inside"), "gpulab_inside"

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


def warning() -> str | None:
    """What the instructor must know about the isolation on this machine, or None."""
    if bubblewrap():
        return None
    advice = "Install it: apt-get install bubblewrap."
    if shutil.which("bwrap"):  # as on Ubuntu 24.04, whose AppArmor forbids it to ordinary users, and in most containers
        advice = "It is installed, but may not make user namespaces: allow it with sysctl -w"
        advice += " kernel.apparmor_restrict_unprivileged_userns=0, or run the container with them."
    return (
        "Bubblewrap does not work here, so submissions are judged in plain child processes: what they print or return "
        f"decides nothing, but they could read this user's files and end this user's programs. {advice}"
    )


@functools.cache
def course(exercises: bool = False) -> Path:
    """A folder with what runs inside: labutils, without the exercises unless they are asked for.

    With the bytecode that Python keeps beside a module: nothing inside may write it.
    """
    folder = Path(tempfile.mkdtemp(prefix="gpulab-inside-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    source = Path(labutils.__file__).parent
    hide = shutil.ignore_patterns(*([] if exercises else ["exercises"]))
    shutil.copytree(source, folder / "labutils", ignore=hide)
    shutil.copytree(INSIDE, folder / PACKAGE, ignore=hide)
    return folder


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


def folders() -> list[str]:
    """Folders that the Python of this process needs: the system's, and those of its packages."""
    import torch

    paths = ["/usr", "/lib", "/lib64", "/bin", "/sbin", "/etc/alternatives", "/etc/ld.so.cache"]
    paths += [sys.prefix, sys.base_prefix]
    for value in _toolkit().values():
        paths += [p for p in value.split(os.pathsep) if os.path.isabs(p)]

    paths.append(str(Path(torch.__file__).parents[1]))
    with contextlib.suppress(ImportError):
        import triton

        paths.append(str(Path(triton.__file__).parents[1]))
    found: list[str] = []
    for path in paths:
        if os.path.exists(path) and not any(path == f or path.startswith(f"{f}/") for f in found):
            found.append(path)
    return found


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
    packages = [str(Path(sys.modules[m].__file__).parents[1]) for m in ("torch", "triton") if m in sys.modules]
    return {
        "PATH": PATH,
        "HOME": scratch,
        # there is no /etc/passwd in which getpass, and so PyTorch's compiler, could find a name
        "USER": "submission",
        "LOGNAME": "submission",
        "TORCHINDUCTOR_CACHE_DIR": f"{scratch}/inductor",
        "TMPDIR": scratch if scratch != "/scratch" or any(p.startswith("/tmp/") for p in folders()) else "/tmp",
        "PYTHONPATH": os.pathsep.join(dict.fromkeys([course, *packages])),
        "PYTHONHASHSEED": "0",
        "PYTHONDONTWRITEBYTECODE": "1",
        "CUDA_VISIBLE_DEVICES": "",
        "OMP_NUM_THREADS": "1",
        "TRITON_CACHE_DIR": f"{scratch}/triton",
        "GPULAB_CACHE": f"{scratch}/gpulab",
        "TRITON_DEFAULT_FP_FUSION": "1",
        "LANG": "C.UTF-8",
        **_toolkit(),
        **more,
    }


@functools.cache
def _toolkit() -> dict[str, str]:
    """Where NVRTC and its headers were found outside: searching takes processes and seconds."""
    found = {k: os.environ[k] for k in TOOLKIT if k in os.environ}
    if nvrtc.available():
        found[nvrtc.HEADERS] = os.pathsep.join(nvrtc.include_folders())
        with contextlib.suppress(OSError), open("/proc/self/maps") as maps:
            loaded = {line.split()[-1] for line in maps if "libnvrtc.so" in line}
            folders = [str(Path(path).parent) for path in loaded]
            known = found.get("LD_LIBRARY_PATH", "")
            found["LD_LIBRARY_PATH"] = os.pathsep.join([*folders, *([known] if known else [])])
    return found


TOOLKIT = ("CUDA_HOME", "CUDA_PATH", "LD_LIBRARY_PATH")
"""How a CUDA toolkit outside Python's packages is found."""
