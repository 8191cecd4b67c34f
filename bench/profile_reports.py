"""Nsight Compute reports of kernels with a known bottleneck, and timelines of a training step: what unit 25 stores.

    python -m bench.profile_reports --json FILE [--only BOTTLENECK] [--seconds 210] [--no-timelines]
    python -m bench.profile_reports --store FILE    write what the unit reads, from such a file; needs no GPU

Needs a CUDA GPU; without `ncu` only the timelines are made. The profiler runs once for each bottleneck, and FILE is
written after each run, so whatever goes wrong, what was measured before is kept.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import functools
import io
import json
import re
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path

from bench.counters import ncu
from bench.machine import present, versions
from bench.profile_kernels import Plan, plans
from labutils.exercises import _reports, profile_gaps
from labutils.gpu import device

METRICS = (
    "gpu__time_duration.sum",
    "launch__grid_size",
    "launch__block_size",
    "launch__registers_per_thread",
    "launch__shared_mem_per_block_static",
    "launch__shared_mem_per_block_dynamic",
    "launch__waves_per_multiprocessor",
    "sm__maximum_warps_per_active_cycle_pct",
    "sm__warps_active.avg.pct_of_peak_sustained_active",
    "sm__cycles_active.avg",
    "sm__cycles_active.max",
    "sm__cycles_active.min",
    "sm__cycles_elapsed.max",
    "sm__throughput.avg.pct_of_peak_sustained_elapsed",
    "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed",
    "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
    "lts__throughput.avg.pct_of_peak_sustained_elapsed",
    "l1tex__throughput.avg.pct_of_peak_sustained_active",
    "dram__bytes_read.sum",
    "dram__bytes_write.sum",
    "lts__t_sector_hit_rate.pct",
    "l1tex__t_sector_hit_rate.pct",
    "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum",
    "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
    "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum",
    "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",
    "l1tex__t_requests_pipe_lsu_mem_local_op_ld.sum",
    "l1tex__t_sectors_pipe_lsu_mem_local_op_ld.sum",
    "l1tex__t_requests_pipe_lsu_mem_local_op_st.sum",
    "l1tex__t_sectors_pipe_lsu_mem_local_op_st.sum",
    "smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.ratio",
    "smsp__sass_average_data_bytes_per_sector_mem_global_op_st.ratio",
    "smsp__inst_executed_op_shared_ld.sum",
    "smsp__inst_executed_op_shared_st.sum",
    "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
    "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum",
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum",
    "smsp__inst_executed.sum",
    "smsp__thread_inst_executed_per_inst_executed.ratio",
    "smsp__thread_inst_executed_pred_on_per_inst_executed.ratio",
    "smsp__issue_active.avg.pct_of_peak_sustained_active",
    "smsp__warps_eligible.avg.per_cycle_active",
    "smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio",
    "smsp__average_warps_issue_stalled_short_scoreboard_per_issue_active.ratio",
    "smsp__average_warps_issue_stalled_mio_throttle_per_issue_active.ratio",
    "smsp__average_warps_issue_stalled_lg_throttle_per_issue_active.ratio",
    "smsp__average_warps_issue_stalled_math_pipe_throttle_per_issue_active.ratio",
    "smsp__average_warps_issue_stalled_barrier_per_issue_active.ratio",
    "smsp__average_warps_issue_stalled_wait_per_issue_active.ratio",
    "smsp__average_warps_issue_stalled_not_selected_per_issue_active.ratio",
    "smsp__average_warps_issue_stalled_selected_per_issue_active.ratio",
    "sm__inst_executed_pipe_fma.avg.pct_of_peak_sustained_active",
    "sm__pipe_fma_cycles_active.avg.pct_of_peak_sustained_active",
    "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active",
    "sm__inst_executed_pipe_tensor.avg.pct_of_peak_sustained_active",
)
"""What the reports hold, as Nsight Compute names it. A name that this version does not know is left out."""

PATCHED = "smsp__sass_"
"""Metrics for which the profiler patches the kernel's code; a run without them is the second try."""

SURE = tuple(m for m in METRICS if m.startswith(("gpu__time", "launch__", "sm__cycles", "l1tex__t_requests", "dram__")))
"""What every version knows: the third try."""

RUN_SECONDS = 75
"""The longest run of the profiler over one bottleneck's kernels."""


AMBIGUOUS: dict[str, str] = {"chase": "divergence: its only warp has one active thread"}
"""Reports that are not stored: the plan's name, and which other bottleneck its kernel has."""


# --- under the profiler -----------------------------------------------------------------------------------------------


