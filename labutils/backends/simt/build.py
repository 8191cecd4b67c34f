"""Compilers and the cache: which C++ compiler builds kernels, the runtime (once) and each kernel (once a source)."""

from __future__ import annotations

import contextlib
import errno
import functools
import hashlib
import importlib.util
import json
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from ... import environment
from . import inspection, operands, structs
from .errors import CompileError, NoCompiler

HERE = Path(__file__).parent
FRAME_LIMIT = 128 * 1024
"""Bytes of local variables that one function may have: a thread's stack on the CPU is 256 KiB."""

FLAT = ["-DSIMT_FLAT=1", "-fno-semantic-interposition"]
"""Flags of g++ that leave no calls in a kernel, except those of functions to themselves."""

WHOLE = ["-fno-tree-sra"]
"""Flags of g++ that leave copies of structs whole."""

_WATCHED = ("memcpy", "memmove", "memset", "memcmp", "bcmp")
"""Functions of the C library that read or write memory: the runtime records what they do."""


def cache_dir() -> Path:
    """Where the runtime and the kernels are kept."""
    path = environment.cache_folder() / "simt"
    path.mkdir(parents=True, exist_ok=True)
    return path


@functools.cache
def shim_hash() -> str:
    """Changes with any header and any file of the runtime."""
    digest = hashlib.sha256()
    for folder in ("include", "runtime"):
        for path in sorted((HERE / folder).rglob("*")):
            if path.is_file():
                digest.update(f"{path.relative_to(HERE)}\0".encode() + path.read_bytes())
    return digest.hexdigest()[:16]


@dataclass(frozen=True)
class Compiler:
    """A C++ compiler: the command, its family ("gcc", "clang" or "zig") and what it says of its version."""

    command: tuple[str, ...]
    family: str
    version: str

    def flags(self, checked: bool) -> list[str]:
        """Flags of a kernel, of the checked or of the fast build."""
        common = [
            "-std=c++17", "-fPIC", "-nostdinc", "-nostdinc++", f"-I{HERE / 'include'}", "-include", "simt.h",
            "-fno-exceptions", "-fno-rtti", "-ffp-contract=off", "-fno-strict-aliasing", "-fno-threadsafe-statics",
            "-fno-builtin-printf", "-fno-finite-loops", "-fno-stack-protector", "-fno-asynchronous-unwind-tables",
            "-fno-delete-null-pointer-checks", "-fstack-clash-protection", "-fno-omit-frame-pointer",
            "-fdiagnostics-color=never",
            # for `inspection`: the address of a function, and a branch to a computed one, leave a trace in the object
            "-ffunction-sections", "-fno-jump-tables", "-Werror=vla",
        ]  # fmt: skip
        gcc, x86 = self.family == "gcc", platform.machine() == "x86_64"
        if x86:
            common += ["-mlong-double-64", "-mindirect-branch=thunk-extern" if gcc else "-mretpoline-external-thunk"]
        frame = f"frame-larger-than={FRAME_LIMIT}"
        if gcc:
            common += ["-fno-gnu-unique", f"-Werror={frame}"]
        else:
            common += ["-Wno-everything", f"-W{frame}", "-Werror=frame-larger-than", "-fno-sanitize=undefined"]
        if not checked:
            return [*common, "-O2"]
        # -O1: at -O2 compilers unroll and clone loops, and what is counted is no longer what the source says
        common += ["-g", "-DSIMT_CHECKED=1", "-fsanitize=thread"]
        if self._poisons_locals():  # what a thread does not write in its own variables is none of an earlier thread's
            common += ["-ftrivial-auto-var-init=pattern"]
        if gcc:
            # a call to memcpy is then the source's own: g++ copies structs without one, and records that
            common += [f"-fno-builtin-{f}" for f in ("memcpy", "memmove", "memset", "memcmp")]
            common += ["-minline-all-stringops"] if x86 else []
            return [
                *common, "-O1", "-fsanitize=bounds", "-fsanitize-coverage=trace-pc", "-fno-reorder-blocks",
                "-fno-thread-jumps",  # would give one instruction two addresses
                "--param", "tsan-instrument-func-entry-exit=0", "--param", "tsan-distinguish-volatile=1",
            ]  # fmt: skip
        return [
            *common, "-O0" if self.family == "zig" else "-O1", "-fsanitize=array-bounds",
            "-fsanitize-coverage=trace-pc,no-prune", "-mllvm", "-tsan-instrument-func-entry-exit=0",
            "-mllvm", "-tsan-distinguish-volatile=1", "-mllvm", "-tsan-instrument-read-before-write=1",
        ]  # fmt: skip

    def _poisons_locals(self) -> bool:
        """Can it fill local variables with a pattern? g++ since 12, clang since 8."""
        number = re.search(r"(\d+)\.\d+", self.version.split(")")[-1]) or re.search(r"(\d+)\.\d+", self.version)
        return bool(number) and (self.family != "gcc" or int(number[1]) >= 12)

    def link(self, objects: list[str], out: str, checked: bool) -> list[str]:
        """The command that links a kernel. The compilers' own sanitizer libraries must stay out: the runtime takes
        their place."""
        # clang copies structs by memcpy and expects the sanitizer's library to watch it
        wrap = [f"-Wl,{','.join(f'--wrap={name}' for name in _WATCHED)}"] if checked else []
        if self.family == "zig":
            return [*self.command[:-1], "cc", "-shared", "-nostdlib", *wrap, *objects, "-o", out]
        return [*self.command, "-shared", "-nodefaultlibs", "-nostartfiles", *wrap, *objects, "-lc", "-lm", "-o", out]


