"""The compiler process: reads launch specs as JSON, compiles each for each target without a GPU, prints JSON.

Runs as a script of its own and imports nothing of labutils, so that it starts in a fraction of a second.
"""

import importlib.util
import json
import os
import sys
import tempfile


def compile_one(spec: dict, target: int) -> dict:
    import triton
    import triton.language as tl
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    with tempfile.NamedTemporaryFile("w", suffix=".py", delete=False) as f:
        f.write(spec["module"])
    try:
        module_spec = importlib.util.spec_from_file_location("learner", f.name)
        module = importlib.util.module_from_spec(module_spec)
        module_spec.loader.exec_module(module)
        kernel = getattr(module, spec["kernel"])
        while not isinstance(kernel, triton.JITFunction):  # autotune and heuristics wrap the kernel
            kernel = kernel.fn
        names = list(spec["signature"])
        constants = {
            (names.index(k),): tl.dtype(v["dtype"]) if isinstance(v, dict) else v for k, v in spec["constants"].items()
        }
        attrs = {(names.index(k),): [["tt.divisibility", 16]] for k in spec["aligned"]}
        source = ASTSource(fn=kernel, signature=spec["signature"], constexprs=constants, attrs=attrs)
        done = triton.compile(source, target=GPUTarget("cuda", target, 32), options=spec["options"])
        return {"shared": done.metadata.shared, "num_warps": done.metadata.num_warps}
    finally:
        os.unlink(f.name)


def main() -> None:
    job = json.load(sys.stdin)
    sys.path[:0] = [p for p in job["path"] if p not in sys.path]
    results = []
    for number, spec in enumerate(job["specs"]):
        for target in job["targets"]:
            result = {"spec": number, "kernel": spec["kernel"], "target": target}
            try:
                result["resources"] = compile_one(spec, target)
            except Exception as e:  # any refusal is a result; the parent turns it into a sentence
                result["error"] = f"{e}\n{e.__cause__ or ''}".strip() or type(e).__name__
            results.append(result)
            if "error" in result:
                break
    print("\n" + json.dumps(results))


if __name__ == "__main__":
    main()
