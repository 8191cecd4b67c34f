"""Versions: the table agrees with what pip is told, and each sentence names the package and the command."""

import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement as Pip

from labutils import support

PROJECT = tomllib.loads((Path(__file__).parents[2] / "labutils/pyproject.toml").read_text())["project"]


@pytest.fixture
def versions(monkeypatch):
    """Pretends that packages are installed in some versions, and no others are."""

    def pretend(**known):
        monkeypatch.setattr(support, "installed", lambda name: known.get(name.replace("-", "_")))

    return pretend


def test_pip_is_told_the_same():
    told = [Pip(text) for text in PROJECT["dependencies"] + PROJECT["optional-dependencies"]["cuda"]]
    told = {one.name: one.specifier for one in told}
    for requirement in support.REQUIREMENTS:
        assert told[requirement.name] == Pip(requirement.specifier).specifier
    assert ".".join(map(str, support.PYTHON)) == PROJECT["requires-python"].removeprefix(">=")


def test_what_is_installed_here_is_fine():
    support.require()
    assert list(support.limits()) == []


def test_what_all_needs_stops_the_import_with_a_command(versions):
    versions(torch="2.8.1", numpy="2.0.0")
    with pytest.raises(ImportError, match='torch 2.8.1 is too old: pip install "torch>=2.9"') as refused:
        support.require()
    assert refused.value._render_traceback_() == [str(refused.value)]
    versions(torch="2.9.0+cu130")
    with pytest.raises(ImportError, match="numpy is not installed"):
        support.require()


def test_what_a_part_needs_is_said_and_the_rest_goes_on(versions):
    versions(torch="2.11.0", numpy="1.26", triton="3.5.1", matplotlib="3.10", ipywidgets="8.1", cuda_bindings="14.0.0")
    support.require()
    triton, cuda = support.limits()
    assert triton.startswith('triton 3.5.1 is too old, so Triton kernels cannot be used: pip install "triton>=3.6"')
    assert "cuda-bindings 14.0.0 is too new" in cuda and 'pip install "cuda-bindings>=13.0.3,<14"' in cuda


def test_a_build_that_pip_does_not_know_is_taken(versions):
    versions(triton=support.UNKNOWN)
    assert support.problem("triton") == ""


def test_an_old_python_is_refused(monkeypatch):
    monkeypatch.setattr(support.sys, "version_info", (3, 9, 2))
    with pytest.raises(support.Unsupported, match="needs Python 3.10 or newer; this is 3.9.2"):
        support.require()


def test_versions_are_compared_as_numbers():
    (torch,) = (r for r in support.REQUIREMENTS if r.name == "torch")
    assert torch.is_newer("3.0") and torch.is_newer("2.99.1") and not torch.is_newer(f"{torch.tried}.9")
    assert not torch.is_newer(support.UNKNOWN)
