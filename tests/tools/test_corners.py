"""Environments of their own: what pip is asked for follows the table of support, and CI names existing corners."""

from pathlib import Path

import pytest
import yaml

from labutils.support import PYTHON, REQUIREMENTS
from tools import corners

ROOT = Path(__file__).parents[2]
WHEEL = Path("labutils.whl")


def test_the_oldest_corner_has_the_oldest_supported_versions():
    oldest = corners.corners()["oldest"]
    assert oldest.python == f"python{PYTHON[0]}.{PYTHON[1]}"
    for requirement in REQUIREMENTS:
        (pin,) = (pin for pin in oldest.packages if pin.startswith(f"{requirement.name}=="))
        assert pin.partition("==")[2].removesuffix(".*") == requirement.least


def test_pytorch_comes_first_and_stays():
    torch, others, last = corners.steps("oldest", corners.corners()["oldest"], WHEEL)
    assert torch[:1] == ["--index-url"] and torch[-1] == "torch==2.9.*"
    assert not [part for part in others if part.startswith(("torch", "triton"))]
    assert {"ipython", "numpy==1.26.*", "nvidia-cuda-nvrtc==13.*"} <= set(others)
    assert [part for part in others if part.startswith("tomli")] == ["tomli>=2 ; python_version < '3.11'"]
    assert last == ["--no-deps", "triton==3.6.*", "labutils.whl"]
    assert corners.steps("cuda", corners.corners()["cuda"], WHEEL)[0] == ["torch>=2.9"]
    assert corners.steps("colab", corners.corners()["colab"], WHEEL) == [["labutils.whl"]]


def test_the_unit_that_is_run_is_the_solved_one_without_its_setup():
    cells = corners.unit("00_start")
    assert len([cell for cell in cells if "lab.check(" in cell]) == 3
    assert not any("lab.setup()" in cell or "YOUR CODE HERE" in cell for cell in cells)


def test_continuous_integration_names_corners_and_units_that_there_are():
    workflow = yaml.safe_load((ROOT / ".github/workflows/test.yml").read_text())
    matrix = set(workflow["jobs"]["corners"]["strategy"]["matrix"]["corner"])
    assert matrix | {"colab"} == corners.corners().keys()
    (line,) = (line for line in (ROOT / ".ci/run").read_text().splitlines() if "make book" in line)
    assert all((ROOT / "solutions" / unit).is_dir() for unit in line.split('"')[1].split())


def test_what_looks_like_an_error_of_ours_is_found():
    said = "fine\nNameError: name 'x' is not defined\nUserWarning: y\nTraceback (most recent call last):\n"
    assert len(corners.errors(said)) == 3 and corners.errors("0 of 1 points\nInstall g++.") == []


@pytest.mark.parametrize("version, series", [("2.9", "2.9.*"), ("8", "8.*"), ("13.0.3", "13.0.3")])
def test_a_least_version_stands_for_its_series(version, series):
    assert corners._series(version) == series
