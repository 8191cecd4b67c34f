"""CUDA C++ kernels in a notebook: the `%%cuda` cell magic and `lab.cuda.compile`.

    kernel = lab.cuda.compile(source, "scale")
    kernel[grid, block, shared_bytes](y, x, 2.0, n)

On a GPU the text goes through NVRTC to a cubin for that GPU; without one it runs in the emulator, with every access
checked. Either way arguments are checked first, and an error says which parameter or which line is wrong.
"""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import difflib
import functools
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ..gpu import device
from ..gpu.device import limits_for
from ..spec.exercise import NOT_WRITTEN
from ..support import Missing
from . import nvrtc
from .nvrtc import CompileError
from .signature import ArgumentError, Signature, convert, signatures
from .text import blank

launch_hooks: list[Callable[[Kernel], None]] = []
"""Called before every launch: how a backend sees that a learner's kernel, and not the library, did the work."""


_redirections: list[Callable[..., None]] = []

_emulator: Callable[[], Any] | None = None


def use_emulator(emulator: Callable[[], Any]) -> None:
    """Where there is no GPU, `emulator().prepare(module, names)` builds kernels, and `emulator().launch(kernel, grid,
    block, shared, arguments)` runs them."""
    global _emulator
    _emulator = emulator


@contextlib.contextmanager
def redirected(launch: Callable[..., None]):
    """Within this context `launch(kernel, grid, block, shared, arguments)` takes the place of every launch."""
    _redirections.append(launch)
    try:
        yield
    finally:
        _redirections.remove(launch)


class LaunchError(ValueError):
    """A launch that no GPU accepts; the message names the rule."""


@dataclass(frozen=True)
class Module:
    """The kernels of one piece of CUDA C++ text. `module.name` or `module["name<4>"]` is a kernel."""

    source: str
    signatures: dict[str, Signature] = field(repr=False, compare=False)
    options: tuple[str, ...] = ()

    @property
    def on_gpu(self) -> bool:
        """Do its kernels run on this machine's GPU? Otherwise the emulator runs them."""
        return device.runs(nvrtc.only_for(self.source))

    def __getitem__(self, name: str) -> Kernel:
        base = name.split("<")[0].strip()
        if base not in self.signatures:
            near = difflib.get_close_matches(base, self.signatures, n=1)
            hint = f"; did you mean {near[0]}?" if near else f"; it defines {', '.join(self.signatures) or 'none'}"
            raise CompileError(f"no __global__ function is called {base}{hint}")
        signature = self.signatures[base]
        if signature.template and "<" not in name:
            raise CompileError(f"{base} is a template: name its arguments, {base}<{', '.join(signature.template)}>")
        return Kernel(self, name, signature)

    def __getattr__(self, name: str) -> Kernel:
        if name.startswith("_"):
            raise AttributeError(name)
        return self[name]


@dataclass(frozen=True)
class Kernel:
    """One `__global__` function, ready to be launched: `kernel[grid, block](…)`."""

    module: Module
    name: str
    signature: Signature = field(repr=False)
    cluster: int = 1

    def clustered(self, blocks: int) -> Kernel:
        """The same kernel, launched in clusters of that many blocks, side by side in x."""
        return dataclasses.replace(self, cluster=blocks)

    def clusters(self, threads: int, shared: int = 0) -> int:
        """How many clusters of such blocks this GPU runs at once. The emulator runs one after another: 1."""
        return _clusters(self, threads, shared, device.current().sm) if self.module.on_gpu else 1

    def __getitem__(self, configuration) -> Callable[..., None]:
        """`kernel[grid, block]` or `kernel[grid, block, shared_bytes]`; grid and block are numbers or tuples."""
        parts = configuration if isinstance(configuration, tuple) else (configuration,)
        if not 2 <= len(parts) <= 3:
            raise LaunchError(f"{self.name}[grid, block] or {self.name}[grid, block, shared_bytes], both in brackets")
        grid, block = _three(parts[0], "grid", self.name), _three(parts[1], "block", self.name)
        shared = parts[2] if len(parts) == 3 else 0
        _check_sizes(self.name, grid, block, shared, nvrtc.only_for(self.module.source))
        if grid[0] % self.cluster:
            raise LaunchError(f"{self.name}: {grid[0]} blocks in x are no whole clusters of {self.cluster}")
        return functools.partial(self._launch, grid, block, int(shared))

    def __call__(self, *_, **__):
        raise LaunchError(f"a kernel is launched with its sizes in brackets: {self.name}[grid, block](…)")

    def _launch(self, grid, block, shared: int, *arguments: Any) -> None:
        for hook in launch_hooks:
            hook(self)
        if _redirections:
            _redirections[-1](self, grid, block, shared, arguments)
        elif self.module.on_gpu:
            _launch_on_gpu(self, grid, block, shared, arguments)
        else:
            _emulator().launch(self, grid, block, shared, arguments)

    def compiled(self, capability: int) -> nvrtc.Compiled:
        """The cubin for that compute capability (80 for 8.0), through NVRTC; needs no GPU."""
        return nvrtc.compile_source(self.module.source, (self.name,), capability, self.module.options)


