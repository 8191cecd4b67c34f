"""What a sandboxed process can see: wherever packages lie, they are there, and the course's source is not."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from grader.course import place
from grader.judge import isolation

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
