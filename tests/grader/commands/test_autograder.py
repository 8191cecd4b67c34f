"""What Gradescope and Autolab get: complete, secret only where it must be, and with the points of `grade`."""

import io
import json
import os
import subprocess
import sys
import tarfile
import zipfile

import pytest
import yaml

from grader.commands import autograder
from grader.course.build import release_notebook
from grader.course.sources import ROOT, notebook_bytes, source_notebook
from grader.demo.sample import solved
from grader.grading.grade import grade
from grader.grading.options import GradeOptions

UNIT = "00_start"


def test_gradescopes_zip_has_what_judging_one_unit_needs():
    with zipfile.ZipFile(io.BytesIO(autograder.gradescope(UNIT, 5))) as archive:
        names = set(archive.namelist())
        modes = {i.filename: i.external_attr >> 16 & 0o777 for i in archive.infolist()}
        assert json.loads(archive.read("autograder.json")) == {"unit": UNIT, "seed": 5}
    assert {"setup.sh", "run_autograder", "requirements.lock", "labutils/pyproject.toml"} <= names
    assert f"solutions/{UNIT}/{UNIT}.py" in names and "solutions/06_elementwise_triton/claims.toml" in names
    assert not [
        n for n in names if "__pycache__" in n or n.startswith(("tests/", "grader/redteam", "grader/demo", "out/"))
    ]
    assert not [n for n in names if n.endswith(".py") and n.startswith("solutions/") and UNIT not in n]
    assert modes["run_autograder"] == modes["setup.sh"] == modes["tools/setup.sh"] == 0o755
    assert modes["autograder.json"] == 0o600


def test_autolabs_tar_is_an_assessment_with_a_problem_for_each_exercise():
    with tarfile.open(fileobj=io.BytesIO(autograder.autolab(UNIT, 5))) as archive:
        files = {m.name: archive.extractfile(m).read() for m in archive.getmembers()}
    assert set(files) == {
        f"unit00start/{n}" for n in ("unit00start.yml", "autograde-Makefile", "autograde.tar", "Dockerfile")
    }
    about = yaml.safe_load(files["unit00start/unit00start.yml"])
    assert about["general"]["handin_filename"] == f"{UNIT}.ipynb"
    assert f"cp {UNIT}.ipynb" in files["unit00start/autograde-Makefile"].decode()
    assert [p["name"] for p in about["problems"]] == ["number_of_programs", "scale", "scale_cuda"]
    with tarfile.open(fileobj=io.BytesIO(files["unit00start/autograde.tar"])) as course:
        assert {"autograder.json", "grader/commands/one_submission.py", "tools/setup.sh"} <= set(course.getnames())


@pytest.mark.slow
@pytest.mark.compiler
def test_in_gradescopes_and_autolabs_folders_points_are_those_of_grade(tmp_path):
    root, stubs = tmp_path / "autograder", tmp_path / "bin"
    for folder in (root / "submission" / "deep", root / "results", stubs):
        folder.mkdir(parents=True)
    with zipfile.ZipFile(io.BytesIO(autograder.gradescope(UNIT, 5))) as archive:
        archive.extractall(root / "source")
    (root / "run_autograder").write_bytes((root / "source" / "run_autograder").read_bytes())
    unit = ROOT / "solutions" / UNIT
    right = notebook_bytes(solved(release_notebook(unit), source_notebook(unit)))
    answer = right.replace(b"factor * x[i]", b"factor + x[i]")
    assert answer != right
    (root / "submission" / "deep" / "Copy of lab.ipynb").write_bytes(answer)

    # What installs is not there: the present environment stands where venv or uv would make one.
    (stubs / "apt-get").write_text("#!/bin/sh\n")
    python = f'#!/bin/sh\n[ "$2" = pip ] && exit 0\nexec {sys.executable} "$@"\n'
    (stubs / "venv_python").write_text(python)
    (stubs / "python3").write_text(
        '#!/bin/sh\ncase "$2" in uv|venv) ;; *) exit 0 ;; esac\nfor last; do :; done\nmkdir -p $last/bin\n'
        f"cp {stubs}/venv_python $last/bin/python\n"
    )
    for stub in stubs.iterdir():
        stub.chmod(0o755)
    environment = {"PATH": f"{stubs}:{os.environ['PATH']}", "HOME": str(tmp_path), "TRITON_INTERPRET": "1"}

    def run(*command, cwd=root):
        done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    run("bash", str(root / "source" / "setup.sh"))
    run("bash", str(root / "run_autograder"))
    payload = json.loads((root / "results" / "results.json").read_text())
    results = grade(unit, root / "submission", tmp_path / "out", GradeOptions(seed=5, workers=1, student="ana"))
    expected = {o.name: o.marks for o in results.students[0].outcomes}
    assert sorted(t["score"] for t in payload["tests"]) == sorted(expected.values())
    assert payload["score"] == sum(expected.values()) and 0 < payload["score"] < results.points

    with tarfile.open(fileobj=io.BytesIO(autograder.autolab(UNIT, 5))) as archive:
        archive.extractall(tmp_path, filter="data")
    job = tmp_path / "unit00start"
    (job / f"{UNIT}.ipynb").write_bytes(answer)
    makefile = (
        (job / "autograde-Makefile").read_text().replace("/opt/gpulab/venv/bin/python", str(root / "venv/bin/python"))
    )
    (job / "Makefile").write_text(makefile)
    printed = run("make", "-s", cwd=job)
    assert json.loads(printed.splitlines()[-1])["scores"] == expected
