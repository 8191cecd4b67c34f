"""`lab.tensor_map`: what Hopper's copy engine must know of a matrix, as an argument of a CUDA C++ kernel.

    kernel[grid, block](lab.tensor_map(x, (64, 64)), …)      # for `const __grid_constant__ CUtensorMap x`

On a GPU the driver encodes it when the kernel is launched; the emulator gets the same facts in a form of its own.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

BYTES = 128
"""Size of a CUtensorMap."""

EMULATED = 0x70616D5F726F736E
"""First word of a map that the emulator reads."""

TYPES = ("uint8", "int32", "int64", "float16", "bfloat16", "float32", "float64")
"""PyTorch's names of the element types that a map can have. The driver has the same, in capitals."""

SWIZZLES = (0, 32, 64, 128)


def _name(tensor: torch.Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


@dataclass(frozen=True)
class TensorMap:
    """A matrix, the box of (rows, columns) that one copy moves, and the swizzle in bytes (0: none)."""

    tensor: torch.Tensor
    box: tuple[int, int]
    swizzle: int

    def encoded(self) -> bytes:
        """The map as the driver makes it. Needs a GPU."""
        from cuda.bindings import driver as cu

        x = self.tensor
        kind = getattr(cu.CUtensorMapDataType, f"CU_TENSOR_MAP_DATA_TYPE_{_name(x).upper()}")
        swizzle = f"SWIZZLE_{self.swizzle}B" if self.swizzle else "SWIZZLE_NONE"
        status, made = cu.cuTensorMapEncodeTiled(
            kind,
            2,
            x.data_ptr(),
            [cu.cuuint64_t(x.shape[1]), cu.cuuint64_t(x.shape[0])],
            [cu.cuuint64_t(x.stride(0) * x.element_size())],
            [cu.cuuint32_t(self.box[1]), cu.cuuint32_t(self.box[0])],
            [cu.cuuint32_t(1)] * 2,
            cu.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
            getattr(cu.CUtensorMapSwizzle, f"CU_TENSOR_MAP_{swizzle}"),
            cu.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_L2_128B,  # 256 is slower where rows begin anywhere
            cu.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
        )
        if int(status) != 0:
            raise ValueError(f"the driver refused a tensor map of {tuple(x.shape)}, box {self.box}: {status.name}")
        import ctypes

        return ctypes.string_at(made.getPtr(), BYTES)

    def described(self) -> bytes:
        """The map as the emulator reads it."""
        x = self.tensor
        facts = struct.pack(
            "<QQQQQIIII",
            EMULATED,
            x.data_ptr(),
            x.shape[0],
            x.shape[1],
            x.stride(0) * x.element_size(),
            *self.box,
            x.element_size(),
            self.swizzle,
        )
        return facts.ljust(BYTES, b"\0")


def tensor_map(tensor: torch.Tensor, box: tuple[int, int], swizzle: int = 0) -> TensorMap:
    """A kernel's argument for a matrix that is copied in boxes of (rows, columns); `swizzle` is 0, 32, 64 or 128.

    The rules are the copy engine's: columns lie side by side, rows begin at multiples of 16 bytes, a box has at most
    256 rows and columns, and with a swizzle a row of it has at most as many bytes.
    """
    import torch

    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"tensor_map: the first argument must be a tensor, not a {type(tensor).__name__}")
    if _name(tensor) not in TYPES or tensor.ndim != 2:
        raise ValueError(f"tensor_map: a matrix of a plain type, not {tuple(tensor.shape)} of {tensor.dtype}")
    item, (rows, columns) = tensor.element_size(), box
    if tensor.stride(1) != 1 and tensor.shape[1] > 1:
        raise ValueError("tensor_map: the elements of a row must lie side by side (for x.T, give x and turn the box)")
    if tensor.stride(0) * item % 16 or tensor.data_ptr() % 16:
        raise ValueError("tensor_map: the matrix and each of its rows must begin at a multiple of 16 bytes")
    if not (1 <= rows <= 256 and 1 <= columns <= 256) or columns * item % 16:
        raise ValueError(f"tensor_map: a box of {rows} × {columns}: 1 to 256 of each, and rows of whole 16 bytes")
    if swizzle not in SWIZZLES or (swizzle and columns * item > swizzle):
        raise ValueError(f"tensor_map: swizzle {swizzle} must be 0, 32, 64 or 128, and at least a box's row in bytes")
    return TensorMap(tensor, (int(rows), int(columns)), swizzle)
