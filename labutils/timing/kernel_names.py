"""Reading the names of GPU kernels: who wrote it, for which architecture, what it computes, with which tile.

Libraries put their choices into names. Nothing promises that they stay so: what a name does not say is None.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

GENERATIONS = {
    "kepler": 35, "maxwell": 50, "pascal": 60, "volta": 70, "turing": 75, "ampere": 80, "ada": 89, "hopper": 90,
}  # fmt: skip
NVJET_TYPES = {"h": "fp16", "t": "bf16", "s": "fp32", "q": "fp8", "d": "fp64", "o": "fp8"}

UNKNOWN = "your own, or a library not known here"


@dataclass(frozen=True)
class KernelName:
    """What a name tells. `architecture` is the oldest GPU that it was built for, as 80 for sm_80."""

    name: str
    library: str
    operation: str
    architecture: int | None = None
    tile: tuple[int, ...] | None = None
    types: str | None = None
    pipe: str | None = None
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        parts = [f"{self.library}: {self.operation}"]
        if self.types:
            parts.append(self.types)
        if self.tile:
            parts.append("tile " + "×".join(map(str, self.tile)))
        if self.pipe:
            parts.append(self.pipe)
        if self.architecture:
            parts.append(f"for sm_{self.architecture}")
        return ", ".join([*parts, *self.notes])


def decode(name: str) -> KernelName:
    """Take a kernel's name apart, as `torch.profiler` or Nsight shows it."""
    for rule in RULES:
        if found := rule(name):
            return found
    own = re.sub(r"^void |<.*|\(.*", "", name).strip() or name
    return KernelName(name, UNKNOWN, own)


def short(name: str, width: int = 60) -> str:
    """The name without what makes C++ names long."""
    text = re.sub(r"^void ", "", name)
    text = re.sub(r"at::native::|\(anonymous namespace\)::|c10::", "", text)
    return text if len(text) <= width else text[: width - 1] + "…"


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(n) for n in text.split("x"))


def _type(text: str) -> str:
    """NVIDIA's spellings of types, as we spell them."""
    known = {"f16": "fp16", "h": "fp16", "f32": "fp32", "s": "fp32", "f64": "fp64", "tf32f32": "tf32", "tf32": "tf32"}
    return known.get(text, text)


def _layout(letters: str) -> tuple[str, ...]:
    """A note on "tn" and its like."""
    return (f"operands {letters.upper()}",) if letters else ()


def _xmma(name: str) -> KernelName | None:
    found = re.search(r"sm(\d+)_xmma_(\w+?)_((?:(?:e4m3|e5m2|bf16|tf32|f16|f32|f64|i8|i32)+_){2,3})", name)
    if not found:
        return None
    operation, types = found[2], found[3].strip("_").split("_")
    tile = re.search(r"tilesize(\d+x\d+x\d+)", name)
    first = re.match(r"e4m3|e5m2|bf16|tf32|f16|f32|f64|i8", types[1] if types[1].startswith("tf32") else types[0])[0]
    architecture = int(found[1])
    plain = name.find("_ffma") >= 0
    pipe = "ordinary cores" if plain else "tensor cores (warp-group instructions)" if "warpgroup" in name else None
    if "_tensor" in name:
        pipe = "tensor cores"
    library = "cuDNN" if "cudnn" in name else "cuBLAS"
    layout = re.search(r"_([nt]{2})_[nt]_", name)
    return KernelName(
        name,
        library,
        "matmul" if operation == "gemm" else operation.replace("_", " "),
        architecture,
        _numbers(tile[1]) if tile else None,
        _type(first),
        pipe,
        _layout(layout[1] if layout else ""),
    )


def _nvjet(name: str) -> KernelName | None:
    found = re.match(r"nvjet_(?:sm(\d+)_)?([a-z]+)_(?:mma_)?(\d+x\d+)[x_](\d+)[x_](\d+)(?:_(\d+x\d+)(?=_))?(.*)", name)
    if not found:
        return None
    letters, m_n, k, stages, cluster, rest = found.groups()[1:]
    notes = [f"{stages} stages"]
    if cluster:
        notes.append(f"cluster {cluster.replace('x', '×')}")
    if "splitK" in rest:
        notes.append("K split over blocks")
    if "coop" in rest:
        notes.append("two warp groups share a tile")
    return KernelName(
        name,
        "cuBLAS",
        "matmul" + (" + bias" if "_bias" in rest else ""),
        int(found[1]) if found[1] else 90,
        (*_numbers(m_n), int(k)),
        NVJET_TYPES.get(letters[0]),
        "tensor cores, fed by TMA",
        tuple(notes),
    )


