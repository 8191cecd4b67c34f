"""NVIDIA's runtime compiler: CUDA C++ text to a cubin for a named GPU, with or without a GPU or a driver.

A cubin is machine code for one compute capability: it never asks the driver to translate PTX, which fails when the
compiler is newer than the driver. Results are kept on disk by source, options and compiler version.
"""

from __future__ import annotations

import base64
import contextlib
import functools
import hashlib
import json
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from .. import environment, support
from . import compiler, compiler_process, slips

PACKAGES = "nvidia-cuda-nvrtc nvidia-cuda-runtime nvidia-cuda-crt nvidia-cuda-cccl cuda-bindings cuda-pathfinder"

HEADERS = "GPULAB_CUDA_HEADERS"

DEFINES = ("-DINFINITY=__int_as_float(0x7f800000)", "-DNAN=__int_as_float(0x7fffffff)")
"""What nvcc's <cmath> would define; NVRTC has no host headers."""

FAMILY_SPECIFIC = (90, 100, 120)
"""Capabilities that have an "a" target with instructions of their own (wgmma, tcgen05)."""

OWN_HEADERS = Path(__file__).with_name("include")
"""Headers that come with this package: `#include <lab/hopper.cuh>`."""

STANDARD = frozenset(path.name for path in (OWN_HEADERS / "standard").iterdir())
"""Headers of C++ that nvcc takes from the host's compiler, and that NVRTC lacks: small ones of ours stand in."""

ONE_TARGET = {"lab/hopper.cuh": 90}
"""Headers whose functions exist on one compute capability only."""


def _included(source: str) -> list[str]:
    """The headers that a text names in angle brackets."""
    return re.findall(r"^[ \t]*#[ \t]*include[ \t]*<([^>\n]*)>", source, flags=re.M)


def only_for(source: str) -> int | None:
    """The one compute capability that this text is for (90 for 9.0), by what it includes; None: for any."""
    return next((ONE_TARGET[name] for name in _included(source) if name in ONE_TARGET), None)


def target(capability: int) -> str:
    """The compiler's name of a target: "sm_80", and "sm_90a" where there are instructions of its own."""
    return f"sm_{capability}{'a' if capability in FAMILY_SPECIFIC else ''}"


@functools.cache
def _own_headers() -> str:
    """Changes with any header of ours."""
    texts = [p.read_bytes() for p in sorted(OWN_HEADERS.rglob("*")) if p.is_file()]
    return hashlib.sha256(b"\0".join(texts)).hexdigest()[:16]


class CompileError(Exception):
    """The source was refused. `text` holds the compiler's messages, with the learner's line numbers; `advice` says what
    to try, or is ""."""

    def __init__(self, text: str):
        self.text, self.advice = text, slips.advice(text)
        super().__init__(text)

    def _render_traceback_(self):
        more = f"\nWhat to try: {self.advice}" if self.advice else ""
        return [f"The CUDA C++ does not compile:\n{self.text}{more}"]


class NeedsGpu(CompileError):
    """This machine cannot run what the code asks for, and a GPU can; `text` says what. It is no mistake."""

    def _render_traceback_(self):
        return [f"This needs a GPU:\n{self.text}"]


class Unavailable(support.Missing):
    """NVRTC is not installed; the message holds the line that installs it."""


@dataclass(frozen=True)
class Compiled:
    """A cubin for one target. `lowered` maps each requested kernel ("scale<4>") to its symbol; `log` holds warnings and
    what ptxas reported of registers and spills."""

    cubin: bytes
    target: str
    lowered: dict[str, str]
    log: str


def available() -> bool:
    """Can CUDA C++ be compiled by NVIDIA's compiler here?"""
    try:
        _nvrtc()
        include_folders()
    except Unavailable:
        return False
    return True


@functools.cache
def _nvrtc():
    try:
        nvrtc = compiler.bindings()
        nvrtc.nvrtcVersion()
    except Exception as e:  # a missing package, a missing library, a missing symbol: one answer to all of them
        raise Unavailable(
            f"NVIDIA's runtime compiler is not here ({type(e).__name__}). pip install {PACKAGES}"
        ) from None
    return nvrtc


@functools.cache
def version() -> str:
    _, major, minor = _nvrtc().nvrtcVersion()
    return f"{major}.{minor}"


