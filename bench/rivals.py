"""Other people's kernels as calls of one form, where their packages are installed.

A competitor takes one set of data and returns a call without arguments, which returns the result, or None where it
writes the last array of the data. It raises `Missing` where its package is not installed: a benchmark says so, and
measures without it.

| package | used for |
|---|---|
| quack-kernels | softmax, RMSNorm, LayerNorm, matmul, matmul + ReLU |
| liger-kernel | softmax, RMSNorm, LayerNorm |
| flash-attn-4 | attention forward and backward, in the CuTe DSL |
| flashinfer-python | attention forward, with its FlashAttention-3 templates |
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
from collections.abc import Callable, Sequence

from bench.common import quick

Competitor = Callable[..., Callable[[], object]]

DISTRIBUTIONS = {
    "quack": "quack-kernels",
    "liger_kernel": "liger-kernel",
    "flashinfer": "flashinfer-python",
    "flash_attn": "flash-attn-4",
}
"""Name on PyPI of each package that is imported here."""


class Missing(Exception):
    """A package is not installed, or does not work with the others that are."""


@functools.cache
def module(name: str):
    """The module. Raises Missing."""
    package = DISTRIBUTIONS[name.split(".")[0]]
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as e:
        if e.name == name.split(".")[0]:
            raise Missing(f"{package} is not installed") from None
        raise Missing(f"{package} needs {e.name}") from None
    except Exception as e:  # another version than the ones it was made for
        raise Missing(f"{package} cannot be imported: {type(e).__name__}: {str(e)[:150]}") from None


def liger(name: str):
    """A module of Liger-Kernel's operators, or None."""
    try:
        return module(f"liger_kernel.ops.{name}")
    except Missing:
        return None


# --- rows ------------------------------------------------------------------------------------------------------------


def quack_softmax(x, out):
    return functools.partial(module("quack.softmax").softmax_fwd, x)


def liger_softmax(x, out):
    forward = module("liger_kernel.ops.softmax")._softmax_forward
    return lambda: forward(x)[0]


def quack_rms_norm(eps: float) -> Competitor:
    def competitor(x, w, out):
        forward = module("quack.rmsnorm").rmsnorm_fwd
        return lambda: forward(x, w, eps=eps)[0]

    return competitor


def liger_rms_norm(eps: float) -> Competitor:
    def competitor(x, w, out):
        forward = module("liger_kernel.ops.rms_norm").rms_norm_forward
        return lambda: forward(x, w, eps, 0.0, "llama", None)[0]

    return competitor


def quack_layer_norm(eps: float) -> Competitor:
    """Its weights are fp32."""

    def competitor(x, w, b, out):
        return functools.partial(module("quack.rmsnorm").layernorm_fwd, x, w.float(), b.float(), eps)

    return competitor


def liger_layer_norm(eps: float) -> Competitor:
    def competitor(x, w, b, out):
        forward = module("liger_kernel.ops.layer_norm").layer_norm_forward
        return lambda: forward(x, w, b, eps)[0]

    return competitor


def quack_chain(eps: float) -> Competitor:
    """x + residual and its norm in one kernel, SiLU in a second one."""

    def competitor(x, residual, w, out):
        import torch

        forward = module("quack.rmsnorm").rmsnorm_fwd
        return lambda: torch.nn.functional.silu(forward(x, w, residual=residual, eps=eps)[0], inplace=True)

    return competitor


# --- matrix products -------------------------------------------------------------------------------------------------


def quack_configs() -> list:
    """quack's configurations for Hopper, among which its tuner chooses."""
    return [c for c in module("quack.gemm_config").get_all_configs() if c.device_capacity == 9]


def named(config) -> str:
    kind = "ping-pong" if config.pingpong else "cooperative"
    said = f"{config.tile_m} × {config.tile_n} {kind}, clusters of {config.cluster_m} × {config.cluster_n}"
    return said + ", swapped" * config.swap_ab + f", K in {config.split_k} parts" * (config.split_k > 1)


def quack_matmul(config=None) -> Competitor:
    """With its default configuration, or the one given. Where K is split, the parts are added in order."""

    def competitor(a, b, c):
        product = module("quack.gemm_interface").gemm_tuned.fn

        def call() -> None:
            product(a, b, c, config=config, split_k=None if config else 1)

        return call

    return competitor


