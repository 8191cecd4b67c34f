"""What a first `make` says: tools/setup.sh with a pip that does nothing, and the list of targets."""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture
def tree(tmp_path):
    """A folder with all that the set-up reads, and a .venv whose pip notes what it is asked."""
    shutil.copytree(ROOT / "tools", tmp_path / "tools")
    shutil.copy(ROOT / "requirements.lock", tmp_path)
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    python = tmp_path / ".venv" / "bin" / "python"
    python.write_text('#!/bin/sh\necho "asked: $*"\nexit "${PIP_FAILS:-0}"\n')
    python.chmod(0o755)
    return tmp_path


def set_up(tree, *arguments, **environment):
    env = {"PATH": "/usr/bin:/bin", **environment}
    return subprocess.run(["tools/setup.sh", ".venv", *arguments], cwd=tree, env=env, capture_output=True, text=True)


def test_a_set_up_says_its_size_first_and_keeps_pip_to_its_log(tree):
    done = set_up(tree, ".venv/bin/python")
    lines = done.stdout.splitlines()
    assert done.returncode == 0 and "2.9 GB to download, 5.3 GB on disk" in lines[0] and len(lines) <= 3
    assert lines[-1].startswith("Set up in ") and "pip install" not in done.stdout
    asked = (tree / ".venv" / "setup.log").read_text()
    assert asked.count("pip install") == 1 and "-r requirements.lock" in asked and "pytorch.org" not in asked


def test_pytorchs_cpu_build_comes_from_its_own_index_and_the_rest_from_the_usual_one(tree):
    done = set_up(tree, ".venv/bin/python", "cpu")
    first, second = (line for line in (tree / ".venv" / "setup.log").read_text().splitlines() if "install" in line)
    assert "0.5 GB to download" in done.stdout and "driver" not in done.stdout
    assert "--index-url https://download.pytorch.org/whl/cpu" in first and "torch==" in first
    assert "index-url" not in second and "-r requirements.lock" in second


def test_a_pip_that_fails_is_heard_in_full(tree):
    done = set_up(tree, ".venv/bin/python", PIP_FAILS="1")
    assert done.returncode == 1 and "asked: -m pip install" in done.stdout and "Set up in" not in done.stdout


@pytest.mark.parametrize("arguments, said", [(["", ""], "No Python 3.11"), ([".venv/bin/python", "gpu"], "TORCH=gpu")])
def test_what_cannot_be_set_up_is_said(tree, arguments, said):
    done = set_up(tree, *arguments)
    assert done.returncode == 1 and said in done.stdout


@pytest.mark.skipif(not shutil.which("make"), reason="make is not installed")
def test_make_alone_lists_every_target_that_is_for_people():
    done = subprocess.run(["make"], cwd=ROOT, capture_output=True, text=True, check=True)
    listed = {line.split()[1] for line in done.stdout.splitlines() if line.startswith("make ")}
    (phony,) = (line for line in (ROOT / "Makefile").read_text().splitlines() if line.startswith(".PHONY:"))
    assert listed == set(phony.split()[1:])
