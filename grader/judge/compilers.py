"""What the sandboxed compilers say of kernels: a refusal, or machine code as the runner wants it."""

from __future__ import annotations

import json
from collections.abc import Callable

from grader.judge import plan, wire
from grader.judge.sandbox import Died, Sandbox
from labutils.backends import Problem, offline

Compiled = dict | Problem | str | None
"""A kernel for the runner, a refusal, a sentence on why there is neither; None where compiling was all to be done."""


def checked(box: Sandbox, specs: list[dict], targets) -> list[Compiled]:
    """Triton kernels compiled for each target, only to see whether they can be."""
    job = {"specs": specs, "targets": list(targets)}
    return _each(box, job, lambda spec, reply: offline.problem_of(reply, box.noise()))


def triton(box: Sandbox, specs: list[dict], target: int) -> list[Compiled]:
    """Triton kernels as machine code for one GPU."""

    def made(spec: dict, reply: dict) -> Compiled:
        return offline.problem_of(reply, box.noise()) or _triton_kernel(spec, reply["targets"][str(target)])

    return _each(box, {"specs": [s | {"keep": True} for s in specs], "targets": [target]}, made)


def cuda(box: Sandbox, specs: list[dict], target: int) -> list[Compiled]:
    """CUDA C++ kernels as machine code for one GPU."""

    def made(spec: dict, reply: dict) -> Compiled:
        if "error" in reply:
            return Problem("does-not-compile", f"the kernel does not compile: {reply['error']}")
        return _cuda_kernel(spec, reply)

    return _each(box, {"specs": specs, "capability": target}, made)


def _each(box: Sandbox, job: dict, made: Callable[[dict, dict], Compiled]) -> list[Compiled]:
    """What `made` makes of the compiler's answer to each of the job's specs, in their order."""
    results, missing = [], "the compiler gave no answer"
    try:
        for line in box.answers(json.dumps(job).encode()):
            results.append(_reply(line))
    except Died as e:  # a kernel that no compiler can finish is none for a GPU, however it runs in an interpreter
        why = plan.text(str(e), 300)
        missing = Problem("does-not-compile", f"the compiler came to no end with this kernel: {why}")
    except (ValueError, AttributeError, RecursionError):
        missing = "the compiler's answer could not be read"
    compiled: list[Compiled] = []
    for number, spec in enumerate(job["specs"]):
        try:
            compiled.append(made(spec, results[number]) if number < len(results) else missing)
        except offline.CompilerFailed as e:
            compiled.append(str(e))
    return compiled


def _reply(line: bytes) -> dict:
    """What the compiler says of one kernel, its messages cut. A message names C++ types in full, and a type's name can
    double with each template around it: a short kernel brings fifty megabytes of it, which no pattern should meet."""
    reply = json.loads(line)
    return reply | {k: wire.shown(v) for k, v in reply.items() if k in ("error", "failed")}


def _triton_kernel(spec: dict, made: dict) -> dict:
    meta = made["metadata"]
    kinds = [(n, _kind(t)) for n, t in spec["signature"].items() if t != "constexpr"]
    cluster = meta.get("cluster_dims") or (1, 1, 1)
    if (ctas := meta.get("num_ctas") or 1) > 1:
        cluster = (ctas, 1, 1)
    return {
        "cubin": made["cubin"],
        "symbol": meta["name"],
        "warps": meta["num_warps"],
        "shared": meta["shared"],
        "abi": kinds,
        "scratch_bytes": meta.get("global_scratch_size") or 0,
        "cluster": list(cluster),
        "cooperative": bool(meta.get("launch_cooperative_grid")),
        "descriptors": meta.get("tensordesc_meta"),
    }


def _kind(type_name: str) -> str:
    if type_name.startswith("*"):
        return "pointer"
    if type_name.startswith("tensordesc"):
        return "descriptor"
    return "float" if type_name.startswith(("fp", "bf")) else "int"


def _cuda_kernel(spec: dict, made: dict) -> dict:
    grid_wide = "grid.sync" in spec["source"] or "this_grid" in spec["source"]
    abi = [tuple(parameter) for parameter in spec["abi"]]
    return {"cubin": made["cubin"], "symbol": made["symbol"], "shared": None, "abi": abi, "cooperative": grid_wide}
