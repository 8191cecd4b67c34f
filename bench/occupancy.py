"""The occupancy calculator beside the driver's own answer, for every CUDA C++ kernel of the course.

    python -m bench.occupancy [--json FILE]

Needs a CUDA GPU. For each kernel: are its registers and shared memory, read out of the cubin, what the driver reports,
and is the number of resident blocks the driver's for many block sizes and amounts of dynamic shared memory?
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from grader.course.solutions import ROOT, load, solution_text
from labutils import cuda
from labutils.cuda import cubin
from labutils.gpu import device
from labutils.gpu.occupancy import occupancy
from labutils.lessons import hardware

THREADS = (32, 64, 96, 128, 160, 192, 256, 320, 384, 512, 640, 768, 1024)
DYNAMIC = (0, 1000, 4 << 10, 8 << 10, 12345, 16 << 10, 24 << 10, 32 << 10, 48 << 10, 64 << 10, 96 << 10, 160 << 10)


def kernels() -> Iterator[tuple[str, cuda.Kernel]]:
    """(unit, kernel) of every CUDA C++ kernel in the solutions, and those that measure the hardware."""
    for text, names in (
        (hardware.CHASE, ("chase<true>", "chase_shared", "chase_register")),
        (hardware.READ, ("read_global<true>", "read_shared", "multiply_add")),
        (hardware.COPY, ("copy_kernel<1>", "copy_kernel<4>")),
    ):
        yield from (("hardware", cuda.compile(text, name)) for name in names)
    for unit in sorted(p.parent.name for p in (ROOT / "solutions").glob("*/*.py") if p.stem == p.parent.name):
        text = solution_text(unit)
        if "lab.cuda.compile" not in text:
            continue
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, f"{unit}.py")
            path.write_text(text, encoding="utf-8")
            module = load(str(path))
        yield from ((unit, k) for k in vars(module).values() if isinstance(k, cuda.Kernel))


def compare(unit: str, kernel: cuda.Kernel) -> dict:
    """How often calculator and driver agree on one kernel, with every disagreement."""
    from cuda.bindings import driver

    number = device.current().sm
    function = cuda.kernel._function(kernel, number)

    def attribute(name: str) -> int:
        which = getattr(driver.CUfunction_attribute, f"CU_FUNC_ATTRIBUTE_{name}")
        return int(cuda.kernel._ok(driver.cuFuncGetAttribute(which, function)))

    registers, static, most = (attribute(a) for a in ("NUM_REGS", "SHARED_SIZE_BYTES", "MAX_THREADS_PER_BLOCK"))
    compiled = kernel.compiled(number)
    read = cubin.resources(compiled.cubin)[compiled.lowered[kernel.name]]
    limits = device.current().limits
    tried, differ = 0, []
    # Blocks of a cluster: at one or two warps an H200's driver answers 4 where cuda_occupancy.h has room for 12. Such a
    # kernel comes in blocks of one size, and that one is compared.
    in_clusters = any(i.opcode.startswith("UCGABAR") for code in cubin.sass(compiled.cubin).values() for i in code)
    for threads in (most,) if in_clusters else (t for t in THREADS if t <= most):
        for dynamic in (d for d in DYNAMIC if static + d <= limits.shared_per_block_kb * 1024):
            theirs = int(
                cuda.kernel._ok(driver.cuOccupancyMaxActiveBlocksPerMultiprocessor(function, threads, dynamic))
            )
            ours = occupancy(limits, threads, registers, static + dynamic).blocks
            tried += 1
            if ours != theirs:
                differ.append({"threads": threads, "dynamic": dynamic, "ours": ours, "driver": theirs})
    return {
        "unit": unit,
        "kernel": kernel.name,
        "registers": registers,
        "shared": static,
        "read_equal": (read.registers, read.shared) == (registers, static),
        "read": [read.registers, read.shared],
        "tried": tried,
        "equal": tried - len(differ),
        "differ": differ[:8],
    }


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.occupancy", description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, help="also write the figures here")
    arguments = parser.parse_args()
    if not device.has_gpu():
        print("There is no GPU here to ask. The tests compare the calculator with NVIDIA's header in its place.")
        return 0
    rows = [compare(unit, kernel) for unit, kernel in kernels()]
    for row in rows:
        print(
            f"{row['unit']:24} {row['kernel']:28} {row['registers']:3} registers, {row['shared']:6} bytes; "
            f"equal {row['equal']}/{row['tried']}" + ("" if row["read_equal"] else f"; the cubin says {row['read']}")
        )
        for d in row["differ"]:
            print(f"    {d}")
    tried, equal = sum(r["tried"] for r in rows), sum(r["equal"] for r in rows)
    same = sum(r["read_equal"] for r in rows)
    print(
        f"\n{device.current().name}: {equal} of {tried} equal to the driver; resources of {same} of {len(rows)} kernels"
    )
    if arguments.json:
        figures = {"gpu": device.current().name, "tried": tried, "equal": equal, "kernels": len(rows), "same": same}
        arguments.json.write_text(json.dumps({**figures, "rows": rows}, indent=1), encoding="utf-8")
    return 0 if equal == tried and same == len(rows) else 1


if __name__ == "__main__":
    sys.exit(main())
