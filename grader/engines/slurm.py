"""The engine on Slurm through dask-jobqueue: each Slurm job is a Dask worker that connects back by TLS.

Site settings (queue, account, interface, memory) come from ~/.config/dask/jobqueue.yaml as for any dask-jobqueue
cluster; `--slurm` adds directives. Where nodes may not open ports, use the array engine.
"""

from __future__ import annotations

from pathlib import Path

import dask
from dask_jobqueue import SLURMCluster
from distributed import Client

from grader.engines import WORK, NoEngine, tls
from grader.engines.dask import Dask, forgiving
from grader.engines.worker_process import ROOT

START_LIMIT = 600
"""Seconds until the first worker must be there: a queue may be long."""


def open_engine(
    workers: int, out: Path, work: str = WORK, slurm: list[str] | None = None, encrypted: bool = True, **_
) -> Dask:
    site = dask.config.get("jobqueue.slurm", {})
    plain = {"cores": 1, "processes": 1, "memory": "4GB", "walltime": "01:00:00"}
    plain["log_directory"] = str(out / "slurm")
    security = tls.own_security(out / "slurm" / "tls") if encrypted else None
    given = {name: value for name, value in plain.items() if site.get(name.replace("_", "-")) is None}
    try:
        with forgiving():
            cluster = SLURMCluster(
                **given,
                job_extra_directives=[*(site.get("job-extra-directives") or []), *(slurm or [])],
                job_script_prologue=[f"cd {ROOT}", f"export PYTHONPATH={ROOT}:$PYTHONPATH OMP_NUM_THREADS=1"],
                security=security,
                scheduler_options={"dashboard_address": None},
            )
        cluster.scale(workers)
        client = Client(cluster)
        client.wait_for_workers(1, timeout=START_LIMIT)
    except (OSError, RuntimeError, ValueError, TimeoutError) as problem:
        raise NoEngine(f"Slurm did not start a worker: {problem}") from None
    return Dask(client, [cluster], workers, work, None)
