"""What is different while a class is graded: nothing is shown that nobody looks at, and nothing slow is imported."""

import json
import subprocess
import sys

import labutils as lab
from labutils.backends import extract

SCALE = 2.5


def scale(x):
    return x * SCALE


def test_pictures_and_times_are_skipped(monkeypatch, capsys):
    monkeypatch.setenv("NBGRADER_EXECUTION", "autograde")
    for show in (lab.tiny, lab.benchmark, lab.access_map):
        assert show("no such exercise") is None
        assert capsys.readouterr().out == f"{show.__name__}: skipped while grading\n"


def test_a_learner_sees_them(monkeypatch, capsys):
    monkeypatch.delenv("NBGRADER_EXECUTION", raising=False)
    lab.tiny("00_start/scale", lambda: None)
    assert "skipped" not in capsys.readouterr().out


def test_a_constant_does_not_import_pytorch_into_the_compiler():
    parts = [tuple(part) for part in extract.module_parts(scale)]
    code = f"import json, sys\nfor text, *_ in json.loads({json.dumps(json.dumps(parts))}): exec(text)\n"
    code += "assert scale(2) == 5.0 and 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
