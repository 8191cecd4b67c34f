"""A cgroup for each job, where one can be made."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from grader.judge import cgroups

FILES = ("cgroup.procs", "cgroup.kill", "memory.max", "memory.swap.max", "pids.max")


@pytest.fixture
def given(monkeypatch, tmp_path):
    """A folder that looks like a cgroup that was given to this user; what is made in it holds the files at once."""
    cgroups.home.cache_clear()
    tree = tmp_path / "user.slice" / "run.scope"
    tree.mkdir(parents=True)
    for folder in (tree, tree.parent):
        (folder / "cgroup.procs").touch()
        (folder / "cgroup.subtree_control").write_text("cpu\n")
    monkeypatch.setattr(cgroups, "ROOT", tmp_path)
    real, made = Path.read_text, Path.mkdir

    def read_text(self, *args, **kwargs):
        return (
            "12:pids:/x\n0::/user.slice/run.scope\n"
            if self == Path("/proc/self/cgroup")
            else real(self, *args, **kwargs)
        )

    def mkdir(self, *args, **kwargs):
        made(self, *args, **kwargs)
        if self.name.startswith("gpulab-"):
            for name in FILES:
                (self / name).touch()

    monkeypatch.setattr(Path, "read_text", read_text)
    monkeypatch.setattr(Path, "mkdir", mkdir)
    yield tree
    cgroups.home.cache_clear()


def test_without_the_controllers_there_is_none(given):
    assert cgroups.home() is None and cgroups.make(1 << 30, 10) is None


@pytest.mark.parametrize("beside", [False, True])
def test_a_job_gets_its_limits(given, beside):
    place = given.parent if beside else given
    (place / "cgroup.subtree_control").write_text("cpu memory pids\n")
    group = cgroups.make(1 << 30, 10)
    assert group.folder.parent == place
    assert [(group.folder / name).read_text() for name in FILES[2:]] == [str(1 << 30), "0", "10"]
    os.write(group.processes, b"0")
    assert (group.folder / "cgroup.procs").read_text() == "0"
    other = cgroups.make(1, 1)
    assert other.folder != group.folder
    for one in (group, other):
        one.close()
        assert (one.folder / "cgroup.kill").read_text() == "1"


REAL = """
import os, subprocess, sys, time
from pathlib import Path
from grader.judge import cgroups
group = cgroups.Group(Path(sys.argv[1]) / f"gpulab-test-{os.getpid()}", {})
child = subprocess.Popen(["sleep", "60"], preexec_fn=lambda: os.write(group.processes, b"0"))
assert str(child.pid) in (group.folder / "cgroup.procs").read_text().split()
assert str(os.getpid()) not in (group.folder / "cgroup.procs").read_text().split()
group.close()
assert child.wait(5) == -9 and not group.folder.exists()
print("ended")
"""


@pytest.mark.skipif(os.getuid() != 0 or not shutil.which("unshare"), reason="only root mounts cgroups")
def test_a_real_group_holds_who_enters_and_ends_with_the_job(tmp_path):
    command = 'mount -t cgroup2 none "$0" && [ -e "$0/cgroup.procs" ] || exit 77; exec "$1" -c "$2" "$0"'
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", command, str(tmp_path), sys.executable, REAL], capture_output=True, text=True
    )
    if done.returncode == 77:
        pytest.skip("cgroups of version 2 cannot be mounted here")
    assert done.stdout == "ended\n", done.stderr