def run_child(bottleneck: str, manifest: Path) -> None:
    """Launch each kernel of a bottleneck: once to warm up and once between the profiler's start and stop.

    `manifest` gets a line for each launch that was profiled, in order, and one for each plan that failed.
    """
    import torch

    for plan in plans():
        if plan.bottleneck != bottleneck:
            continue
        try:
            launch = plan.launch()
            launch()
            torch.cuda.synchronize()
            torch.cuda.cudart().cudaProfilerStart()
            try:
                launch()
                torch.cuda.synchronize()
            finally:
                torch.cuda.cudart().cudaProfilerStop()
            line = {"name": plan.name, "kernel": plan.kernel}
        except Exception as e:  # the other kernels are still worth a report
            line = {"name": plan.name, "error": f"{type(e).__name__}: {str(e)[:200]}"}
        with manifest.open("a", encoding="utf-8") as f:
            f.write(json.dumps(line) + "\n")
        launch = None
        torch.cuda.empty_cache()


# --- the profiler's words ---------------------------------------------------------------------------------------------


@functools.cache
def known_metrics() -> tuple[str, ...]:
    """METRICS without the names that this profiler does not list; all of them if it lists nothing."""
    listed = ""
    for collection in ("device", "launch", "profiling"):
        command = [ncu(), "--query-metrics", "--query-metrics-collection", collection]
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            listed += subprocess.run(command, capture_output=True, text=True, timeout=40).stdout
    if "l1tex__t_requests_pipe_lsu_mem_global_op_ld" not in listed:
        return METRICS
    return tuple(m for m in METRICS if m.startswith(("launch__", "sm__maximum_")) or m.split(".")[0] in listed)


def profiled(bottleneck: str, metrics: tuple[str, ...]) -> tuple[list[tuple[str, dict]], list[dict], str]:
    """([(kernel, metrics)] by launch, the manifest's lines, the profiler's last words)."""
    with tempfile.TemporaryDirectory() as folder:
        manifest, log = Path(folder, "manifest"), Path(folder, "log.csv")
        command = [ncu(), "--csv", "--log-file", str(log), "--metrics", ",".join(metrics), "--clock-control", "none"]
        command += ["--profile-from-start", "off", "--target-processes", "all"]
        command += [sys.executable, "-m", "bench.profile_reports", "--child", bottleneck, "--manifest", str(manifest)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=RUN_SECONDS)
            words = (done.stdout + done.stderr)[-600:]
        except subprocess.TimeoutExpired:
            words = f"stopped after {RUN_SECONDS} s"
        text = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
        lines = manifest.read_text(encoding="utf-8").splitlines() if manifest.exists() else []
    return table(text), [json.loads(line) for line in lines], words + "\n" + text[:600] * (not table(text))


def table(text: str) -> list[tuple[str, dict]]:
    """(kernel, metric -> number) of each launch in the profiler's CSV, in order."""
    start = text.find('"ID"')
    launches: dict[int, tuple[str, dict]] = {}
    for row in csv.DictReader(io.StringIO(text[start:])) if start >= 0 else ():
        try:
            value = float(row["Metric Value"].replace(",", ""))
            _, metrics = launches.setdefault(int(row["ID"]), (row["Kernel Name"], {}))
        except (ValueError, TypeError, AttributeError, KeyError):
            continue  # a line of the profiler between the table's, or "n/a"
        unit = row.get("Metric Unit") or ""
        metrics[row["Metric Name"]] = value * _UNITS.get(unit, 1)
    return [launches[number] for number in sorted(launches)]


_UNITS = {"us": 1e3, "usecond": 1e3, "ms": 1e6, "msecond": 1e6, "s": 1e9, "second": 1e9,
          "Kbyte": 1e3, "Mbyte": 1e6, "Gbyte": 1e9, "Kbyte/block": 1e3}  # fmt: skip
"""To nanoseconds and bytes."""


def reports_of(chosen: list[Plan], seen: list[tuple[str, dict]], lines: list[dict]) -> tuple[list[dict], list[dict]]:
    """The plans' reports, and what failed, from the launches that the profiler saw and the child's lines."""
    by_name = {plan.name: plan for plan in chosen}
    found, failed, rest = [], [], iter(seen)
    for line in lines:
        if "error" in line:
            failed.append(line)
            continue
        for kernel, metrics in rest:
            if re.search(line["kernel"], kernel):
                plan = by_name[line["name"]]
                found.append({"name": plan.name, "bottleneck": plan.bottleneck, "source": plan.source,
                              "kernel": kernel[:120], "metrics": metrics})  # fmt: skip
                break
        else:
            failed.append({"name": line["name"], "error": "the profiler's table has no such kernel"})
    missing = by_name.keys() - {line["name"] for line in lines}
    return found, failed + [{"name": name, "error": "was not reached"} for name in sorted(missing)]


