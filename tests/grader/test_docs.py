"""What the documents tell people to type exists, and what they link to is there."""

import argparse
import importlib
import re
from pathlib import Path

import pytest

from grader.__main__ import VERBS

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob(".github/**/*.md")])
TEXT = (ROOT / "docs" / "instructors.md").read_text(encoding="utf-8")
COMMANDS = sorted(
    {
        found
        for document in DOCUMENTS
        for found in re.findall(r"python -m grader (\w+)([^`\n]*)", document.read_text(encoding="utf-8"))
        if found[0].islower()  # VERB stands for any
    }
)
by_document = pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())


def anchors(markdown: str) -> set[str]:
    """The fragments that lead to a place: those that GitHub gives the headings, and a translation's own."""
    headings = re.findall(r"^#+ (.+)$", markdown, re.MULTILINE)
    github = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
    return github | set(re.findall(r'<a id="([^"]+)"></a>', markdown))


@by_document
def test_relative_links_resolve(document):
    text = re.sub(r"`[^`\n]*`", "", document.read_text(encoding="utf-8"))  # code is no link: `kernel[grid](x)`
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        path, _, fragment = link.partition("#")
        if re.match(r"[a-z]+:", link):
            continue
        target = (document.parent / path).resolve() if path else document
        assert target.exists(), f"{document.name}: {link}"
        assert not fragment or fragment in anchors(target.read_text(encoding="utf-8")), f"{document.name}: {link}"


@pytest.mark.parametrize("name", ["docs/architecture.md", "CONTRIBUTING.md", "SECURITY.md"])
def test_paths_of_the_tree_that_a_document_names_exist(name):
    text = (ROOT / name).read_text(encoding="utf-8")
    paths = set(re.findall(r"(?<![\w./])(?:labutils|grader|bench|tests|docs|solutions)/[\w./]*\w", text))
    examples = {"solutions/06_elementwise_triton/mutants/axpy.toml", "solutions/NN_name/NN_name.py"}
    examples |= {"labutils/exercises/name.py"} | {path for path in paths if "/UNIT" in path}
    assert [path for path in sorted(paths - examples) if not (ROOT / path).exists()] == []


@pytest.mark.parametrize(("verb", "rest"), COMMANDS)
def test_a_command_of_the_documents_exists(verb, rest):
    parser = argparse.ArgumentParser()
    importlib.import_module(VERBS[verb][0]).add_arguments(parser)
    known = {o for a in parser._actions for o in a.option_strings}
    assert set(re.findall(r"--[a-z-]+", rest)) <= known


def test_every_option_that_the_guide_names_is_some_commands():
    known = set()
    for module, _ in VERBS.values():
        parser = argparse.ArgumentParser()
        importlib.import_module(module).add_arguments(parser)
        known |= {o for a in parser._actions for o in a.option_strings}
    named = set(re.findall(r"--[a-z][a-z-]+", re.sub(r"--slurm=\S+|sbatch --array|nbgrader .*", "", TEXT)))
    assert named <= known, named - known