def _version(command: list[str]) -> Compiler | str:
    """The compiler that this command starts, or why it is of no use."""
    try:
        run = subprocess.run([*command, "--version"], capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired) as e:
        return f"does not start: {e}"
    if run.returncode or not run.stdout:
        said = run.stderr.strip().splitlines()
        return f"does not tell its version (exit status {run.returncode}){': ' + said[0][:200] if said else ''}"
    line = run.stdout.splitlines()[0].strip()
    family = "zig" if "zig" in " ".join(command) else "clang" if "clang" in run.stdout else "gcc"
    if family == "gcc":
        number = re.search(r"(\d+)\.\d+", line.split(")")[-1]) or re.search(r"(\d+)\.\d+", line)
        if number and int(number.group(1)) < 11:
            return f"is older than g++ 11: {line}"
    return Compiler(tuple(command), family, line)


def _candidates() -> Iterator[list[str]]:
    if os.environ.get("CXX"):
        yield shlex.split(os.environ["CXX"])
    for name in ("g++", *(f"g++-{n}" for n in range(15, 10, -1)), "clang++"):
        if shutil.which(name):
            yield [name]
    if importlib.util.find_spec("ziglang"):
        yield [sys.executable, "-m", "ziglang", "c++"]


_self_test: Callable[[Compiler], str | None] = lambda compiler: None  # noqa: E731


def use_self_test(works: Callable[[Compiler], str | None]) -> None:
    """From now on a compiler is used only if `works(compiler)` is None; else that says why not."""
    global _self_test
    _self_test = works


def compiler() -> Compiler:
    """The compiler of this machine: $CXX, g++ 11 or newer, clang++, or the one of the package ziglang. Raises
    NoCompiler. Each is tried once on a kernel with known counts; the answer is kept in the cache."""
    return _find(os.environ.get("CXX", ""), os.environ.get("PATH", ""), str(cache_dir()))


@functools.cache
def _find(cxx: str, path: str, cache: str) -> Compiler:
    tried = []
    for command in _candidates():
        found = _version(command)
        if isinstance(found, str):
            tried.append(f"{' '.join(command)}: {found}")
            continue
        reason = _self_test(found)
        if reason is None:
            return found
        if FULL in reason:
            raise NoCompiler(not_written(FULL))
        tried.append(f"{found.version}: {reason}")
    detail = "; ".join(tried) or "none was found"
    raise NoCompiler(
        "CUDA C++ kernels need a C++ compiler on a machine without a GPU. Install g++ 11 or newer "
        f"(Debian, Ubuntu: apt install g++) or `pip install ziglang`. Tried: {detail}"
    )


# ---- building

FULL = os.strerror(errno.ENOSPC)


def not_written(why: str) -> str:
    """A sentence on a machine where a compiler has no place to write to."""
    return (
        f"CUDA C++ kernels cannot be built here ({why}). Free 100 MB in {environment.cache_folder()} and in "
        f"{tempfile.gettempdir()}, or set GPULAB_CACHE and TMPDIR to other folders, and restart the notebook's kernel."
    )


@contextlib.contextmanager
def _lock(path: Path):
    """One process at a time; others wait. Where there are no file locks, several may build the same thing."""
    with open(path, "w") as f:
        try:
            import fcntl

            fcntl.flock(f, fcntl.LOCK_EX)
        except (ImportError, OSError):
            pass
        yield


def _run(command: list[str], cwd: str | None = None) -> subprocess.CompletedProcess:
    environment = {**os.environ, "LC_ALL": "C"}
    return subprocess.run(command, capture_output=True, text=True, errors="replace", cwd=cwd, env=environment)


def _library(with_compiler: Compiler) -> Path:
    """Where the runtime is or will be."""
    key = hashlib.sha256(f"{shim_hash()} {with_compiler}".encode()).hexdigest()[:16]
    return cache_dir() / f"runtime-{key}.so"


def built_before() -> bool:
    """Need nothing but a kernel itself be built? Where no compiler can be found, nothing will be."""
    try:
        found = next((c for c in map(_version, _candidates()) if isinstance(c, Compiler)), None)
        return found is None or _library(found).exists()
    except OSError:  # nothing can be written; whoever builds says so
        return True