# --- the whole --------------------------------------------------------------------------------------------------------


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.profile_reports", description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path)
    parser.add_argument("--only", help="one bottleneck")
    parser.add_argument("--seconds", type=float, default=210, help="start no other run after so many")
    parser.add_argument("--no-timelines", action="store_true")
    parser.add_argument("--store", type=Path, metavar="FILE", help="write the files that the unit reads")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--manifest", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        run_child(arguments.child, arguments.manifest)
        return 0
    if arguments.store:
        store(json.loads(arguments.store.read_text(encoding="utf-8")))
        return 0
    if not present():
        return 0
    begin = time.monotonic()
    found = {"machine": f"{device.current().name}, {versions()}", "reports": [], "timelines": [], "failed": []}

    def keep() -> None:
        if arguments.json:
            arguments.json.write_text(json.dumps(found, indent=1), encoding="utf-8")

    if ncu():
        found["ncu"] = subprocess.run([ncu(), "--version"], capture_output=True, text=True).stdout.strip()[-80:]
        found["metrics"] = list(known_metrics())
        print("left out:", sorted(set(METRICS) - set(known_metrics())), flush=True)
    kinds = dict.fromkeys(plan.bottleneck for plan in plans() if arguments.only in (None, plan.bottleneck))
    for kind in kinds if ncu() else ():
        if time.monotonic() - begin > arguments.seconds - 45:  # the timelines need the rest
            found["failed"].append({"name": kind, "error": "no time left"})
            continue
        chosen = [plan for plan in plans() if plan.bottleneck == kind]
        try:
            seen, lines, words = profiled(kind, tuple(found["metrics"]))
            for fewer in (tuple(m for m in found["metrics"] if not m.startswith(PATCHED)), SURE):
                if seen or time.monotonic() - begin > arguments.seconds - 45:
                    break
                print(f"{kind}: no table, so again with fewer metrics: {words}", flush=True)
                found["metrics"] = list(fewer)  # for the other bottlenecks, too
                seen, lines, words = profiled(kind, fewer)
            good, bad = reports_of(chosen, seen, lines)
        except Exception:
            good, bad = [], [{"name": kind, "error": traceback.format_exc()[-400:]}]
        found["reports"] += good
        found["failed"] += bad
        keep()
        print(f"{kind}: {len(good)} reports, {len(bad)} failed, {time.monotonic() - begin:.0f} s", *bad, sep="\n  ",
              flush=True)  # fmt: skip
    if not arguments.no_timelines:
        found["timelines"], bad = timelines(max(40.0, arguments.seconds + 30 - (time.monotonic() - begin)))
        found["failed"] += bad
    keep()
    print(f"{len(found['reports'])} reports, {len(found['timelines'])} timelines, {time.monotonic() - begin:.0f} s")
    return 0


def store(found: dict) -> None:
    """Write the unit's reports and timelines: numbers with six digits, and no more metrics than needed to learn."""
    machine = f"{found['machine']}, {found.get('ncu', '')}".strip(", ")
    kept = [
        {key: report[key] for key in ("name", "bottleneck", "source")}
        | {"metrics": {name: float(f"{value:.6g}") for name, value in report["metrics"].items()}}
        for report in found["reports"]
        if report["name"] not in AMBIGUOUS
    ]
    for report in kept:
        if (shown := _reports.diagnose(report["metrics"])) != report["bottleneck"]:
            print(f"{report['name']}: built to be {report['bottleneck']}, shows {shown}: fix it or add to AMBIGUOUS")
    _write(_reports.STORED, {"machine": machine}, "reports", kept)
    _write(profile_gaps.STORED, {"machine": found["machine"]}, "timelines", found["timelines"])


def _write(path: Path, head: dict, key: str, rows: list) -> None:
    """A line for each row, so that a change of one of them is a change of one line."""
    lines = ",\n".join(json.dumps(row) for row in rows)
    path.write_text(f"{json.dumps(head)[:-1]}, {json.dumps(key)}: [\n{lines}\n]}}\n", encoding="utf-8")
    print(f"{path}: {len(rows)} {key}, {path.stat().st_size / 1000:.0f} kB")


def timelines(seconds: float) -> tuple[list[dict], list[dict]]:
    """The timelines of `bench.timelines`, made in a process of its own: no profiler may run beside it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "timelines.json")
        try:
            done = subprocess.run([sys.executable, "-m", "bench.timelines", "--json", str(path)], capture_output=True,
                                  text=True, timeout=seconds)  # fmt: skip
            print(done.stdout[-2000:], done.stderr[-1000:] * (done.returncode != 0))
        except subprocess.TimeoutExpired:
            print(f"timelines: stopped after {seconds:.0f} s")
        if not path.exists():
            return [], [{"name": "timelines", "error": "nothing was written"}]
        kept = json.loads(path.read_text(encoding="utf-8"))
        return kept["timelines"], kept["failed"]


if __name__ == "__main__":
    sys.exit(main())
