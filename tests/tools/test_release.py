"""A release: a tag that does not fit is refused with the command that helps; the wheels are whole."""

import json
import shutil
import zipfile

import pytest

from grader.commands import locale
from grader.course.locales import catalogs
from tools import release


@pytest.fixture
def tree(tmp_path):
    """A course of version 0.3.0 whose notebooks install it from its tag."""
    (tmp_path / "labutils").mkdir()
    (tmp_path / "labutils" / "__init__.py").write_text('"""x"""\n__version__ = "0.3.0"\n')
    (tmp_path / "CHANGELOG.md").write_text("# Changes\n\n## 0.3.0\n\n- New.\n\n## 0.2.0\n\n- Old.\n")
    notebook = tmp_path / "notebooks/00_start/00_start.ipynb"
    notebook.parent.mkdir(parents=True)
    cell = '    %pip install "labutils @ git+https://x.org/y@v0.3.0#subdirectory=labutils"\n'
    notebook.write_text(json.dumps({"cells": [{"cell_type": "code", "source": [cell]}]}))
    return tmp_path


def test_a_tree_that_agrees_is_released_with_its_notes(tree):
    assert release.problems("v0.3.0", tree) == []
    assert release.notes("0.3.0", tree) == "- New." and release.notes("0.2.0", tree) == "- Old."


def test_what_does_not_fit_the_tag_is_named(tree):
    assert release.problems("v0.4.0", tree)[0] == "The tag is v0.4.0, and labutils/__init__.py says 0.3.0."
    (tree / "CHANGELOG.md").write_text("# Changes\n\n## Unreleased\n\n- New.\n")
    path = tree / "notebooks/00_start/00_start.ipynb"
    path.write_text(path.read_text().replace("@v0.3.0#", "#"))
    changes, notebooks = release.problems("v0.3.0", tree)
    assert "no section “## 0.3.0”" in changes
    assert "git+https://x.org/y#subdirectory" in notebooks and "course init --yes --branch v0.3.0" in notebooks


def test_a_release_has_every_message_in_every_language(tree):
    (tree / "README.md").write_text("# Course\n\nOne line.\n")
    edition = catalogs.Edition(tree / "locale" / "zh_CN")
    locale.updated(tree, edition)
    assert "locale/zh_CN/docs.po has translations of 0 of 4 messages." in release.problems("v0.3.0", tree)
    for name in ("docs", "grader", "lab"):
        texts = [entry.text for entry in catalogs.entries(edition.path(name))]
        catalogs.fill(edition.path(name), dict.fromkeys(texts, "字"), edition.language)
    assert release.problems("v0.3.0", tree) == []


def test_a_wheel_by_address_is_pinned_too(tree):
    path = tree / "notebooks/00_start/00_start.ipynb"
    path.write_text(path.read_text().replace("git+https://x.org/y@v0.3.0#subdirectory=labutils", "x-0.3.0-py3-any.whl"))
    assert release.problems("v0.3.0", tree) == []


def test_a_wheel_without_a_license_or_with_solutions_is_refused(tmp_path):
    wheel = tmp_path / "labutils-0.3.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("labutils-0.3.0.dist-info/METADATA", "Name: labutils\n\n")
        archive.writestr("solutions/00_start/00_start.py", "")
    text = "\n".join(release.faults([wheel], "0.3.0"))
    assert "Built labutils-0.3.0-py3-none-any.whl." in text and "no license" in text
    assert "no description" in text and "no part of the package" in text


@pytest.mark.skipif(not shutil.which("git"), reason="the tree's own files")
def test_this_trees_wheels_are_built_and_whole(tmp_path):
    wheels = release.build(tmp_path / "out")
    assert release.faults(wheels, release.version()) == []
    with zipfile.ZipFile(wheels[1]) as archive:
        assert {"labutils/py.typed", "labutils/plots/theater.html"} <= set(archive.namelist())
