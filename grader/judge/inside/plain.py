"""Where bubblewrap does not work: one job in a process of its own, with as much of the cage as can be had.

`python -m gpulab_inside.plain PROGRAM BOUNDS [MEMORY]` stays as the job's monitor. Where the kernel gives an ordinary
process namespaces, the job has its own processes, network and shared memory; files are then kept from it by Landlock.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import sys

from . import cage, monitor, namespaces

NO_NAMESPACES = "GPULAB_NO_NAMESPACES"
"""Environment variable: do without, as inside a container that gives none."""


def main(program: str, bounds: dict, memory: int | None) -> None:
    own = False
    if not os.environ.get(NO_NAMESPACES):
        with contextlib.suppress(OSError):
            namespaces.leave()
            own = True

    known = monitor.Bounds.from_json(bounds)

    def work() -> None:
        module = importlib.import_module(f"{__package__}.{program}")
        module.prepare()
        known.bind_beyond()
        if own:
            if not namespaces.own_processes():
                namespaces.no_processes()
            namespaces.mount("tmpfs", "/dev/shm", "size=1g")
            os.environ[cage.READABLE] += f"{os.pathsep}/proc"
            os.environ[cage.WRITABLE] += f"{os.pathsep}/dev/shm"
        namespaces.drop_capabilities()
        module.main(memory)

    monitor.run(work, known, in_own_folders=False)


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else None)
