"""The audit itself, and its verdict on every exercise."""

import argparse
import re
import zlib

import pytest

from grader.commands import audit
from labutils import exercises
from labutils.check.diagnose import KINDS
from labutils.spec.exercise import KernelExercise, PlainExercise

# An audit loads a unit's whole solution, with its CUDA kernels.
pytestmark = pytest.mark.compiler

IDS = list(exercises.all_exercises())

GOOD = "def number_of_programs(n, block):\n    return -(-n // block)\n"


def files_of(exercise_id):
    expectations = [trial.expect for trial in audit.mutants(exercise_id)]
    honest = expectations.count(audit.ACCEPTED)
    return len(expectations) - honest, honest


@pytest.mark.parametrize("exercise_id", IDS)
def test_every_exercise_has_wrong_and_honest_files(exercise_id):
    wrong, honest = files_of(exercise_id)
    enough = 3 if isinstance(exercises.get(exercise_id), PlainExercise) else 6
    assert wrong >= enough and honest >= 3


def test_every_file_belongs_to_an_exercise_and_says_what_is_wrong():
    for path in [*audit.MUTANTS.rglob("*.py"), *audit.MUTANTS.rglob("*.cu")]:
        assert path.parent.relative_to(audit.MUTANTS).as_posix() in IDS
        assert audit.expectation(path)
        head = path.read_text(encoding="utf-8").split("\n")[1:3]
        why = head[1] if re.match(r"(#|//) marks: ", head[0]) else head[0]
        assert re.fullmatch(r"(#|//) .+\.", why), f"{path}: after what is expected, a sentence says what is wrong"


@pytest.mark.parametrize("first", ["", "# expect:", "# expect: strange", "expect: race", "# expect: race, timeout"])
def test_an_expectation_must_be_a_kind_of_diagnosis(tmp_path, first):
    path = tmp_path / "mutant.py"
    path.write_text(f"{first}\n{GOOD}")
    with pytest.raises(ValueError, match="mutant.py"):
        audit.expectation(path)


def test_a_solutions_module_defines_and_does_not_run():
    text = audit.solution_text("00_start")
    assert "def number_of_programs" in text and "def scale_kernel" in text and "import triton" in text
    assert "lab.check" not in text and "lab.tiny" not in text and "lab.access_map" not in text
    compile(text, "solution", "exec")


def test_cuda_kernels_take_the_place_of_the_solutions_own(tmp_path, monkeypatch):
    monkeypatch.setattr(audit, "MUTANTS", tmp_path)
    folder = tmp_path / "00_start" / "scale_cuda"
    folder.mkdir(parents=True)
    head = "__global__ void scale_cuda_kernel(const float* x, float factor, float* out, int n)"
    files = {
        "copies": ("wrong-formula", "int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) { out[i] = x[i]; }"),
        "misspelt": ("does-not-compile", "if (threadIdx.x < n) { out[0] = factr; }"),
        "stub": ("unfilled", 'static_assert(false, "scale_cuda_kernel is not written yet");'),
    }
    for name, (kind, body) in files.items():
        (folder / f"{name}.cu").write_text(f"// expect: {kind}\n// Wrong.\n{head} {{ {body} }}\n")
    found = {r.trial.name: r for r in audit.audit(["00_start/scale_cuda"], jobs=1)}
    assert all(r.agrees for r in found.values()), found
    assert "a copy of x" in found["copies"].message


def test_names_select_units_and_exercises():
    assert audit.select([]) == IDS
    assert audit.select(["00_start"])[:2] == ["00_start/number_of_programs", "00_start/scale"]
    assert audit.select(["00_start/scale", "00_start"])[0] == "00_start/scale"
    with pytest.raises(KeyError, match="did you mean"):
        audit.select(["00_start/scales"])


@pytest.fixture
def one_folder(tmp_path, monkeypatch):
    """An audit of one plain exercise whose files the test writes."""
    monkeypatch.setattr(audit, "MUTANTS", tmp_path)
    folder = tmp_path / "00_start" / "number_of_programs"
    folder.mkdir(parents=True)

    def run(**files):
        for name, text in files.items():
            (folder / f"{name}.py").write_text(text)
        parser = argparse.ArgumentParser()
        audit.add_arguments(parser)
        return audit.main(parser.parse_args(["00_start/number_of_programs", "--jobs", "1"]))

    return run


