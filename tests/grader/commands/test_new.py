"""A new exercise: what is written, which holes the build names, and that the filled skeleton is an exercise."""

import ast
import os
import shutil
import subprocess
import sys
import tomllib
from argparse import Namespace

import pytest

from grader.commands import new
from grader.course.build import build
from grader.course.sources import ROOT
from labutils.backends import simt

UNITS = {"triton": "06_elementwise_triton", "cuda": "07_elementwise_cuda", "plain": "03_occupancy"}
SKELETONS = {"triton": new.TRITON, "cuda": new.CUDA, "plain": new.PLAIN}


@pytest.fixture
def course(tmp_path, monkeypatch):
    """A copy of three units and of the package of exercises."""
    cache = tmp_path / "cache" / "simt"
    cache.mkdir(parents=True)
    if simt.available() is None:  # the emulator's runtime takes half a minute of a core to build: not once more here
        runtime = simt.build.runtime(simt.build.compiler())
        (cache / runtime.name).symlink_to(runtime)
    monkeypatch.setenv("GPULAB_CACHE", str(cache.parent))
    ignore = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "labutils", tmp_path / "labutils", ignore=ignore)
    for unit in UNITS.values():
        shutil.copytree(ROOT / "solutions" / unit, tmp_path / "solutions" / unit, ignore=ignore)
    for claims in (ROOT / "solutions").glob("*/claims.toml"):  # a unit's text may use those of others
        (folder := tmp_path / "solutions" / claims.parent.name).mkdir(exist_ok=True)
        shutil.copy(claims, folder)
    return tmp_path


def fill(path, *pairs):
    """Remove the lines that mark holes, and put texts in the place of others."""
    lines = path.read_text().split("\n")
    text = "\n".join(line for line in lines if "HOLE: " not in line or '"""' in line).replace("HOLE: ", "")
    for old, wanted in pairs:
        assert old in text
        text = text.replace(old, wanted)
    path.write_text(text)


def built(course, unit):
    """Build with the copied registry: exit status, and what was said."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(course), str(ROOT)]), "CUDA_VISIBLE_DEVICES": ""}
    command = [sys.executable, "-m", "grader", "build", "--root", str(course), unit]
    done = subprocess.run(command, env=environment, cwd=course, capture_output=True, text=True)
    return done.returncode, done.stderr


@pytest.mark.parametrize("kind", UNITS)
def test_the_build_names_every_hole(course, kind):
    unit = UNITS[kind]
    source, registry, mutants = new.new_exercise(course, f"{unit}/saxpy", SKELETONS[kind])
    ast.parse(source.read_text()), ast.parse(registry.read_text())
    assert tomllib.loads(mutants.read_text()) == {}
    problems = build(course, [unit], say=lambda line: None)
    assert any(p.startswith(f"solutions/{unit}/{unit}.py, line ") for p in problems)
    assert any(p.startswith(f"labutils/exercises/{registry.name}, line ") for p in problems)
    assert any(p.startswith(f"solutions/{unit}/mutants/saxpy.toml, line ") for p in problems)
    assert any("the body of saxpy" in p for p in problems) and all("a hole is left to fill: " in p for p in problems)
    assert not (course / "notebooks").exists()


@pytest.mark.parametrize("kind", [pytest.param(k, marks=pytest.mark.compiler) if k == "cuda" else k for k in UNITS])
def test_a_filled_skeleton_is_an_exercise_and_a_wrong_reference_is_refused(course, kind):
    unit = UNITS[kind]
    source, registry, mutants = new.new_exercise(course, f"{unit}/saxpy", SKELETONS[kind])
    copy = "    tl.store(out_ptr + offs, tl.load(x_ptr + offs, mask=mask), mask=mask)\n"
    own = """    loaded = tl.load(x_ptr + offs, mask)
    copied = loaded * 1.0
    tl.store(out_ptr + offs, copied, mask)
"""
    fill(source, *([(copy, own)] if kind == "triton" else [])), fill(mutants)
    right = "reference=lambda n: n" if kind == "plain" else "reference=lambda x: x,"
    fill(registry, (right, right.replace(": n", ": n + 1").replace(": x,", ": 2 * x + 1,")))
    status, message = built(course, unit)
    assert status == 1 and f"{unit}/saxpy: its own check rejects the solution" in message
    fill(registry, (right.replace(": n", ": n + 1").replace(": x,", ": 2 * x + 1,"), right))
    assert built(course, unit)[0] == 0
    assert "saxpy is not written yet" in (course / "notebooks" / unit / f"{unit}.ipynb").read_text().replace(
        "_kernel", ""
    )


def test_imports_are_completed_in_place(course):
    for kind in ("plain", "triton"):
        new.new_exercise(course, f"03_occupancy/mine_{kind}", SKELETONS[kind])
    text = (course / "labutils/exercises/occupancy.py").read_text()
    assert text.count("spec.exercise import") == 1 and "Case, Contract, Cost, KernelExercise, PlainExercise" in text
    checked = subprocess.run(
        [sys.executable, "-m", "ruff", "check", "--config", ROOT / "pyproject.toml", "-"], input=text, text=True
    )
    assert checked.returncode == 0


def test_what_cannot_be_added_is_said_and_nothing_is_written(course, capsys):
    def tried(exercise):
        assert new.main(Namespace(exercise=exercise, root=course, cuda=False, plain=False)) == 1
        return capsys.readouterr().out

    before = {p: p.read_bytes() for p in (course / "solutions").rglob("*") if p.is_file()}
    assert "is not an exercise id" in tried("saxpy") and "is not an exercise id" in tried("06_elementwise_triton/Saxpy")
    assert "There is no unit '99_none'" in tried("99_none/saxpy")
    assert "is in labutils/exercises/elementwise_triton.py already" in tried("06_elementwise_triton/vector_add")
    assert "a cell with the id 'explain' already" in tried("06_elementwise_triton/explain")
    assert "defines 'reverse_kernel' already" in tried("06_elementwise_triton/reverse")
    path = course / "solutions/06_elementwise_triton/mutants/saxpy.toml"
    assert before == {p: p.read_bytes() for p in (course / "solutions").rglob("*") if p.is_file()}
    path.parent.mkdir(exist_ok=True)
    path.write_text("")
    assert "saxpy.toml exists already" in tried("06_elementwise_triton/saxpy")


def test_the_command_says_what_it_wrote(course, capsys):
    assert new.main(Namespace(exercise="06_elementwise_triton/saxpy", root=course, cuda=False, plain=False)) == 0
    assert capsys.readouterr().out.splitlines()[:3] == [
        "solutions/06_elementwise_triton/06_elementwise_triton.py",
        "labutils/exercises/elementwise_triton.py",
        "solutions/06_elementwise_triton/mutants/saxpy.toml",
    ]
