"""Every place that names a version agrees: requirements.lock, environment.yml, labutils and CITATION.cff."""

import ast
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[1]
PYTHONS = ["3.11", "3.12", "3.13"]  # what the lock's own comment and the Makefile promise
OURS = "-e ./labutils"

LINES = [line for line in (ROOT / "requirements.lock").read_text().splitlines() if line and line[0] != "#"]
PINS = [Requirement(line) for line in LINES if line != OURS]
PYPROJECT = tomllib.loads((ROOT / "labutils/pyproject.toml").read_text())


def pip_section() -> list[str]:
    """Return what environment.yml hands to pip."""
    environment = yaml.safe_load((ROOT / "environment.yml").read_text())
    (section,) = [entry["pip"] for entry in environment["dependencies"] if isinstance(entry, dict)]
    return section


def test_environment_equals_lock():
    assert sorted(pip_section()) == sorted(LINES)


def test_conda_python_is_one_that_the_lock_supports():
    environment = yaml.safe_load((ROOT / "environment.yml").read_text())
    (python,) = [entry for entry in environment["dependencies"] if str(entry).startswith("python=")]
    assert python.removeprefix("python=") in PYTHONS


@pytest.mark.parametrize("pin", PINS, ids=lambda pin: pin.name)
def test_lock_entry_is_an_exact_pin(pin):
    (specifier,) = pin.specifier
    assert specifier.operator == "=="
    assert "*" not in specifier.version
    assert Version(specifier.version).local is None, "a local build such as +cpu exists on one index only"
    assert not pin.extras and pin.url is None


def test_lock_names_each_package_once_and_ends_with_ours():
    names = [canonicalize_name(pin.name) for pin in PINS]
    assert len(names) == len(set(names))
    assert LINES[-1] == OURS


def test_lock_needs_nothing_but_the_public_index():
    assert not [line for line in LINES if line.startswith("-") and line != OURS]


def dependencies() -> list[str]:
    """Return every dependency of labutils, those of its extras included."""
    project = PYPROJECT["project"]
    return project["dependencies"] + sum(project["optional-dependencies"].values(), [])


@pytest.mark.parametrize("text", dependencies())
def test_labutils_admits_the_locked_version(text):
    wanted = Requirement(text)
    if wanted.marker and not any(wanted.marker.evaluate({"python_version": python}) for python in PYTHONS):
        pytest.skip("not wanted on a Python that the lock is for")
    pins = {canonicalize_name(pin.name): pin for pin in PINS}
    pin = pins[canonicalize_name(wanted.name)]
    (specifier,) = pin.specifier
    assert wanted.specifier.contains(specifier.version)


def test_labutils_supports_the_locks_pythons():
    assert all(python in SpecifierSet(PYPROJECT["project"]["requires-python"]) for python in PYTHONS)


def our_version() -> str:
    """Return `labutils.__version__` as setuptools reads it: a literal, found without importing the package."""
    tree = ast.parse((ROOT / "labutils/__init__.py").read_text(encoding="utf-8"))
    (value,) = [n.value for n in tree.body if isinstance(n, ast.Assign) and ast.unparse(n.targets[0]) == "__version__"]
    return ast.literal_eval(value)


def test_the_version_is_written_in_labutils_alone():
    project, tool = PYPROJECT["project"], PYPROJECT["tool"]["setuptools"]
    assert "version" not in project and project["dynamic"] == ["version"]
    assert tool["dynamic"]["version"] == {"attr": "labutils.__version__"}
    assert str(Version(our_version())) == our_version()


