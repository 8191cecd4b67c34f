"""From a plan to calls of the driver: cubins loaded, arguments laid out as the kernel expects them."""

from __future__ import annotations

import base64
import ctypes
import struct
from collections.abc import Callable
from math import prod

from cuda.bindings import driver as cu

from grader.judge.runner.driver import Buffer, Device, DriverError, ok

SIZES = {"float64": 8, "int64": 8, "float32": 4, "int32": 4, "float16": 2, "bfloat16": 2, "int16": 2}
"""Bytes of an element; every other type has one."""

TENSOR_MAP = 128
"""Bytes of a CUtensorMap."""

HOST_TYPE = {8: 10, 9: 8, 10: 9}
"""Triton's numbers of element types in tensor maps where they differ from the driver's (its driver.py says so)."""

TF32_TYPE = 11


class LoadedKernel:
    """One kernel of a cubin. `told` holds the cubin, its symbol, threads, shared memory, scratch and the kinds of its
    arguments in order (pointer, int, float or descriptor)."""

    def __init__(self, device: Device, compiled: dict):
        self.device, self.compiled = device, compiled
        self._cubin = base64.b64decode(compiled["cubin"])
        self.has_state = b".nv.global\0" in self._cubin or b".nv.global.init\0" in self._cubin
        self.module = None
        self.load()

    def load(self) -> None:
        """Load, or load anew: device variables are as they were in the beginning."""
        if self.module is not None:
            ok(cu.cuModuleUnload(self.module))
        self.module = ok(cu.cuModuleLoadData(self._cubin))
        self.function = ok(cu.cuModuleGetFunction(self.module, self.compiled["symbol"].encode()))
        attribute = cu.CUfunction_attribute
        static = ok(cu.cuFuncGetAttribute(attribute.CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, self.function))
        dynamic = self.compiled["shared"]
        if dynamic is None:  # CUDA C++: each launch says how much
            dynamic = self.device.shared_limit - static
        if dynamic + static > self.device.shared_limit:
            raise DriverError(f"{dynamic + static} bytes of shared memory are more than this GPU has for a block")
        if dynamic + static > 48 << 10:
            what = attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            ok(cu.cuFuncSetAttribute(self.function, what, dynamic))

    def parameters(self) -> list[int]:
        """The size in bytes of each parameter, as the driver reads them from the cubin."""
        sizes = []
        while True:
            status, *info = cu.cuFuncGetParamInfo(self.function, len(sizes))
            if int(status) != 0:
                return sizes
            sizes.append(int(info[1]))


class Call:
    """One launch, ready to be made again and again."""

    def __init__(self, kernel: LoadedKernel, step: dict, pointer: Callable[[dict], int], keep: list):
        self.kernel, compiled = kernel, kernel.compiled
        self.grid = tuple(step["grid"])
        self.block = tuple(step["block"] or (32 * compiled["warps"], 1, 1))
        self.shared = compiled["shared"] if step["block"] is None else step["shared"]
        ctas = tuple(compiled.get("cluster") or (1, 1, 1))  # Triton: blocks that a program has
        self.cluster = (step.get("cluster", 1), 1, 1) if prod(ctas) == 1 else ctas
        self.blocks = tuple(g * c for g, c in zip(self.grid, ctas, strict=True))
        values = []
        descriptors = iter(compiled.get("descriptors") or [])
        for name, kind in compiled["abi"]:
            argument = step["args"][name]
            if kind == "descriptor":
                values += _descriptor(argument["descriptor"], next(descriptors, None), pointer)
            elif "descriptor" in argument:  # CUDA C++: the kernel knows the shape and the strides by itself
                values.append(_tensor_map(argument["descriptor"], pointer))
            elif "pointer" in argument:
                values.append(pointer(argument["pointer"]))
            else:
                value = argument["number"]
                values.append(0 if value is None else float(value) if kind == "float" else value)
        sizes = kernel.parameters()
        if compiled.get("scratch_bytes") is not None:  # Triton's: one global scratch, one for profiling
            scratch = Buffer(kernel.device, compiled["scratch_bytes"] * prod(self.blocks))
            keep.append(scratch)
            values += [scratch.address, 0][: len(sizes) - len(values)]
        if len(values) != len(sizes):
            raise DriverError(f"the kernel takes {len(sizes)} parameters, but {len(values)} are known")
        self._storage = [_packed(v, n) for v, n in zip(values, sizes, strict=True)]
        self._array = (ctypes.c_void_p * max(1, len(sizes)))(*[ctypes.addressof(s) for s in self._storage])
        self._config = self._launch_config() if prod(self.cluster) > 1 or compiled.get("cooperative") else None

    def _launch_config(self):
        config, attributes = cu.CUlaunchConfig(), []
        if prod(self.cluster) > 1:
            a = cu.CUlaunchAttribute()
            a.id = cu.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
            a.value.clusterDim.x, a.value.clusterDim.y, a.value.clusterDim.z = self.cluster
            attributes.append(a)
        if self.kernel.compiled.get("cooperative"):
            a = cu.CUlaunchAttribute()
            a.id, a.value.cooperative = cu.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_COOPERATIVE, 1
            attributes.append(a)
        config.gridDimX, config.gridDimY, config.gridDimZ = self.blocks
        config.blockDimX, config.blockDimY, config.blockDimZ = self.block
        config.sharedMemBytes, config.hStream = self.shared, self.kernel.device.stream
        config.attrs, config.numAttrs = attributes, len(attributes)
        return config

    def __call__(self) -> None:
        if prod(self.grid) == 0:
            return
        address = ctypes.addressof(self._array)
        if self._config is not None:
            ok(cu.cuLaunchKernelEx(self._config, self.kernel.function, address, 0))
            return
        stream = self.kernel.device.stream
        ok(cu.cuLaunchKernel(self.kernel.function, *self.grid, *self.block, self.shared, stream, address, 0))


