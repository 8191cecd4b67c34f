"""The recipe with JupyterHub and ngshare: the real ones, everyone's server as a process, nbgrader's own commands in it.

GPULAB_HUB names a Python that has them, beside this repository's packages, and configurable-http-proxy's folder must be
in PATH:

    pip install jupyterhub ngshare rapidfuzz "sqlalchemy<2" "alembic<1.15"
    pip install --no-deps ngshare-exchange
    npm install configurable-http-proxy
"""

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import urllib.request
from pathlib import Path

import pytest

from grader.course.build import release_notebook
from grader.course.settings import CourseSettings, nbgrader_config
from grader.course.sources import ROOT, notebook_bytes, source_notebook
from grader.demo.sample import solved
from grader.grading.grade import grade
from grader.grading.options import GradeOptions
from grader.grading.verify import problems
from grader.intake import collect as intake
from grader.judge.sandbox import SandboxLimits
from tests.grader.grading.test_grade import Pretend, shown_marks
from tests.grader.small import UNIT, write_unit

PYTHON = os.environ.get("GPULAB_HUB", "")
RECIPE = ROOT / "tools" / "jupyterhub"
TOKEN = "a-token-of-this-test-alone"
CONFIG = f"""
load_subconfig({str(RECIPE / "jupyterhub_config.py")!r})
c.JupyterHub.services.append({{"name": "test", "api_token": {TOKEN!r}}})
scopes = ["admin:users", "admin:servers", "admin:server_state"]
c.JupyterHub.load_roles.append({{"name": "test", "services": ["test"], "scopes": scopes}})
c.Spawner.args = ["--allow-root"]
c.Spawner.http_timeout = 240  # a busy machine
"""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.skipif(not PYTHON, reason="GPULAB_HUB names no Python with JupyterHub and ngshare"),
]


def free_ports(count):
    with contextlib.ExitStack() as stack:
        found = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in found:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in found]


class Hub:
    """JupyterHub by the recipe; `environment` is that of a user's own server."""

    def __init__(self, folder: Path):
        outside, inside, proxy, ngshare = (f"http://127.0.0.1:{port}" for port in free_ports(4))
        self.folder, self.address = folder, outside
        (folder / "jupyter").mkdir(parents=True)
        shutil.copy(RECIPE / "nbgrader_config.py", folder / "jupyter")
        (folder / "config.py").write_text(CONFIG)
        places = f"{Path(PYTHON).parent}{os.pathsep}{os.environ['PATH']}"
        env = os.environ | {"PATH": places, "HUB_FOLDER": str(folder), "INSTRUCTORS": "ada"}
        env |= {"HUB_ADDRESS": outside, "NGSHARE_ADDRESS": ngshare}
        command = [PYTHON, "-m", "jupyterhub", "-f", str(folder / "config.py"), f"--JupyterHub.hub_bind_url={inside}"]
        command += [f"--ConfigurableHTTPProxy.api_url={proxy}"]
        pipes = dict(stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.process = subprocess.Popen(command, cwd=folder, env=env, **pipes)
        self.log, self.runs = [], threading.Event()
        self.reader = threading.Thread(target=self._read)
        self.reader.start()
        if not self.runs.wait(120):
            self.close()
            raise AssertionError("".join(self.log))

    def _read(self):
        for line in self.process.stdout:
            self.log.append(line)
            if "JupyterHub is now running" in line:
                self.runs.set()

    def close(self):
        self.process.terminate()
        self.process.wait(timeout=60)
        self.reader.join()

    def ask(self, method, path):
        request = urllib.request.Request(f"{self.address}/hub/api{path}", method=method, data=b"")
        request.add_header("Authorization", f"token {TOKEN}")
        with urllib.request.urlopen(request, timeout=120) as answer:
            return answer.read().decode()

    def environment(self, user):
        """Start a user's server; the environment in which nbgrader's commands run there."""
        if user != "ada":  # instructors are there from the start
            self.ask("POST", f"/users/{user}")
        self.ask("POST", f"/users/{user}/server")
        progress = self.ask("GET", f"/users/{user}/server/progress")  # it ends when the server is there
        assert '"ready": true' in progress, progress + "".join(self.log[-60:])
        state = json.loads(self.ask("GET", f"/users/{user}"))["servers"][""]["state"]
        text = Path(f"/proc/{state['pid']}/environ").read_text()
        return dict(line.split("=", 1) for line in text.split("\0") if line)


@pytest.fixture
def hub(tmp_path):
    hub = Hub(tmp_path / "hub")
    yield hub
    hub.close()


def test_an_assignment_goes_through_ngshare_and_its_feedback_comes_back(hub, tmp_path, monkeypatch):
    settings = CourseSettings("gpu-2026")
    monkeypatch.setattr(intake, "read_settings", lambda root: settings)
    monkeypatch.setattr(intake, "MENDING", SandboxLimits(seconds=200, cpu_seconds=60))  # a busy machine
    unit = write_unit(tmp_path / "solutions")
    released, course, out = release_notebook(unit), tmp_path / "course", tmp_path / "out"
    good = notebook_bytes(solved(released, source_notebook(unit)))
    (course / "notebooks" / UNIT).mkdir(parents=True)
    (course / "notebooks" / UNIT / f"{UNIT}.ipynb").write_bytes(notebook_bytes(released))
    (course / "nbgrader_config.py").write_text(nbgrader_config(settings, "notebooks"))
    users = {name: hub.environment(name) for name in ("ada", "ana", "ben")}

    def run(user, folder, *command):
        done = subprocess.run([PYTHON, "-m", *command], cwd=folder, env=users[user], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        print(*command, done.stdout, done.stderr)

    manage = "ngshare_exchange.course_management"
    run("ada", course, manage, "create_course", "gpu-2026", "ada")
    for name in ("ana", "ben"):
        run("ada", course, manage, "add_student", "--no-gb", "gpu-2026", name)
    run("ada", course, "nbgrader", "release_assignment", UNIT)
    homes = {name: hub.folder / "homes" / name for name in ("ana", "ben")}
    for name, home in homes.items():
        run(name, home, "nbgrader", "fetch_assignment", UNIT, "--course", "gpu-2026")
        (home / UNIT / f"{UNIT}.ipynb").write_bytes(good if name == "ana" else good.replace(b"3 * n", b"2 * n"))
        run(name, home, "nbgrader", "submit", UNIT, "--course", "gpu-2026")
    run("ada", course, "nbgrader", "collect", UNIT)
    results = grade(unit, course / "submitted", out, GradeOptions(marker=shown_marks), engine=Pretend())
    assert {s.student: s.marks for s in results.students} == {"ana": 1, "ben": 0} and problems(out) == []
    # this Python has nbgrader's templates
    generate = [sys.executable, "-m", "nbgrader", "generate_feedback", UNIT, "--force"]
    subprocess.run(generate, cwd=out / "course", check=True)
    run("ada", out / "course", "nbgrader", "release_feedback", UNIT)
    for name, home in homes.items():
        run(name, home, "nbgrader", "fetch_feedback", UNIT, "--course", "gpu-2026")
        (page,) = (home / UNIT / "feedback").rglob(f"{UNIT}.html")
        assert f"{'1.0' if name == 'ana' else '0.0'} / " in page.read_text()