def _by_generation(name: str) -> KernelName | None:
    """ampere_sgemm_128x64_tn, turing_fp16_s1688gemm_fp16_128x128_ldg8_f2f_tn, volta_h884gemm_…"""
    found = re.match(rf"({'|'.join(GENERATIONS)})_(.*?)([a-z]?\d*)gemm(?:_[a-z0-9]+?)??_(\d+x\d+)", name)
    if not found:
        return None
    generation, before, kind, tile = found.groups()
    instruction = kind[1:] if len(kind) > 1 else ""
    named = re.match(r"(fp16|bf16|tf32|fp32|int8)", before) or re.match(r"(tf32)", name.split("gemm")[1].strip("_"))
    types = named[1] if named else {"s": "fp32", "h": "fp16", "d": "fp64", "c": "complex fp32"}.get(kind[:1])
    staged = re.search(r"stages_(\d+)x(\d+)", name)
    size = (*_numbers(tile), int(staged[1])) if staged else _numbers(tile)
    notes = [*([f"{staged[2]} stages"] if staged else []), *_layout(_trailing_layout(name))]
    if "sliced" in name:
        notes.append("K split inside each block")
    if "splitK" in name:
        notes.append("K split over blocks")
    pipe = "tensor cores" if instruction else "ordinary cores"
    return KernelName(name, "cuBLAS", "matmul", GENERATIONS[generation], size, types, pipe, tuple(notes))


def _trailing_layout(name: str) -> str:
    found = re.search(r"_([nt]{2})(?:_|$|<|\()", name)
    return found[1] if found else ""


def _cutlass(name: str) -> KernelName | None:
    """cutlass_80_tensorop_f16_s16816gemm_relu_f16_256x128_32x3_tn_align8, as CUTLASS and cuBLAS build them."""
    found = re.search(r"cutlass(?:3x)?_(?:sm)?(\d+)_(tensorop|simt|wmma_tensorop)_(\w+?)(?:<|>|\(|::|$)", name)
    if not found:
        return None
    architecture, pipe, rest = found.groups()
    tile = (
        re.search(r"_(\d{2,3}x\d{2,3}x\d{2,3})_", rest)
        or re.search(r"_(\d+x\d+)_(\d+)x(\d+)_", rest)
        or re.search(r"_(\d+x\d+)_", rest)
    )
    size, notes = None, []
    if tile and tile.re.groups == 1:
        size = _numbers(tile[1])
    elif tile:
        size = (*_numbers(tile[1]), int(tile[2]))
        notes.append(f"{tile[3]} stages")
    types = re.match(r"(bf16|tf32|f16|f32|f64|i8|e4m3)", rest)
    inner = re.search(r"gemm_(bf16|tf32|f16|f32|f64|e4m3)", rest)
    letter = re.match(r"([shdi])\d*", rest)
    named = types or inner
    element = _type(named[1]) if named else {"s": "fp32", "h": "fp16", "d": "fp64"}.get(letter[1]) if letter else None
    if pipe != "simt" and element == "fp32":
        element = "tf32"  # tensor cores take fp32 operands only as TF32
    operation = "matmul" + (" + relu" if "relu" in rest else "")
    where = "tensor cores" if "tensorop" in pipe else "ordinary cores"
    return KernelName(
        name, "CUTLASS or cuBLAS", operation, int(architecture), size, element, where,
        (*notes, *_layout(_trailing_layout(rest))),
    )  # fmt: skip


def _attention(name: str) -> KernelName | None:
    if found := re.search(r"cudnn_generated_fort_native_sdpa_sm(\d+)_flash_(f|b)prop(?:_(wgmma|wmma|mma))?", name):
        tile = re.search(r"_(\d+x\d+x\d+)_", name)
        kind = "attention" + (" backward" if found[2] == "b" else "")
        types = re.search(r"_(bf16|f16|fp8|e4m3)_", name)
        return KernelName(
            name, "cuDNN", kind, int(found[1]), _numbers(tile[1]) if tile else None,
            _type(types[1]) if types else None, "tensor cores",
        )  # fmt: skip
    if found := re.search(r"fmha_cutlass([FB])_(f16|bf16|f32)_aligned_(\d+x\d+).*?sm(\d+)", name):
        kind = "attention" + (" backward" if found[1] == "B" else "")
        return KernelName(
            name, "PyTorch (memory-efficient attention)", kind, int(found[4]), _numbers(found[3]), _type(found[2])
        )
    if not re.search(r"flash_(fwd|bwd)|FlashAttn|Flash_(fwd|bwd)_kernel", name):
        return None
    backward = re.search(r"bwd|Bwd", name)
    version = "FlashAttention-3" if "Sm90" in name else "FlashAttention-2"
    plain = name.replace("(int)", "")
    traits = re.search(r"kernel_traits<(\d+), *(\d+), *(\d+)", plain)
    notes = (f"head size {traits[1]}",) if traits else ()
    types = "bf16" if re.search(r"bfloat16", name) else "fp16" if re.search(r"half_t", name) else None
    return KernelName(
        name,
        version,
        "attention" + (" backward" if backward else "") + (", split over keys" if "splitkv" in name else ""),
        90 if version.endswith("3") else 80,
        (int(traits[2]), int(traits[3])) if traits else None,
        types,
        "tensor cores",
        notes,
    )