def runtime(with_compiler: Compiler) -> Path:
    """The runtime as a shared library; built on first use, which takes some seconds."""
    library = _library(with_compiler)
    if library.exists():
        return library
    with _lock(library.with_suffix(".lock")):
        if library.exists():
            return library
        temporary = f"{library}.{os.getpid()}"
        warnings = [] if with_compiler.family == "gcc" else ["-Wno-everything"]
        command = [*with_compiler.command, "-std=c++20", "-O2", "-fPIC", "-shared", "-pthread", *warnings,
                   str(HERE / "runtime" / "simt.cpp"), "-o", temporary]  # fmt: skip
        done = _run(command)
        if done.returncode:
            Path(temporary).unlink(missing_ok=True)
            raise NoCompiler(f"{with_compiler.version} cannot build the emulator:\n{done.stderr[-2000:]}")
        os.replace(temporary, library)
    return library


def kernel(with_compiler: Compiler, text: str, names: list[str], checked: bool, filename: str) -> Path:
    """Build prepared source into a shared library with one entry for each name. Raises CompileError."""
    entries = "".join(f"SIMT_ENTRY({i}, {name})\n" for i, name in enumerate(names))
    unit = f'{text}\n#line 1 "kernel entry"\n{entries}'
    flags = with_compiler.flags(checked)
    if checked and with_compiler.family == "gcc" and structs.aligned(text):
        flags += WHOLE
    parts = json.dumps([unit, [f for f in flags if not f.startswith("-I")], FLAT, with_compiler.command,
                        with_compiler.version, shim_hash(), filename])  # fmt: skip
    library = cache_dir() / f"{hashlib.sha256(parts.encode()).hexdigest()[:24]}.so"
    if library.exists():
        return library
    with tempfile.TemporaryDirectory(dir=cache_dir()) as folder:
        source, out = os.path.join(folder, filename), os.path.join(folder, "out.so")
        with open(source, "w", encoding="utf-8", errors="replace") as f:
            f.write(unit)
        objects = [os.path.join(folder, "out.o")]
        watched = _compile(with_compiler, flags, checked, folder, filename, names)
        inspection.check(objects[0], checked, with_compiler.family, watched)
        done = _run(with_compiler.link(objects, out, checked))
        if done.returncode:
            raise CompileError("the kernel does not link: " + done.stderr.strip()[-500:])
        inspection.check_library(out)
        os.replace(out, library)
    return library


def _compile(
    with_compiler: Compiler, flags: list[str], checked: bool, folder: str, filename: str, names: list[str]
) -> set[str] | None:
    """Make the object file. In a checked build by g++ return the functions whose accesses are all recorded."""
    dump = Path(folder, "operands")
    asks = checked and with_compiler.family == "gcc"
    for more in ([], FLAT):
        command = [*with_compiler.command, *flags, *([*more, f"{operands.FLAG}{dump}"] if asks else [])]
        done = _run([*command, "-x", "c++", "-c", filename, "-o", "out.o"], cwd=folder)
        if done.returncode and FULL in done.stderr:
            raise NoCompiler(not_written(FULL))
        if done.returncode:
            raise compile_error(done.stderr, filename, names)
        if not asks:
            return None
        statements = dump.read_text(errors="replace") if dump.exists() else ""
        if not statements.rstrip().endswith("}"):
            raise NoCompiler(not_written("the compiler's list of statements is cut off"))
        read = operands.read(statements, filename)
        if not read.unseen:
            return read.functions
    raise operands.refusal(read)


def kernels(with_compiler: Compiler, text: str, names: list[str], modes: list[bool], filename: str) -> list[Path]:
    """The same for several builds at once."""
    with ThreadPoolExecutor(len(modes)) as pool:
        jobs = [pool.submit(kernel, with_compiler, text, names, checked, filename) for checked in modes]
        return [job.result() for job in jobs]


def compile_error(stderr: str, filename: str, names: list[str]) -> CompileError:
    """The compiler's errors in the learner's lines."""
    place = re.compile(rf"^{re.escape(filename)}:(\d+)(?::(\d+))?: *(.*)$")
    wanted, first, last_place = [], None, None
    for line in stderr.splitlines():
        m = place.match(line)
        if m:
            last_place = int(m.group(1))
        error = re.match(r"^(.*?)(?::\d+)*: (?:fatal )?error: (.*)$", line)
        if not error:
            continue
        text = re.sub(r" \[-W[^\]]*\]$", "", error.group(2))
        if "frame size" in text or "stack frame size" in text:
            text = "a thread's local variables take more than 128 KiB: use smaller arrays or shared memory"
        number = int(m.group(1)) if m else last_place if error.group(1) != "kernel entry" else None
        where = f"line {number}: " if number else f"kernel {', '.join(names)}: "
        if where + text not in wanted:
            wanted.append(where + text)
        first = first or number
    message = "\n".join(wanted[:5]) or stderr.strip()[-600:] or "the compiler failed"
    if len(wanted) > 5:
        message += f"\n… and {len(wanted) - 5} more errors"
    return CompileError(message, first)