@functools.cache
def include_folders() -> tuple[str, ...]:
    """Folders of the CUDA toolkit's headers and of CCCL (cooperative groups' reduce, cuda::pipeline).

    $GPULAB_CUDA_HEADERS names them where somebody has found them before.
    """
    if known := os.environ.get(HEADERS):
        return tuple(known.split(os.pathsep))
    try:
        from cuda.pathfinder import find_nvidia_header_directory as find
    except ImportError:
        raise Unavailable(f"The CUDA headers cannot be found. pip install {PACKAGES}") from None
    toolkit, cccl = find("cudart"), find("cccl")
    if toolkit is None:
        raise Unavailable("The CUDA headers are not here. pip install nvidia-cuda-runtime nvidia-cuda-crt")
    folders = [toolkit]
    elsewhere = []
    if not os.path.isdir(os.path.join(toolkit, "crt")):  # half of the headers are in a package of their own
        homes = (os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda")
        elsewhere = [os.path.join(home, "include") for home in homes if home]
    for folder in (cccl, os.path.join(toolkit, "cccl"), *elsewhere):
        if folder and os.path.isdir(folder) and folder not in folders:
            folders.append(folder)
    return tuple(folders)


def compile_source(
    source: str,
    names: tuple[str, ...],
    capability: int,
    options: tuple[str, ...] = (),
    filename: str = "cell.cu",
) -> Compiled:
    """Compile to a cubin for sm_<capability> (its "a" target where one exists) with source lines kept.

    Raises CompileError with the compiler's own words, Unavailable when NVRTC is not installed.
    """
    arguments = [f"--gpu-architecture={target(capability)}", "-std=c++17", "-lineinfo", *DEFINES, *options]
    arguments += ["--ptxas-options=-v", "-default-device", *(f"-I{folder}" for folder in include_folders())]
    parts = [source, names, arguments, version(), filename, _own_headers()]
    arguments = [*arguments, f"-I{OWN_HEADERS}", f"-I{OWN_HEADERS / 'standard'}", f"-include={OWN_HEADERS / 'nvcc.h'}"]
    key = hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]
    path = environment.cache_folder() / "nvrtc" / key
    if (hit := _load(path, target(capability))) is not None:
        return hit
    answer = _answer({"source": source, "filename": filename, "names": names, "arguments": arguments})
    if "error" in answer:
        raise CompileError(readable(answer["error"], filename))
    done = Compiled(base64.b64decode(answer["cubin"]), target(capability), answer["lowered"], answer["log"])
    _store(path, done)
    return done


def compile_by(ask: Callable[[dict], dict]) -> None:
    """From now on have `ask` compile, which does what `compiler_process.ask` does, and raises what it raises."""
    global _ask
    _ask = ask


def stay_in_process() -> None:
    """From now on compile in this process: one that is a sandbox, may start no other and may die."""
    compile_by(compiler.compile_job)


_ask = compiler_process.ask


def _answer(job: dict) -> dict:
    try:
        return _ask(job)
    except compiler_process.Died as e:
        # NVRTC dies of an instance of a template whose parameters have an unknown type. Of the template alone it says
        # what is wrong.
        with contextlib.suppress(compiler_process.Died):
            if "error" in (alone := _ask(job | {"names": []})):
                return alone
        raise CompileError(
            f"NVIDIA's compiler died of this text ({e}) and does not say where: look for names that are not declared"
        ) from None


def readable(log: str, filename: str) -> str:
    """The compiler's errors as "line 7: …", without its bookkeeping."""
    log = re.sub(rf"{re.escape(filename)}\((\d+)\): (catastrophic )?error(?: #\d+(?:-D)?)?: ", r"line \1: ", log)
    log = re.sub(rf"{re.escape(filename)}\((\d+)\): warning(?: #\d+-D)?: ", r"line \1, warning: ", log)
    drop = re.compile(r"^(\d+ errors? detected|Remark: |ptxas info|\s*$)")
    return "\n".join(x for x in log.splitlines() if not drop.match(x)).strip()


def _load(path: Path, target: str) -> Compiled | None:
    try:
        meta = json.loads(path.with_suffix(".json").read_text())
        return Compiled(path.with_suffix(".cubin").read_bytes(), target, meta["lowered"], meta["log"])
    except (OSError, ValueError, KeyError):
        return None


def _store(path: Path, done: Compiled) -> None:
    """Other processes may compile the same at the same time: write beside, then rename."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        for suffix, data in (
            (".cubin", done.cubin),
            (".json", json.dumps({"lowered": done.lowered, "log": done.log}).encode()),
        ):
            scratch = path.with_name(f"{path.name}.{os.getpid()}{suffix}")
            scratch.write_bytes(data)
            os.replace(scratch, path.with_suffix(suffix))
    except OSError:
        pass  # a read-only home only costs time
