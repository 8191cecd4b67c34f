"""What docs/instructors.md tells people to type exists."""

import argparse
import importlib
import re
from pathlib import Path

import pytest

from grader.__main__ import VERBS

TEXT = (Path(__file__).resolve().parents[2] / "docs" / "instructors.md").read_text(encoding="utf-8")
COMMANDS = sorted(set(re.findall(r"python -m grader (\w+)([^`\n]*)", TEXT)))


@pytest.mark.parametrize(("verb", "rest"), COMMANDS)
def test_a_command_of_the_guide_exists(verb, rest):
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
    named = set(re.findall(r"--[a-z][a-z-]+", re.sub(r"--slurm=\S+|sbatch --array", "", TEXT)))
    assert named <= known, named - known