def compile(source: str, name: str | None = None, options: tuple[str, ...] = ()) -> Kernel | Module:
    """Compile CUDA C++ for this machine; with `name` the kernel of that name, else the module.

    Raises CompileError with the learner's own line numbers.
    """
    found = signatures(source)
    _check_rules(source, found)
    if not found:
        raise CompileError("there is no __global__ function in this text: a kernel begins with __global__ void name(…)")
    module = Module(source, found, tuple(options))
    names = (name,) if name else tuple(n for n, s in found.items() if not s.template)
    kernels = [module[n] for n in names]
    if _redirections:
        pass  # whoever launches in our place compiles too
    elif module.on_gpu:
        for kernel in kernels:
            _function(kernel, device.current().sm)
    else:
        if waiting := _emulator().first_build():
            print(waiting, flush=True)  # before the seconds that it takes
        _emulator().prepare(module, tuple(k.name for k in kernels))
    return kernels[0] if name else module


# --- rules that hold on every machine ------------------------------------------------------------------------------


def _check_rules(source: str, found: dict[str, Signature]) -> None:
    """Report what a notebook's CUDA C++ must not contain, before a compiler reports it in its own words."""
    if NOT_WRITTEN in source:
        at = re.search(rf'"([^"]*{re.escape(NOT_WRITTEN)})"', source)
        raise CompileError(at.group(1) if at else f"this kernel {NOT_WRITTEN}")
    text = blank(source)
    for number, line in enumerate(source.splitlines(), 1):
        if match := re.match(r'\s*#\s*include\s*("[^"]*"|<[^>]*>)', line):
            name = match.group(1)[1:-1]
            if match.group(1)[0] == '"' or name.startswith("/") or ".." in name:
                raise CompileError(f"line {number}: a kernel cell may include only CUDA's own headers, not {name}")
    for number, line in enumerate(text.splitlines(), 1):
        if re.match(r"\s*int\s+main\s*\(", line):
            raise CompileError(f"line {number}: there is no main() here: Python is the host, write only device code")
    if not found and re.search(r"\b__device__\b", text):
        raise CompileError("there is no __global__ function in this text, only __device__ ones: nothing to launch")


def _three(value, what: str, name: str) -> tuple[int, int, int]:
    sizes = tuple(value) if isinstance(value, (tuple, list)) else (value,)
    whole = all(isinstance(s, int) and not isinstance(s, bool) for s in sizes)
    if not 1 <= len(sizes) <= 3 or not whole:
        raise LaunchError(f"{name}: the {what} must be one to three whole numbers, not {value!r}")
    return (*sizes, 1, 1)[:3]


def _check_sizes(name: str, grid, block, shared, target: int | None = None) -> None:
    """CUDA Programming Guide, technical specifications per compute capability: the same for all since 5.0."""
    threads = block[0] * block[1] * block[2]
    if min(grid) < 1:
        raise LaunchError(f"{name}: the grid is {grid}: every side must be at least 1, so no block is launched")
    if min(block) < 1:
        raise LaunchError(f"{name}: the block is {block}: every side must be at least 1")
    if threads > 1024:
        raise LaunchError(f"{name}: a block of {threads} threads; a block has at most 1024 threads")
    if block[2] > 64:
        raise LaunchError(f"{name}: a block is at most 64 threads deep in z, not {block[2]}")
    if grid[0] > 2**31 - 1 or max(grid[1:]) > 65535:
        raise LaunchError(f"{name}: the grid is {grid}; at most 2147483647 blocks in x, 65535 in y and z")
    gpu = limits_for(divmod(target, 10)) if target else (device.current() or device.find("H100 SXM")).limits
    most = gpu.shared_per_block_kb * 1024
    if not isinstance(shared, int) or not 0 <= shared <= most:
        raise LaunchError(f"{name}: {shared} bytes of shared memory; a block has at most {most} bytes here")