def _packed(value, size: int):
    """A value in as many bytes as the kernel's parameter has."""
    if isinstance(value, bytes):
        aligned = (ctypes.c_uint8 * (size + 64))()
        start = -ctypes.addressof(aligned) % 64
        view = (ctypes.c_uint8 * size).from_buffer(aligned, start)
        view[:] = value
        return view
    if isinstance(value, float):
        return ctypes.create_string_buffer(struct.pack({2: "<e", 4: "<f", 8: "<d"}[size], value), size)
    return ctypes.create_string_buffer((value & ((1 << 8 * size) - 1)).to_bytes(size, "little"), size)


def _descriptor(d: dict, meta: dict | None, pointer: Callable[[dict], int]) -> list:
    """What a kernel gets for a tensor descriptor: a tensor map, or its parts where the GPU has none; then its shape and
    strides. As triton.backends.nvidia.driver.make_tensordesc_arg lays them out."""
    address, shape, strides = pointer(d), list(d["shape"]), list(d["strides"])
    if meta is None:
        return [address, *shape, *strides, int(d["padding"] == "nan"), int(d["tf32"]), *shape, *strides]
    rank, size = len(shape), meta["elem_size"]
    sides = [n * 2 if meta["fp4_padded"] and k == rank - 1 else n for k, n in enumerate(shape)]
    kind = TF32_TYPE if d["tf32"] else HOST_TYPE.get(meta["elem_type"], meta["elem_type"])
    fill = cu.CUtensorMapFloatOOBfill
    pitches = [cu.cuuint64_t(s * size) for s in reversed(strides[:-1])]
    if not pitches:  # no stride is read, but an empty list becomes a null pointer, which the driver refuses
        pitches = [cu.cuuint64_t(-(-sides[0] * size // 16) * 16)]
    made = ok(
        cu.cuTensorMapEncodeTiled(
            cu.CUtensorMapDataType(kind),
            rank,
            address,
            [cu.cuuint64_t(n) for n in reversed(sides)],
            pitches,
            [cu.cuuint32_t(n) for n in reversed(meta["block_size"])],
            [cu.cuuint32_t(1)] * rank,
            cu.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
            cu.CUtensorMapSwizzle(meta["swizzle"]),
            cu.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
            fill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA
            if d["padding"] == "nan"
            else fill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
        )
    )
    return [ctypes.string_at(made.getPtr(), TENSOR_MAP), *shape, *strides]


def _tensor_map(d: dict, pointer: Callable[[dict], int]) -> bytes:
    """A CUtensorMap of a matrix, as labutils.cuda.tensor_map makes it."""
    kind, size = (
        getattr(cu.CUtensorMapDataType, f"CU_TENSOR_MAP_DATA_TYPE_{d['dtype'].upper()}"),
        SIZES.get(d["dtype"], 1),
    )
    swizzle = f"SWIZZLE_{d['swizzle']}B" if d["swizzle"] else "SWIZZLE_NONE"
    made = ok(
        cu.cuTensorMapEncodeTiled(
            kind,
            2,
            pointer(d),
            [cu.cuuint64_t(n) for n in reversed(d["shape"])],
            [cu.cuuint64_t(d["strides"][0] * size)],
            [cu.cuuint32_t(n) for n in reversed(d["block_shape"])],
            [cu.cuuint32_t(1)] * 2,
            cu.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
            getattr(cu.CUtensorMapSwizzle, f"CU_TENSOR_MAP_{swizzle}"),
            cu.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
            cu.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
        )
    )
    return ctypes.string_at(made.getPtr(), TENSOR_MAP)


class Replay:
    """A plan bound to the memory of one case: `run()` queues all its steps."""

    def __init__(
        self, device: Device, plan: dict, kernels: list[LoadedKernel], arrays: dict[int, Buffer], helpers, chosen
    ):
        self.device, self.kernels, self.helpers = device, kernels, helpers
        self.scratch = [Buffer(device, n) for n in plan["scratch"]]
        self.arrays, self._keep = arrays, []
        self.steps = [self._step(s, chosen.get(k, 0)) for k, s in enumerate(plan["steps"])]

    def pointer(self, p: dict) -> int:
        home = self.arrays[p["argument"]] if "argument" in p else self.scratch[p["scratch"]]
        return home.address + p["offset"] * SIZES.get(p["dtype"], 1)

    def _step(self, step: dict, choice: int):
        if "fill" in step:
            return self.helpers.fill(self.pointer(step["fill"]), step["fill"]["dtype"], step["count"], step["value"])
        if "copy" in step:
            source, target = self.pointer(step["copy"]), self.pointer(step["to"])
            return self.helpers.copy(source, target, step["copy"], step["to"], SIZES.get(step["to"]["dtype"], 1))
        if "choices" in step:
            step = step["choices"][choice % len(step["choices"])]
        return Call(self.kernels[step["kernel"]], step, self.pointer, self._keep)

    def used(self) -> list[LoadedKernel]:
        return [s.kernel for s in self.steps if isinstance(s, Call)]

    def poison(self, word: int) -> None:
        for s in self.scratch:
            s.fill(word)

    def run(self) -> None:
        for step in self.steps:
            step()

    def free(self) -> None:
        for b in (*self.scratch, *self._keep):
            b.free()
