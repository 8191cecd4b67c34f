"""What a sandboxed process can see: wherever packages lie, they are there, and the course's source is not."""

import os
import shutil
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest

import labutils
from grader.course import place
from grader.judge import isolation
from tools import corners

PROGRAM = """
import os, subprocess
from grader.course.place import CODE
from grader.judge import isolation
course = isolation.course()
line = isolation.command(course) if isolation.bubblewrap() else []
place = ("/scratch", "/course") if line else (os.environ["TMPDIR"], str(course))
inside = "import importlib.util as i, os, numpy, nbformat, labutils; print(*(i.find_spec(n) is not None for n in"
inside += f" ('torch', 'triton', 'IPython')), os.path.exists({str(CODE / 'solutions')!r}))"
python = [__import__("sys").executable, "-B", "-c", inside]
done = subprocess.run([*line, *python], env=isolation.environment(*place, {}), capture_output=True, text=True)
print(done.stdout + done.stderr)
"""


def test_packages_may_be_on_pythonpath_alone_and_in_several_folders(tmp_path):
    """As where a scheduler or a module system gives them: no virtual environment, folders of links."""
    site = Path(pytest.__file__).parents[1]
    one, other = tmp_path / "one", tmp_path / "other"
    for folder in (one, other):
        folder.mkdir()
    for path in site.iterdir():
        (one if path.name.startswith(("torch", "triton")) else other).joinpath(path.name).symlink_to(path.resolve())
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV", "GPULAB_PYTHON")}
    environment |= {"PYTHONPATH": os.pathsep.join(map(str, (place.CODE, one, other))), "TMPDIR": str(tmp_path)}
    base = getattr(sys, "_base_executable", sys.executable)
    done = subprocess.run([base, "-c", PROGRAM], env=environment, capture_output=True, text=True, timeout=300)
    without = not isolation.bubblewrap()
    assert done.stdout.split() == ["True", "True", "True", str(without)], done.stdout + done.stderr


def test_a_course_below_a_folder_of_the_system_stays_out_of_sight(tmp_path):
    """Containers often hold it in /usr/src."""
    course, usr = tmp_path / "usr" / "src" / "course", tmp_path / "usr"
    for folder in (course / "solutions", course / ".venv", usr / "bin", usr / "src" / "other"):
        folder.mkdir(parents=True)
    (usr / "source").symlink_to("src/course")
    (usr / "all").symlink_to(tmp_path)
    (usr / "tools").symlink_to("bin")
    names = ["bin", "tools", "src/other"]
    assert isolation._beside(usr, course) == [str(usr / name) for name in names]
    assert isolation._beside(course, course) == []
    for path in (course / ".venv", usr / "bin", tmp_path / "elsewhere"):
        assert isolation._beside(path, course) == [str(path)]


def test_no_folder_that_sandboxes_see_holds_the_solutions():
    assert isolation.hidden() == [place.CODE] and isolation._listed() == []
    assert not any((place.CODE / "solutions").resolve().is_relative_to(f) for f in isolation.folders())


def test_an_installed_grader_hides_itself_the_exercises_and_the_course(tmp_path, monkeypatch):
    packages, course = tmp_path / "prefix" / "packages", tmp_path / "prefix" / "course"
    for folder in (packages / "grader" / "judge", packages / "labutils", packages / "torch", course / "solutions"):
        folder.mkdir(parents=True)
    (packages / "torch.dist-info").mkdir()
    monkeypatch.setattr(place, "CODE", packages)
    monkeypatch.setattr(place, "ROOT", course)
    monkeypatch.setattr(isolation, "INSIDE", packages / "grader" / "judge" / "inside")
    monkeypatch.setattr(isolation.labutils, "__file__", str(packages / "labutils" / "__init__.py"))
    monkeypatch.setattr(isolation, "_packages", isolation._packages.__wrapped__)  # not what was found before
    monkeypatch.setattr(isolation.sys, "path", [str(packages)])
    monkeypatch.setattr(isolation.sys, "prefix", str(tmp_path / "prefix"))
    seen = isolation.folders()
    assert str(packages / "torch") in seen and str(packages / "torch.dist-info") in seen
    for secret in (packages / "grader", packages / "labutils", course):
        assert not any(secret.is_relative_to(folder) for folder in seen)
    assert str(packages) in isolation._packages() and isolation._listed() == [str(packages)]