def test_disagreements_are_listed_and_fail(one_folder, capsys):
    status = one_folder(
        passes=f"# expect: wrong-formula\n# Right all the same.\n{GOOD}",
        refused="# expect: accepted\n# Wrong.\ndef number_of_programs(n, block):\n    return n // block\n",
        other_kind="# expect: race\n# Wrong.\ndef number_of_programs(n, block):\n    return n // block\n",
        breaks="# expect: error\n# Breaks on import.\nraise ValueError('on import')\n",
    )
    message = capsys.readouterr().out
    assert status == 1
    assert "passes: expected wrong-formula, got accepted" in message
    assert "refused: expected accepted, got wrong-formula: number_of_programs(1, 4) is 0, expected 1" in message
    assert "other_kind: expected race, got wrong-formula" in message
    assert "breaks: expected error, got broken: ValueError: on import" in message
    assert "refused 1/3 (33.3%), with the right diagnosis 0/3 (0.0%); honest ones accepted 1/2 (50.0%)" in message


def test_agreement_passes(one_folder, capsys):
    assert one_folder(good=f"# expect: accepted\n# Right.\n{GOOD}") == 0
    assert "honest ones accepted 2/2 (100.0%)" in capsys.readouterr().out


def test_a_file_without_expectation_is_a_disagreement(one_folder, capsys):
    assert one_folder(nameless=GOOD) == 1
    assert "the first line must be" in capsys.readouterr().out


def is_slow(exercise_id):
    """Triton's later kernels take seconds each to compile: their files are tried when there is patience."""
    task = exercises.get(exercise_id)
    return isinstance(task, KernelExercise) and task.language == "triton" and task.unit[:2] > "10"


QUICK = [i for i in IDS if not is_slow(i)]


def is_kernel(exercise_id):
    return isinstance(exercises.get(exercise_id), KernelExercise)


def in_every_run(trial):
    """Of an exercise with kernels the solution and a third of the files; `pytest -m slow` tries all."""
    name = f"{trial.exercise}/{trial.name}"
    return trial.name == "solution" or not is_kernel(trial.exercise) or zlib.crc32(name.encode()) % 3 == 0


@pytest.fixture(scope="module")
def results():
    """Quickly: the small cases first."""
    return list(audit.audit(QUICK, quick=True, wanted=in_every_run))


@pytest.mark.timeout(900)
def test_nothing_is_left_out(results):
    tried = {i: [t for t in audit.mutants(i) if in_every_run(t)] for i in QUICK}
    assert len(results) == len(QUICK) + sum(map(len, tried.values()))
    assert all(any(t.expect != audit.ACCEPTED for t in trials) for trials in tried.values())
    assert {r.kind for r in results} <= {audit.ACCEPTED, *KINDS}


@pytest.mark.parametrize("exercise_id", QUICK)
def test_wrong_is_refused_with_its_diagnosis_and_honest_accepted(results, exercise_id):
    check(results, exercise_id)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("exercise_id", [i for i in IDS if is_kernel(i)])
def test_every_file(exercise_id):
    check(list(audit.audit([exercise_id], quick=True)), exercise_id)


@pytest.mark.parametrize("exercise_id", [i for i in IDS if is_slow(i)])
def test_of_the_slow_ones_the_solution(exercise_id, tmp_path):
    path = tmp_path / "solution.py"
    path.write_text(audit.solution_text(exercise_id.split("/")[0]), encoding="utf-8")
    result = audit.attempt(audit.Trial(exercise_id, "solution", str(path), audit.ACCEPTED, str(path)), quick=True)
    assert result.agrees, result.message


def check(results, exercise_id):
    mine = [r for r in results if r.trial.exercise == exercise_id]
    assert mine and not [f"{r.trial.name}: {r.trial.expect}, got {r.kind}: {r.message}" for r in mine if not r.agrees]
