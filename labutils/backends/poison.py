"""What masked lanes of a load without `other` hold, and undefined results: on a GPU anything, here numbers that show.

A kernel that never uses them is not affected.
"""

from __future__ import annotations

import numpy as np
from numpy.random import Generator


def masked_lanes(ptrs, random: Generator):
    """A handle of the loaded type and shape: NaN and the largest numbers of both signs for floats, about a
    million for integers, any bits for small ones and for pointers."""
    import triton.language as tl
    from triton.runtime.interpreter import TensorHandle, _get_np_dtype

    element = ptrs.get_element_ty()
    dtype, shape = np.dtype(_get_np_dtype(element)), ptrs.data.shape
    if dtype.kind == "f":
        most = np.finfo(dtype).max
        values = random.choice(np.array([np.nan, most, -most], dtype), shape)
    elif element.scalar == tl.bfloat16:  # kept as its bits
        values = random.choice(np.array([0x7FC0, 0x7F7F, 0xFF7F], dtype), shape)
    elif dtype.kind == "b":
        values = random.integers(0, 2, shape).astype(bool)
    elif element.is_int() and dtype.itemsize >= 4:  # far off, and a sum of many still fits
        values = (random.integers(1 << 19, 1 << 20, shape) * random.choice([-1, 1], shape)).astype(dtype)
    else:
        values = bits(shape, dtype, random)
    return TensorHandle(np.ascontiguousarray(values), element)


def bits(shape, dtype: np.dtype, random: Generator) -> np.ndarray:
    """Any bits."""
    return np.frombuffer(random.bytes(int(np.prod(shape)) * dtype.itemsize), dtype).reshape(shape)