def quack_relu(config=None) -> Competitor:
    def competitor(a, b, c):
        product = module("quack.gemm_interface").gemm_act

        def call() -> None:
            product(a, b, activation="relu", postact_out=c, store_preact=False, tuned=False, config=config)

        return call

    return competitor


SPLIT = (2, 4, 8, 16)


def tuned(watch, kind: Callable[[object], Competitor], split: bool = False) -> Competitor:
    """The fastest of quack's configurations for these shapes and layouts, of `quack_matmul` or `quack_relu`.

    With `split`, also with K in parts, as quack's tuner does where there are few tiles: of the best six.
    """

    def choose(*data):
        order = by_speed(watch, kind, quack_configs(), data)
        if split:
            depth = data[0].shape[1] // 64
            parts = [dataclasses.replace(o, split_k=s) for o in order[:6] for s in SPLIT if 2 * s <= depth]
            order = by_speed(watch, kind, order[:1] + parts, data)
        print(f"  quack's fastest configuration: {named(order[0])}", flush=True)
        return kind(order[0])

    return chosen_once(choose)


def chosen_once(choose: Callable[..., Competitor]) -> Competitor:
    """The competitor that choose(*data) returned for the first data of these shapes and layouts."""
    chosen: dict[tuple, Competitor] = {}

    def competitor(*data):
        key = tuple((x.shape, x.stride()) for x in data)
        if key not in chosen:
            chosen[key] = choose(*data)
        return chosen[key](*data)

    return competitor


def by_speed(watch, kind: Callable[[object], Competitor], configs: Sequence, data: tuple) -> list:
    """The configurations that work, the fastest first, by a few turns. Raises RuntimeError where none does."""
    good, problem = {}, None
    for config in configs:
        call = kind(config)(*data)
        try:
            call()
            good[config] = [call]
        except Exception as e:
            problem = e
    if not good:
        raise RuntimeError(f"no configuration works: {type(problem).__name__}: {str(problem)[:200]}")
    rates = quick(watch, good, 1.0)
    return sorted(rates, key=rates.__getitem__, reverse=True)


# --- attention -------------------------------------------------------------------------------------------------------


def tokens_first(*arrays) -> list:
    """(B, H, N, D) as contiguous (B, N, H, D)."""
    return [x.detach().transpose(1, 2).contiguous() for x in arrays]


def flash_attn_4(q, k, v, causal: bool):
    """Arrays (B, H, N, D); so is the result."""
    forward = module("flash_attn.cute.interface")._flash_attn_fwd
    arrays = tokens_first(q, k, v)
    return lambda: forward(*arrays, causal=causal, return_lse=True)[0].transpose(1, 2)


def flash_attn_4_backward(q, k, v, dout, causal: bool):
    """dq, dk and dv, (B, H, N, D)."""
    import torch

    interface = module("flash_attn.cute.interface")
    q, k, v, dout = tokens_first(q, k, v, dout)
    out, lse = interface._flash_attn_fwd(q, k, v, causal=causal, return_lse=True)[:2]
    gradients = [torch.empty_like(x) for x in (q, k, v)]

    def call():
        dq, dk, dv = gradients
        interface._flash_attn_bwd(q, k, v, out, dout, lse, causal=causal, dq=dq, dk=dk, dv=dv)
        return [x.transpose(1, 2) for x in gradients]

    return call


@functools.cache
def flashinfer_workspace():
    import torch

    return torch.empty(128 * 2**20, dtype=torch.uint8, device="cuda")


def flashinfer_fa3(q, k, v, causal: bool):
    """Its FlashAttention-3 templates on sequences one after another. The plan is made once, outside of the time."""
    import torch

    (B, H, N, D) = q.shape
    wrapper = module("flashinfer").BatchPrefillWithRaggedKVCacheWrapper(flashinfer_workspace(), backend="fa3")
    starts = torch.arange(B + 1, device=q.device, dtype=torch.int32) * N
    wrapper.plan(starts, starts, H, H, D, causal=causal, q_data_type=q.dtype)
    arrays = [x.flatten(0, 1) for x in tokens_first(q, k, v)]
    return lambda: wrapper.run(*arrays).view(B, N, H, D).transpose(1, 2)
