"""Hunts: kernels of earlier units with a bug in them. The learner names line and cause, then fixes the kernel.

A hunt's fix is checked like the exercise that the kernel comes from. Of the answers, only hashes are here: the file
`hunt_answers.json`, which `python -m grader build` writes (`grader/course/hunts.py`).
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..spec.bounds import Bound
from ..spec.exercise import Case, KernelExercise, PlainExercise, Points, register, registered

# The exercises that the kernels come from are registered first.
from . import (  # noqa: F401
    block_kernels,
    coalescing,
    debugging,
    decode_kernels,
    elementwise_cuda,
    elementwise_triton,
    flash_attention,
    flash_backward,
    flash_cuda,
    fusion_dropout,
    fusion_norms,
    launch_overhead,
    low_precision,
    low_precision_blocks,
    low_precision_matmul,
    matmul_cuda,
    matmul_hopper,
    matmul_triton,
    online_softmax,
    profile_repair,
    reduction,
    scan,
    shared_memory,
    softmax,
)

LEAST = 0.25
"""Points for each count that the bug leaves as it is, and for right results where the bug leaves these."""

ANSWERS = Path(__file__).with_name("hunt_answers.json")


@dataclass(frozen=True)
class Hunt:
    """A kernel with a bug: its title, and the exercise it comes from, whose bounds on counts a fix must keep. `missed`:
    the texts of the bounds that the kernel misses, if its results are right."""

    title: str
    kernel: str
    missed: tuple[str, ...] = ()

    def points(self, bounds: tuple[Bound, ...]) -> Points:
        """What the fix earns: most of it is for what is wrong, and nothing for the kernel as it is released."""
        if not self.missed:
            kept = tuple(replace(b, points=LEAST) for b in bounds)
            return Points(correct=1 - LEAST * len(kept), bounds=kept)
        kept = tuple(replace(b, points=2 / len(self.missed) if b.text in self.missed else LEAST) for b in bounds)
        return Points(correct=LEAST, bounds=kept, needs=self.missed)


@dataclass(frozen=True)
class HuntUnit:
    """The hunts of one notebook by name, and the causes that it offers."""

    hunts: Mapping[str, Hunt]
    causes: tuple[str, ...]


UNITS: dict[str, HuntUnit] = {
    "08_hunt": HuntUnit(
        {
            "bias_scale": Hunt("Bias and scale", "06_elementwise_triton/bias_scale"),
            "gelu": Hunt(
                "GeLU with 16-byte accesses",
                "07_elementwise_cuda/gelu",
                missed=(
                    "bytes per load request",
                    "bytes per store request",
                ),
            ),
            "transpose": Hunt("A transpose", "08_coalescing/transpose"),
        },
        (
            "wrong stride",
            "repeated work",
            "swapped sizes",
            "missing barrier",
            "overflow",
            "missing mask",
            "lanes far apart",
            "too few bits",
        ),
    ),
    "09_hunt": HuntUnit(
        {
            "gelu_backward": Hunt("The gradient of GeLU", "06_elementwise_triton/gelu_backward"),
            "row_scale": Hunt("A factor for each row", "07_elementwise_cuda/row_scale"),
            "repair_matmul": Hunt("A matmul with coalesced accesses", "08_coalescing/repair_matmul"),
        },
        (
            "overflow",
            "missing guard",
            "wrong axis of the grid",
            "precision",
            "uncoalesced access",
            "off by one",
            "wrong stride",
            "missing factor",
        ),
    ),
    "10_hunt": HuntUnit(
        {
            "conv1d": Hunt("A convolution", "09_shared_memory/conv1d"),
            "transpose_padded": Hunt(
                "A transpose of 64 × 64 tiles",
                "09_shared_memory/transpose_padded",
                missed=("wavefronts per ideal wavefront, shared loads",),
            ),
            "smooth": Hunt("Repeated smoothing", "09_shared_memory/fix_race"),
        },
        (
            "loop ends early",
            "bank conflict",
            "barrier for a warp only",
            "barrier in a branch",
            "missing guard",
            "wrong stride",
            "uncoalesced access",
            "missing accumulation",
        ),
    ),
    "11_hunt": HuntUnit(
        {
            "tree": Hunt("Two elements per thread", "10_reduction/sum_v4"),
            "scan": Hunt("Prefix sums", "10_scan/scan"),
            "histogram": Hunt("A histogram", "10_scan/histogram"),
        },
        (
            "blocks overlap",
            "missing barrier",
            "missing atomic",
            "bank conflict",
            "missing guard",
            "wrong shuffle mask",
            "uninitialized shared memory",
            "last step missing",
        ),
    ),
    "12_hunt": HuntUnit(
        {
            "softmax": Hunt("One row per program", "11_softmax/softmax"),
            "warp_softmax": Hunt("One row per warp", "11_softmax/warp_softmax"),
            "block_softmax": Hunt("One row per block", "11_softmax/block_softmax"),
        },
        (
            "too few bits",
            "result in one lane only",
            "buffer reused too early",
            "maximum not subtracted",
            "padded lanes",
            "wrong stride",
            "missing mask",
            "barrier in a branch",
        ),
    ),
    "13_hunt": HuntUnit(
        {
            "online_softmax": Hunt("Softmax in blocks", "12_online_softmax/online_softmax"),
            "layer_norm": Hunt("LayerNorm", "13_fusion/layer_norm"),
            "dropout_gelu": Hunt("Dropout after GELU", "13_fusion_dropout/dropout_gelu"),
            "split_softmax": Hunt("Softmax in two launches", "12_online_softmax/split_softmax"),
        },
        (
            "missing rescale",
            "cancellation",
            "repeated random numbers",
            "padded lanes",
            "wrong divisor",
            "wrong stride",
            "too few programs",
            "maximum not subtracted",
        ),
    ),
    "15_hunt": HuntUnit(
        {
            "matmul_relu": Hunt("Matmul with ReLU", "14_matmul_triton/matmul_relu"),
            "linear": Hunt("Tiles in groups", "14_matmul_triton/linear"),
            "split_k": Hunt("Split-K", "14_matmul_triton_persistent/split_k"),
        },
        (
            "wrong tile size",
            "partial group of tiles",
            "missing barrier",
            "missing accumulation",
            "too few bits",
            "missing mask",
            "swapped strides",
            "epilogue in the loop",
        ),
    ),
    "16_hunt": HuntUnit(
        {
            "shared": Hunt("Tiles in shared memory", "15_matmul_cuda/shared"),
            "register": Hunt("Tiles in registers", "15_matmul_cuda/register"),
            "double": Hunt("Two buffers", "15_matmul_cuda_vector/double"),
        },
        (
            "missing barrier",
            "load and store disagree",
            "wrong buffer",
            "missing guard",
            "bank conflict",
            "loop ends early",
            "misaligned access",
            "swapped sizes",
        ),
    ),
    "17_hunt": HuntUnit(
        {
            "forward": Hunt("Whole tiles", "17_flash_attention/forward"),
            "ragged": Hunt("Any lengths", "17_flash_attention/ragged"),
            "flash": Hunt("Causal attention", "17_flash_attention/flash"),
        },
        (
            "mixed logarithms",
            "padding takes part",
            "skipped tiles",
            "missing rescale",
            "scale missing",
            "wrong causal edge",
            "wrong head",
            "missing mask on a store",
        ),
    ),
    "18_hunt": HuntUnit(
        {
            "delta": Hunt("delta", "18_flash_backward/delta"),
            "dkdv": Hunt("dk and dv", "18_flash_backward/dkdv"),
            "dq": Hunt("dq", "18_flash_backward/dq"),
        },
        (
            "too few bits",
            "wrong factor",
            "wrong causal edge",
            "wrong sign",
            "missing rescale",
            "missing mask",
            "missing accumulation",
            "wrong head",
        ),
    ),
    "19_hunt": HuntUnit(
        {
            "scale": Hunt("Scale a matrix", "16_matmul_hopper/scale"),
            "tile": Hunt("One tile at a time", "16_matmul_hopper/tile"),
            "ring": Hunt("A ring of tiles", "16_matmul_ring/ring"),
        },
        (
            "missing fence",
            "wrong parity",
            "stage released too early",
            "wrong number of bytes",
            "missing barrier",
            "accumulators reset",
            "too many arrivals",
            "wrong rows of A",
        ),
    ),
    "20_hunt": HuntUnit(
        {
            "partial": Hunt("A part of the keys", "19_decode_attention/partial"),
            "paged": Hunt("A paged cache", "19_decode_attention/paged"),
            "scalar": Hunt("Attention with shuffles", "20_flash_cuda/scalar"),
            "tensor": Hunt("Attention on tensor cores", "20_flash_cuda/tensor"),
        },
        (
            "wrong sequence",
            "32-bit overflow",
            "wrong lane",
            "off by one",
            "padding takes part",
            "missing rescale",
            "wrong page",
            "missing barrier",
        ),
    ),
    "23_hunt": HuntUnit(
        {
            "chain": Hunt("A chain of updates", "21_launch_overhead/chain"),
            "quantize_rows": Hunt("Rows in 8 bits", "22_low_precision/quantize_rows"),
            "dequantize": Hunt("Numbers of 4 bits", "22_sub_byte/dequantize"),
            "fp8_matmul": Hunt("Matmul in fp8", "22_low_precision/fp8_matmul"),
        },
        (
            "wrong stride",
            "sign ignored",
            "swapped halves",
            "division by zero",
            "rounding to nearest missing",
            "loop ends early",
            "wrong block's scale",
            "missing mask",
        ),
    ),
    "25_hunt": HuntUnit(
        {
            "rope": Hunt("RoPE", "24_block_kernels/rope"),
            "rms_norm_backward": Hunt("RMSNorm's backward pass", "24_block_kernels/rms_norm_backward"),
            "swiglu": Hunt("SwiGLU", "24_block_kernels/swiglu"),
            "interleave": Hunt("Channels of a recording", "25_profile/interleave", missed=("share of active lanes",)),
        },
        (
            "wrong position",
            "last row missing",
            "rounded too early",
            "swapped halves",
            "wrong stride",
            "wrong divisor",
            "missing mask",
            "divergent lanes",
        ),
    ),
}


def is_hunt(exercise_id: str) -> bool:
    """Is it a kernel with a bug?"""
    unit, _, name = exercise_id.partition("/")
    return unit in UNITS and name in UNITS[unit].hunts


def digest(hunt: str, kind: str, answer: Any) -> str:
    """A hash of an answer: enough that nobody reads it by accident. `kind` is "line" or "cause"."""
    return hashlib.sha256(f"{hunt}\0{kind}\0{answer}".encode()).hexdigest()[:16]


@functools.cache
def stored() -> Mapping[str, Mapping[str, list[str]]]:
    """The hashes of the answers by hunt."""
    return json.loads(ANSWERS.read_text(encoding="utf-8"))


def examine(unit: str, hunt: str, yours: Any) -> tuple[str, str] | None:
    """What is wrong with an answer and what to try, or None."""
    name, causes = f"{unit}/{hunt}", UNITS[unit].causes
    form = f'Return a dict such as `{{"line": 12, "cause": "{causes[0]}"}}`.'
    if not isinstance(yours, dict) or set(yours) != {"line", "cause"}:
        return f"bug({hunt!r}) returned no line and cause", form
    line, cause = yours["line"], yours["cause"]
    if isinstance(line, bool) or not isinstance(line, int) or not 0 < line < 1000:
        return f"bug({hunt!r}) names no line", "Count the lines of the kernel's cell from 1, as the cell was released."
    if not isinstance(cause, str) or cause not in causes:
        return f"bug({hunt!r}) names none of the causes", f"The causes are: {', '.join(causes)}."
    known = stored()[name]
    is_line, is_cause = digest(name, "line", line) in known["lines"], digest(name, "cause", cause) in known["cause"]
    if is_line and is_cause:
        return None
    if is_line:
        return (
            f"bug({hunt!r}): the line is right, the cause is not",
            "What does this line do to the elements that are wrong, or to the count that is missed?",
        )
    if is_cause:
        return (
            f"bug({hunt!r}): the cause is right, the line is not",
            "Look for the line where the bug is, not for a line that uses its result.",
        )
    return (
        f"bug({hunt!r}): neither line {line} nor the cause is right",
        "Take one case that fails and one that does not. Which lines do they run differently?",
    )


def _register(unit: str, of: HuntUnit) -> None:
    for name, hunt in of.hunts.items():
        source = registered()[hunt.kernel]
        assert isinstance(source, KernelExercise)
        register(replace(source, id=f"{unit}/{name}", title=hunt.title, points=hunt.points(source.points.bounds)))
    register(
        PlainExercise(
            id=f"{unit}/bug",
            title="Line and cause of each bug",
            entry="bug",
            points=Points(correct=len(of.hunts)),
            cases=tuple(Case(name, {"hunt": name}) for name in of.hunts),
            examine=lambda sizes, arguments, yours: examine(unit, sizes["hunt"], yours),
        )
    )


for _unit, _of in UNITS.items():
    _register(_unit, _of)