PROBE = """
import os, subprocess, sys, tempfile
from grader.judge import isolation
course = isolation.course()
line = isolation.command(course) if isolation.bubblewrap() else []
scratch = tempfile.TemporaryDirectory()
where = ("/scratch", "/course") if line else (scratch.name, str(course))
code = '''
import sys, labutils, torch, triton, nbformat
from gpulab_inside import cage
cage.lock("python")
for path in sys.argv[1:]:
    try:
        print("read" if open(path).read() else "empty")
    except OSError:
        print("hidden")
import IPython, jupytext
'''
line += [sys.executable, "-B", "-c", code, *sys.argv[1:]]
done = subprocess.run(line, env=isolation.environment(*where, {}), capture_output=True, text=True)
print(done.stdout + done.stderr)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="bubblewrap and Landlock")
@pytest.mark.parametrize("bubblewrap", [True, False], ids=["bubblewrap", "landlock"])
def test_a_sandbox_of_an_installed_grader_reads_no_answers(tmp_path, bubblewrap):
    """The grader and labutils as packages among others, the course in a folder of its own."""
    if not (isolation.bubblewrap() if bubblewrap else isolation.available()["landlock"]):
        pytest.skip("this machine cannot hide files in this way")
    python = corners.environment_without(tmp_path / "venv", "labutils")
    (packages,) = (tmp_path / "venv").glob("lib/*/site-packages")
    for name in ("grader", "labutils"):
        shutil.copytree(place.CODE / name, packages / name, ignore=shutil.ignore_patterns("__pycache__"))
    secret = tmp_path / "course" / "solutions" / "00_start" / "00_start.py"
    secret.parent.mkdir(parents=True)
    secret.write_text("answer = 42")
    (jupytext,) = packages.glob("jupytext/__init__.py")
    files = [packages / "labutils/exercises/start.py", packages / "grader/judge/judge.py", secret]
    files += [packages / "labutils/study/walkthroughs.json", jupytext]
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    environment |= {} if bubblewrap else {"GPULAB_NO_BWRAP": "1"}
    command = [str(python), "-c", PROBE, *map(str, files)]
    done = subprocess.run(
        command, cwd=tmp_path / "course", env=environment, capture_output=True, text=True, timeout=200
    )
    assert done.stdout.split() == ["hidden", "hidden", "hidden", "hidden", "read"], done.stdout + done.stderr


def test_a_sandbox_has_no_function_that_computes_an_answer():
    program = (
        "from labutils.gpu import device, occupancy, pipeline\n"
        "for call in (lambda: occupancy.occupancy(device.limits_for((9, 0)), 128, 32), "
        "lambda: pipeline.one_forward_one_backward(4, 8), lambda: pipeline.simulate([], [], [])):\n"
        "    try:\n        print(call())\n    except NotImplementedError:\n        print('left out')\n"
    )
    env = {"PYTHONPATH": os.pathsep.join([str(isolation.course()), *sys.path[1:]]), "PATH": isolation.PATH}
    env |= {"PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run([sys.executable, "-c", program], env=env, cwd="/", capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[:-1] == ["left out"] * 3


@pytest.mark.parametrize("exercises", [False, True])
def test_no_sandbox_has_the_walkthroughs(exercises):
    """They hold the solutions: not where a submission is judged, and not where its notebook runs for the feedback."""
    assert (Path(labutils.__file__).parent / "study" / "walkthroughs.json").exists()
    folder = isolation.course(exercises)
    assert (folder / "labutils" / "study" / "hints.json").exists()
    assert [str(path) for name in isolation.LEFT_OUT for path in folder.rglob(name)] == []
    program = (
        "from labutils.study import walkthroughs\n"
        "print(walkthroughs.PATH.is_relative_to(sys.argv[1]), dict(walkthroughs.stored()))\n"
    )
    env = {"PYTHONPATH": os.pathsep.join([str(folder), *sys.path[1:]]), "PATH": isolation.PATH}
    env |= {"PYTHONDONTWRITEBYTECODE": "1"}
    if exercises:
        command = [sys.executable, "-c", "import sys\n" + program, str(folder)]
        done = subprocess.run(command, env=env, cwd="/", capture_output=True, text=True, check=True)
        assert done.stdout.strip() == "True {'exercises': {}, 'questions': {}}"


def test_no_bytecode_of_an_answer_is_left():
    for name in isolation.ANSWERS:
        path = isolation.course() / "labutils" / name
        kept = list(path.parent.glob(f"__pycache__/{path.stem}.*"))
        assert len(kept) == 1 and kept[0].stat().st_mtime >= path.stat().st_mtime
        assert b"an exercise asks for this" in kept[0].read_bytes()


def test_a_name_that_is_not_there_cannot_be_left_out():
    with pytest.raises(LookupError, match="no gone"):
        isolation.without("def here():\n    return 1\n", ("here", "gone"))


def test_a_folder_that_a_thread_still_fills_when_the_process_ends_is_removed(tmp_path, monkeypatch):
    """As in a worker that is told to end while it starts."""
    ends, ended = [], threading.Event()
    monkeypatch.setattr(isolation, "_ending", ended)
    monkeypatch.setattr(isolation.atexit, "register", lambda *how: ends.append(how))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (tmp_path / "source" / "in").mkdir(parents=True)
    (tmp_path / "source" / "in" / "file").write_text("")
    filling, stopped = threading.Event(), []

    def fill(folder):
        filling.set()
        ended.wait()
        shutil.copytree(tmp_path / "source", folder / "copy", copy_function=isolation.copy)

    def thread():
        try:
            isolation.until_the_end("filled-", fill)
        except RuntimeError as problem:
            stopped.append(str(problem))

    starting = threading.Thread(target=thread)
    starting.start()
    filling.wait()
    ((remove, *arguments),) = ends
    remove(*arguments)
    starting.join()
    assert stopped == ["this process is ending"] and [p.name for p in tmp_path.iterdir()] == ["source"]
    with pytest.raises(RuntimeError, match="is ending"):
        isolation.until_the_end("filled-")
    assert [p.name for p in tmp_path.iterdir()] == ["source"]


def test_a_child_leaves_the_folders_of_its_parent(tmp_path):
    isolation._remove(tmp_path, os.getpid() + 1)
    assert tmp_path.is_dir() and not isolation._ending.is_set()
