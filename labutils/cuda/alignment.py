"""`lab.aligned` and `lab.padded`: tensors as accesses of 16 bytes want them.

16 bytes are the most that one instruction loads or stores for a thread (a `float4`, eight halves), and the unit that
copy engines count in. Hardware takes them only at addresses that are multiples of 16; so must be the distances in bytes
between rows, if every row is to be read that way. A new tensor begins at such an address. A slice like `x[1:]` may not,
and rows of 33 halves, 66 bytes apart, do not.

    room = lab.aligned(out, keep=False)    # the kernel writes there …
    if room is not out:
        out.copy_(room)                    # … and the caller finds it here
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

VECTOR = 16
"""Bytes of the widest access of a thread."""


def aligned(x: torch.Tensor, keep: bool = True) -> torch.Tensor:
    """x (…, N) itself, if it and each of its rows begin at multiples of 16 bytes; else a copy of which that is true.

    That is what tensor descriptors and `lab.tensor_map` ask for. A copy has the shape of x; between its rows may lie a
    few elements that belong to nobody. Without `keep` it is only room of that shape, for results.
    """
    unit = VECTOR // x.element_size()
    if x.stride(-1) == 1 and not any(step % unit for step in x.stride()[:-1]) and x.data_ptr() % VECTOR == 0:
        return x
    *rows, N = x.shape
    room = x.new_empty(*rows, N + -N % unit)[..., :N]
    if keep:
        wide = _widest(x)
        room.view(wide).copy_(x.view(wide))
    return room


def _widest(x: torch.Tensor) -> torch.dtype:
    """The widest integers of which each row of x (…, N) is made: copies move one at a time."""
    import torch

    size = x.element_size()
    starts = x.data_ptr(), *(size * n for n in (x.shape[-1], x.storage_offset(), *x.stride()[:-1]))
    for wide in (torch.int64, torch.int32, torch.int16):
        if wide.itemsize > size and x.stride(-1) == 1 and not any(n % wide.itemsize for n in starts):
            return wide
    return x.dtype


def padded(x: torch.Tensor, keep: bool = True, rows: bool = False) -> torch.Tensor:
    """x (M, N) itself, if it is one run of whole vectors of 16 bytes; else a copy with zeros to the right of x.

    For kernels that know sizes, but no strides: N becomes a multiple of a vector's length, and with `rows` M does too,
    by zeros below. Products along a padded axis add 0 · 0. Without `keep` all of it is zeros: room for results.
    """
    unit = VECTOR // x.element_size()
    M, N = x.shape
    shape = M + -M % unit if rows else M, N + -N % unit
    if x.shape == shape and x.stride() == (shape[1], 1) and x.data_ptr() % VECTOR == 0:
        return x
    room = x.new_zeros(shape)
    if keep:
        room[:M, :N] = x
    return room
