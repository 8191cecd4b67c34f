"""LeetCUDA (xlite-dev): kernels from elementwise to FlashAttention."""

import functools

import numpy as np

from ..cuda import Case, f16, f32, normal, out

case = functools.partial(Case, "LeetCUDA")

CASES: list[Case] = []

VARIANTS = {
    "f32": (f32, 1),
    "f32x4": (f32, 4),
    "f16": (f16, 1),
    "f16x2": (f16, 2),
    "f16x8": (f16, 8),
    "f16x8_pack": (f16, 8),
}


def elementwise(folder, name, reference, **more):
    """A function of one array in six variants: types, and elements for each thread."""
    for variant, (dtype, width) in VARIANTS.items():
        CASES.append(
            case(
                f"kernels/{folder}/{name}.cu",
                f"{name}_{variant}_kernel",
                grid=8,
                block=256 // width,
                arguments=dict(x=normal(2048, dtype=dtype), y=out(2048, dtype=dtype), N=2048),
                expect=reference,
                **more,
            )  # fmt: skip
        )


elementwise("relu", "relu", lambda x: np.maximum(x, 0))
