"""The verdict record: what a verdict rests on, and enough to reach it again."""

from __future__ import annotations

import contextlib
import functools
import os
import platform
from datetime import UTC, datetime

import torch

from grader.judge import nvrtc_facts, sandbox
from grader.judge.gpulock import first_gpu
from grader.judge.judge import Judge
from grader.judge.submission import Submission
from labutils.gpu import device
from labutils.spec.verdict import Verdict

MARKS_APART = 0.1
"""Share of an exercise's points by which time may make the points of two gradings differ, in tenths of them."""


def of(submission: Submission, judge: Judge, verdicts: dict[str, Verdict]) -> dict:
    """The record of one submission, as JSON."""
    return {
        "format": 1,
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
        "seed": judge.seed,
        "hidden": judge.hidden,
        "submission": submission.hash,
        "cells": [list(c) for c in submission.cells],
        "versions": versions(),
        "isolation": "bubblewrap" if sandbox.bubblewrap() else "plain child processes",
        "gpu": _gpu() if judge.on_gpu else None,
        "verdicts": {i: v.to_json() for i, v in verdicts.items()},
    }


def replay(recorded: dict) -> tuple[dict[str, Verdict], list[str]]:
    """Judge a record's submission again with its seed; the verdicts, and where they differ from those recorded."""
    judge = Judge(recorded["seed"], recorded["hidden"])
    submission = Submission(tuple((name, text) for name, text in recorded["cells"]))
    verdicts, differences = judge.judge(submission, recorded["verdicts"]), []
    if submission.hash != recorded["submission"]:
        differences.append("the record's cells are not those that were judged: their hash differs")
    for exercise_id, before in recorded["verdicts"].items():
        now, then = verdicts[exercise_id], Verdict.from_json(before)
        if _kinds(now) != _kinds(then):
            differences.append(f"{exercise_id}: {_kinds(now)} now, {_kinds(then)} then")
        elif abs(now.marks - then.marks) > MARKS_APART * now.points / 10:
            differences.append(f"{exercise_id}: {now.marks:g} points now, {then.marks:g} then")
    return verdicts, differences


def _kinds(verdict: Verdict) -> str:
    return "accepted" if verdict.passed else verdict.headline.kind if verdict.headline else "refused"


@functools.cache
def versions() -> dict[str, str | None]:
    try:
        import triton

        known = triton.__version__
    except ImportError:
        known = None
    return {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "triton": known,
        "nvrtc": (nvrtc_facts.facts() or {}).get("version"),
    }


def _gpu() -> dict:
    """The GPU with its clocks right now, as the driver's management library tells them. It is asked in this process:
    while `nvidia-smi` runs, the other submissions' contexts take twice as long to make."""
    report = {"name": device.current().name}
    try:
        from cuda.bindings import nvml

        gpu = _handle(nvml)
    except Exception:  # the library's, or there is none
        return report
    fields = {
        "driver_version": lambda: nvml.system_get_driver_version(),
        "clocks.sm": lambda: f"{nvml.device_get_clock_info(gpu, nvml.ClockType.CLOCK_SM)} MHz",
        "clocks.mem": lambda: f"{nvml.device_get_clock_info(gpu, nvml.ClockType.CLOCK_MEM)} MHz",
        "temperature.gpu": lambda: nvml.device_get_temperature_v(gpu, nvml.TemperatureSensors.TEMPERATURE_GPU),
        "power.draw": lambda: f"{nvml.device_get_power_usage(gpu) / 1000:.1f} W",
    }
    for name, ask in fields.items():
        with contextlib.suppress(Exception):  # some GPUs, and parts of one, do not tell everything
            report[name] = ask()
    return report


@functools.cache
def _handle(nvml) -> int:
    """The GPU that this process judges on: CUDA counts from what it may see, the management library does not."""
    nvml.init_v2()
    name = first_gpu(os.environ.get("CUDA_VISIBLE_DEVICES"))
    return nvml.device_get_handle_by_index_v2(int(name)) if name.isdigit() else nvml.device_get_handle_by_uuid(name)
