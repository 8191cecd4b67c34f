"""A small class with nothing to run, and a stand-in for Slurm's commands."""

import os
from pathlib import Path

import pytest

WORK = "tests.grader.engines.pretend"

STAND_INS = Path(__file__).parents[3] / "bench" / "fake_slurm"


@pytest.fixture
def slurm_stand_in(monkeypatch):
    """sbatch, squeue and scancel that start the workers as processes of this machine."""
    monkeypatch.setenv("PATH", str(STAND_INS), prepend=os.pathsep)
    monkeypatch.setattr("grader.engines.array.ASK_EVERY", 1.0)


@pytest.fixture
def pretend(tmp_path, monkeypatch):
    """The environment of workers that pretend."""
    (tmp_path / "marks").mkdir()
    monkeypatch.setenv("PRETEND_FOLDER", str(tmp_path / "marks"))
    return WORK