def test_the_citation_names_our_version_and_has_the_keys_of_cff():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == our_version()
    assert citation["cff-version"] == "1.2.0" and citation["license"] == "MIT"
    assert citation.keys() >= {"message", "title", "authors"} and all(author["name"] for author in citation["authors"])
    assert f"\n## {our_version()}\n" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_installing_labutils_alone_brings_its_whole_tree_and_nothing_else(tmp_path):
    """A file that packaging forgets is missing on a learner's machine, and only there."""
    junk = shutil.ignore_patterns("__pycache__", "*.egg-info", "build", "dist", ".*")
    source = shutil.copytree(ROOT / "labutils", tmp_path / "source" / "labutils", ignore=junk)
    target = tmp_path / "target"
    install = f"-m pip install -q --no-deps --no-build-isolation --no-compile --target {target} {source}"
    subprocess.run([sys.executable, *install.split()], check=True, timeout=200)

    tree = files_below(source, junk) - {"pyproject.toml", "README.md", "LICENSE"}  # of the package, not in it
    assert "py.typed" in tree
    assert files_below(target / "labutils", junk) == tree
    about = target / f"labutils-{our_version()}.dist-info"
    assert {entry for entry in target.iterdir()} == {target / "labutils", about}
    assert "GPU Kernel Lab" in (about / "METADATA").read_text() and (about / "licenses" / "LICENSE").is_file()

    # From another folder, and isolated from this tree: what is found there is what was installed.
    code = "import sys; sys.path.insert(0, sys.argv[1]); from labutils import device; device.catalogue()"
    subprocess.run([sys.executable, "-I", "-c", code, str(target)], check=True, cwd=tmp_path, timeout=100)


def test_the_graders_wheel_has_its_whole_tree_a_command_and_this_labutils(tmp_path):
    junk = shutil.ignore_patterns("__pycache__", ".*")
    source = tmp_path / "source"
    for part in ("grader", "labutils"):
        shutil.copytree(ROOT / part, source / part, ignore=junk)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    wheel = f"-m pip wheel -q --no-deps --no-build-isolation -w {tmp_path} {source}"
    subprocess.run([sys.executable, *wheel.split()], check=True, timeout=200)

    (built,) = tmp_path.glob("*.whl")
    about = f"gpu_kernel_lab-{our_version()}.dist-info"
    with zipfile.ZipFile(built) as archive:
        names = {name for name in archive.namelist() if not name.startswith(f"{about}/")}
        entry, metadata = (archive.read(f"{about}/{n}").decode() for n in ("entry_points.txt", "METADATA"))
        assert f"{about}/licenses/LICENSE" in archive.namelist()
    assert names == {f"grader/{name}" for name in files_below(ROOT / "grader", junk)}
    assert "gpu-kernel-lab = grader.__main__:main" in entry
    assert f"Requires-Dist: labutils[cuda]=={our_version()}" in metadata.replace(" ==", "==")


def test_the_two_licences_are_one():
    assert (ROOT / "LICENSE").read_bytes() == (ROOT / "labutils/LICENSE").read_bytes()


@pytest.mark.parametrize("text", tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"])
def test_the_grader_admits_the_locked_version(text):
    wanted = Requirement(text)
    if wanted.name == "labutils":
        assert str(wanted.specifier) == f"=={our_version()}"
        return
    (pin,) = (pin for pin in PINS if canonicalize_name(pin.name) == canonicalize_name(wanted.name))
    assert wanted.specifier.contains(str(pin.specifier).removeprefix("=="))


def files_below(folder: Path, junk) -> set[str]:
    """Return the relative paths of all files below a folder, less those of a `shutil.ignore_patterns`."""
    found = set()
    for place, folders, files in os.walk(folder):
        skipped = junk(place, folders + files)
        folders[:] = [name for name in folders if name not in skipped]
        found |= {Path(place, name).relative_to(folder).as_posix() for name in files if name not in skipped}
    return found


def test_workflow_and_makefile_name_pythons_that_the_lock_supports():
    workflow = yaml.safe_load((ROOT / ".github/workflows/test.yml").read_text())
    assert set(workflow["jobs"]["test"]["strategy"]["matrix"]["python"]) <= set(PYTHONS)
    assert re.findall(r"python(3\.\d+)", (ROOT / "Makefile").read_text()) == PYTHONS[::-1]