# --- on a GPU ------------------------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=256)
def _function(kernel: Kernel, capability: int):
    """The driver's handle of a kernel, loaded once into the current context."""
    import torch
    from cuda.bindings import driver

    torch.cuda.current_stream()  # makes sure that PyTorch's context exists and is current
    torch.zeros(1, device="cuda")
    done = kernel.compiled(capability)
    module = _ok(driver.cuModuleLoadData(done.cubin))
    function = _ok(driver.cuModuleGetFunction(module, done.lowered[kernel.name].encode()))
    most = limits_for(divmod(capability, 10)).shared_per_block_kb * 1024
    static = _ok(driver.cuFuncGetAttribute(driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, function))
    wanted = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    _ok(driver.cuFuncSetAttribute(function, wanted, most - static))
    if kernel.cluster > 8:  # a kernel must ask for clusters that not every GPU with clusters can run
        larger = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED
        _ok(driver.cuFuncSetAttribute(function, larger, 1))
    return function


def _launch_on_gpu(kernel: Kernel, grid, block, shared: int, arguments: tuple) -> None:
    import torch
    from cuda.bindings import driver

    converted = convert(kernel.signature, arguments, "cuda")
    function = _function(kernel, device.current().sm)
    stream = torch.cuda.current_stream().cuda_stream
    if kernel.cluster == 1 and all(isinstance(t, type) for _, t in converted):
        values, types = tuple(v for v, _ in converted), tuple(t for _, t in converted)
        _ok(driver.cuLaunchKernel(function, *grid, *block, shared, stream, (values, types), 0))
        return
    numbers = [t(v) for v, t in converted]
    parameters = (ctypes.c_void_p * len(numbers))(*map(ctypes.addressof, numbers))
    config = _configuration(kernel, grid, block, shared)
    config.hStream = stream
    _ok(driver.cuLaunchKernelEx(config, function, ctypes.addressof(parameters), 0))


def _configuration(kernel: Kernel, grid, block, shared: int):
    from cuda.bindings import driver

    config, attribute = driver.CUlaunchConfig(), driver.CUlaunchAttribute()
    config.gridDimX, config.gridDimY, config.gridDimZ = grid
    config.blockDimX, config.blockDimY, config.blockDimZ = block
    config.sharedMemBytes = shared
    attribute.id = driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
    cluster = attribute.value.clusterDim
    cluster.x, cluster.y, cluster.z = kernel.cluster, 1, 1
    config.attrs, config.numAttrs = [attribute], 1
    return config


@functools.lru_cache(maxsize=256)
def _clusters(kernel: Kernel, threads: int, shared: int, capability: int) -> int:
    from cuda.bindings import driver

    function = _function(kernel, capability)
    config = _configuration(kernel, (4096 * kernel.cluster, 1, 1), (threads, 1, 1), shared)
    return _ok(driver.cuOccupancyMaxActiveClusters(function, config))


def _ok(result):
    status, *values = result
    if int(status) != 0:
        raise LaunchError(f"the driver refused the launch: {status.name.removeprefix('CUDA_ERROR_').lower()}")
    return values[0] if values else None


# --- the cell magic ------------------------------------------------------------------------------------------------


def register_magic() -> None:
    """Give the notebook `%%cuda [name …]`: compile the cell, bind its kernels as Python variables."""
    from IPython import get_ipython
    from IPython.core.magic import register_cell_magic

    shell = get_ipython()
    if shell is None:
        return

    @register_cell_magic
    def cuda(line: str, cell: str) -> None:
        source = "\n" + cell  # the magic's own line counts, so that line numbers are those of the cell
        found = signatures(source)
        names = line.split() or [n for n, s in found.items() if not s.template]
        for n in names:
            shell.user_ns.pop(n.split("<")[0], None)  # an old version must not be checked in place of a broken one
        if NOT_WRITTEN in source:
            shell.user_ns.update({n.split("<")[0]: Unfilled(n) for n in names})
            print(f"{names[0] if names else 'The kernel'} {NOT_WRITTEN}: fill the cell, then run it again.")
            return
        try:
            module = compile(source)
        except Missing as e:  # the notebook goes on: its checks say the same
            shell.user_ns.update({n.split("<")[0]: NotBuilt(n, str(e)) for n in names})
            print(e)
            return
        shell.user_ns.update({n.split("<")[0]: module[n] for n in names})


@dataclass(frozen=True)
class Unfilled:
    """Stands for a kernel whose cell is still the stub: the notebook goes on to its check, which says so."""

    name: str

    def _refuse(self, *_):
        raise NotImplementedError(f"{self.name.split('<')[0]} {NOT_WRITTEN}")

    __getitem__ = clustered = _refuse
    module = property(_refuse)


@dataclass(frozen=True)
class NotBuilt:
    """Stands for a kernel that this machine cannot build, because something is not installed or a disk is full."""

    name: str
    why: str

    def _refuse(self, *_):
        raise Missing(self.why)

    __getitem__ = clustered = _refuse
    module = property(_refuse)


__all__ = ["ArgumentError", "CompileError", "Kernel", "LaunchError", "Module", "compile", "register_magic"]
