"""A small class with nothing to run, and a stand-in for Slurm's commands."""

import os
import stat
import sys

import pytest

WORK = "tests.grader.engines.pretend"

SBATCH = """#!{python}
import os, subprocess, sys
first, last = next(a for a in sys.argv if a.startswith("--array=")).partition("=")[2].split("-")
script = next(a for a in sys.argv if a.startswith("--wrap=")).partition("=")[2]
pids = []
for index in range(int(first), int(last) + 1):
    env = os.environ | {{"SLURM_ARRAY_TASK_ID": str(index)}}
    null = subprocess.DEVNULL
    pids.append(subprocess.Popen(["sh", "-c", script], env=env, stdout=null, stderr=null, start_new_session=True).pid)
print("-".join(map(str, pids)))
"""

SQUEUE = """#!{python}
import os, sys
for pid in sys.argv[sys.argv.index("--jobs") + 1].split("-"):
    try:
        if open(f"/proc/{{pid}}/stat").read().rpartition(")")[2].split()[0] != "Z":
            print(pid)
    except OSError:
        pass
"""

SCANCEL = """#!{python}
import os, signal, sys
for pid in sys.argv[1].split("-"):
    try:
        os.killpg(int(pid), signal.SIGKILL)
    except OSError:
        pass
"""


@pytest.fixture
def slurm_stand_in(tmp_path, monkeypatch):
    """sbatch, squeue and scancel that start the workers as processes of this machine."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name, text in {"sbatch": SBATCH, "squeue": SQUEUE, "scancel": SCANCEL}.items():
        (folder / name).write_text(text.format(python=sys.executable))
        (folder / name).chmod((folder / name).stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)
    monkeypatch.setattr("grader.engines.array.ASK_EVERY", 1.0)


@pytest.fixture
def pretend(tmp_path, monkeypatch):
    """The environment of workers that pretend."""
    (tmp_path / "marks").mkdir()
    monkeypatch.setenv("PRETEND_FOLDER", str(tmp_path / "marks"))
    return WORK