def _inductor(name: str) -> KernelName | None:
    found = re.match(r"triton_(poi|red|per|tem|mm|bmm|convolution\w*|for)_?(?:fused_)?(.*?)_?\d*$", name)
    if not found:
        return None
    kinds = {
        "poi": "elementwise", "red": "reduction in a loop", "per": "reduction in one tile", "tem": "template",
        "for": "several in one launch",
    }  # fmt: skip
    operations = found[2].strip("_").replace("__", "_")
    label = kinds.get(found[1], found[1])
    return KernelName(name, "torch.compile", f"{label} ({operations})" if operations else label)


PYTORCH = (
    (r"vectorized_elementwise_kernel<(?:\(int\))?(\d+)", "elementwise"),
    (r"unrolled_elementwise_kernel", "elementwise, unaligned or of mixed types"),
    (r"elementwise_kernel", "elementwise, strided"),
    (r"reduce_kernel", "reduction"),
    (r"softmax|SoftMax", "softmax"),
    (r"layer_norm|LayerNorm", "layer norm"),
    (r"rms_norm|RMSNorm", "RMS norm"),
    (r"CatArrayBatchedCopy", "concatenate"),
    (r"index|gather|scatter|Gather|Scatter", "indexing"),
    (r"distribution_", "random numbers"),
    (r"multi_tensor_apply_kernel", "optimizer step over many tensors"),
    (r"sort|Sort|topk", "sorting"),
)


def _pytorch(name: str) -> KernelName | None:
    if "at::native" not in name and not re.search(r"(softmax_warp|cunn_SoftMax|CatArrayBatchedCopy)", name):
        return None
    for pattern, operation in PYTORCH:
        if found := re.search(pattern, name):
            vector = f"{found[1]} elements per access" if found.re.groups and found[1] else None
            return KernelName(
                name, "PyTorch", _functor(name, operation), types=_cpp_type(name), notes=(vector,) if vector else ()
            )
    return KernelName(name, "PyTorch", short(re.sub(r"[<(].*", "", name)))


def _functor(name: str, operation: str) -> str:
    """The operation inside: CUDAFunctor_add, GeluCUDAKernelImpl, direct_copy_kernel_cuda."""
    wrappers = "func_wrapper_t|launch_|gpu_kernel_impl|gpu_kernel|legacy::|reduce_kernel|elementwise_kernel"
    inside = re.sub(rf"({wrappers})\w*", "", name)
    found = re.search(
        r"(?:CUDAFunctor_|AUnaryFunctor<.*?|BinaryFunctor<.*?::)?(\w+?)(?:_kernel_cuda|CUDAKernelImpl|CUDAKernel|Functor|"
        r"_functor|Ops|KernelImpl)\b", inside,
    )  # fmt: skip
    add = re.search(r"CUDAFunctor_?(\w+?)<", name)
    what = add[1] if add and add[1] else found[1] if found else ""
    what = what.replace("binary_internal", "").strip("_:")
    return f"{operation} ({what})" if what and what.lower() not in ("cuda", "a", "b", "at") else operation


def _cpp_type(name: str) -> str | None:
    known = {"float": "fp32", "double": "fp64", "c10::Half": "fp16", "c10::BFloat16": "bf16", "__half": "fp16"}
    found = re.search(r"(c10::Half|c10::BFloat16|__half|\bfloat\b|\bdouble\b)", name)
    return known[found[1]] if found else None


def _others(name: str) -> KernelName | None:
    if found := re.match(r"(Memcpy|Memset)\s*(\w*)", name):
        return KernelName(name, "CUDA", "copy " + found[2] if found[1] == "Memcpy" else "fill memory")
    if found := re.match(r"nccl(?:Dev)?Kernel_?(\w+?)_", name):
        return KernelName(name, "NCCL", re.sub(r"(?<!^)([A-Z])", r"-\1", found[1]).lower())
    if "splitKreduce" in name:
        return KernelName(name, "cuBLAS", "sum of the parts of a matmul with split K")
    if re.search(r"gemv|gemvx|dot_kernel|gemmSN|gemmk1", name) and not name.startswith("triton"):
        operation = (
            "dot product" if "dot_kernel" in name else "matrix times vector" if "gemv" in name else "thin matmul"
        )
        return KernelName(name, "cuBLAS", operation, types=_cpp_type(name))
    if "cudnn::" in name:
        return KernelName(name, "cuDNN", re.sub(r"^void |[<(].*", "", name))
    return None


RULES = (_xmma, _nvjet, _by_generation, _attention, _cutlass, _inductor, _others, _pytorch)
