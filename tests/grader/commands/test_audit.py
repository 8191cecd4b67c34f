"""The audit itself, and its verdict on every exercise."""

import argparse
import functools
import tomllib

import pytest

from grader.commands import audit
from grader.course import mutants
from labutils import exercises
from labutils.check.diagnose import KINDS
from labutils.exercises.hunts import is_hunt
from labutils.spec.exercise import KernelExercise, PlainExercise

# An audit loads a unit's whole solution, with its CUDA kernels.
pytestmark = pytest.mark.compiler

IDS = list(exercises.all_exercises())

GOOD = "edit = ['(n + block - 1) // block', '-(-n // block)']"
FLOOR = "edit = ['(n + block - 1) // block', 'n // block']"


@pytest.mark.parametrize("exercise_id", IDS)
def test_every_exercise_has_wrong_and_honest_mutants(exercise_id):
    expectations = [mutant.expect for mutant in mutants.mutants(exercise_id)]  # each says what is wrong, and loads
    honest = expectations.count(audit.ACCEPTED)
    if is_hunt(exercise_id):  # the exercise that the kernel comes from has more of both
        names = [mutant.name for mutant in mutants.mutants(exercise_id)]
        assert "planted" in names and "unfilled" not in names
        assert len(expectations) - honest >= 2 and honest >= 1, f"{exercise_id}: two wrong ones and one correct"
        return
    enough = 3 if isinstance(exercises.get(exercise_id), PlainExercise) else 6
    assert len(expectations) - honest >= enough and honest >= 3, f"{exercise_id}: {enough} wrong ones and 3 correct"
    assert "unfilled" in expectations


@pytest.mark.parametrize("exercise_id", IDS)
def test_every_mutant_differs_from_the_solution_and_from_each_other(exercise_id):
    texts = [m.text for m in mutants.mutants(exercise_id)]
    assert len({mutants.answer(exercise_id), *texts}) == 1 + len(texts)


def test_every_file_belongs_to_an_exercise_and_is_used():
    used = set(mutants.SOURCES.glob("*/mutants/equivalent.toml"))  # read by `grader mutate`
    for exercise_id in IDS:
        unit, name = exercise_id.split("/")
        path = mutants.SOURCES / unit / "mutants" / f"{name}.toml"
        tables = tomllib.loads(path.read_text(encoding="utf-8")).values()
        bases = {table["base"] for table in tables if "." in table.get("base", "")}
        used |= {path, *(path.with_suffix("") / base for base in bases)}
    assert {path for path in mutants.SOURCES.glob("*/mutants/**/*") if path.is_file()} == used


@pytest.fixture
def tables(tmp_path, monkeypatch):
    """Writes the mutants of an exercise; all others have none."""
    monkeypatch.setattr(mutants, "SOURCES", tmp_path)

    def write(text, exercise_id="00_start/number_of_programs"):
        unit, name = exercise_id.split("/")
        folder = tmp_path / unit / "mutants"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}.toml").write_text(text)
        return folder / name

    return write


def a_mutant(expect='expect = "race"', why='why = "Wrong."', how=GOOD):
    return f"[mine]\n{expect}\n{why}\n{how}\n"


@pytest.mark.parametrize("expect", ["", 'expect = ""', 'expect = "strange"', "expect = 1", 'expect = "race, timeout"'])
def test_an_expectation_must_be_a_kind_of_diagnosis(tables, expect):
    tables(a_mutant(expect))
    with pytest.raises(ValueError, match="00_start/number_of_programs, mutant mine: expect"):
        mutants.mutants("00_start/number_of_programs")


@pytest.mark.parametrize(
    ("said", "table"),
    [
        ("stands in the text 0 times", a_mutant(how="edit = ['no such text', '']")),
        ("stands in the text [2-9] times", a_mutant(how="edit = ['block', '']")),
        ("stands in the text no times", a_mutant(how="edit = ['', 'x']")),
        ("overlap", a_mutant(how="edits = [['n + block', 'n'], ['block - 1', 'block']]")),
        ("why must be a sentence", a_mutant(why="")),
        ("why must be a sentence", a_mutant(why='why = "no end"')),
        ("reason is not a field of a mutant", a_mutant(how=GOOD + "\nreason = 'x'")),
        ("has edits, a base, or a text", a_mutant(how="")),
        ("has edits, a base, or a text", a_mutant(how=GOOD + "\ntext = 'x'")),
        ("no base 'other'", a_mutant(how="base = 'other'")),
        ("no base 'mine'", a_mutant(how="base = 'mine'")),
        ("No such file", a_mutant(how="base = 'small.py'")),
    ],
)
def test_a_wrong_table_is_refused_by_name(tables, said, table):
    tables(table)
    with pytest.raises(ValueError, match=f"^00_start/number_of_programs, mutant mine: .*{said}"):
        mutants.mutants("00_start/number_of_programs")


@pytest.mark.parametrize("text", [None, "[mine"])
def test_a_file_that_cannot_be_read_is_refused_by_name(tables, text):
    if text:
        tables(text)
    with pytest.raises(ValueError, match="^00_start/number_of_programs: .* cannot be read"):
        mutants.mutants("00_start/number_of_programs")


def test_a_mutant_starts_from_the_solution_a_file_or_another_mutant(tables):
    other = "[other]\nexpect = 'accepted'\nwhy = 'Other.'\nbase = 'mine'\nedit = ['-(-n', '-(0 - n']\n"
    small = "[small]\nexpect = 'accepted'\nwhy = 'Small.'\nbase = 'small.py'\n"
    own = "[own]\nexpect = 'accepted'\nwhy = 'Own.'\ntext = 'number_of_programs = 1'\n"
    folder = tables(a_mutant() + other + small + own)
    folder.mkdir()
    (folder / "small.py").write_text("number_of_programs = 2\n")
    found = {m.name: m.text for m in mutants.mutants("00_start/number_of_programs")}
    assert list(found) == ["mine", "other", "own", "small", "unfilled"]
    assert "return -(-n // block)" in found["mine"] and "return -(0 - n // block)" in found["other"]
    assert found["own"] == "number_of_programs = 1" and found["small"] == "number_of_programs = 2\n"
    assert "number_of_programs is not written yet" in found["unfilled"]


def test_edits_do_not_see_each_other():
    assert mutants.edited("a b c", [("a", "b"), ("b", "a"), ("c", "")]) == "b a "


def test_an_answer_is_the_checked_function_and_what_it_needs():
    text = mutants.answer("17_flash_attention/ragged")
    assert text.startswith("import triton\n") and text.endswith("\n") and "SOLUTION" not in text
    assert "def join(" in text and "CONFIGS = " in text and "def ragged(" in text
    assert "forward_kernel(" not in text and "def flash" not in text
    cuda = mutants.answer("15_matmul_cuda/shared")
    assert "__global__ void matmul_shared(" in cuda and "void matmul_naive(" not in cuda and "def " not in cuda


def test_a_solutions_module_defines_and_does_not_run():
    text = audit.solution_text("00_start")
    assert "def number_of_programs" in text and "def scale_kernel" in text and "import triton" in text
    assert "lab.check" not in text and "lab.tiny" not in text and "lab.access_map" not in text
    compile(text, "solution", "exec")


def test_cuda_kernels_take_the_place_of_the_solutions_own(tables):
    head = "__global__ void scale_cuda_kernel(const float* x, float factor, float* out, int n)"
    found = {
        "copies": ("wrong-formula", "int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) { out[i] = x[i]; }"),
        "misspelt": ("does-not-compile", "if (threadIdx.x < n) { out[0] = factr; }"),
        "stub": ("unfilled", 'static_assert(false, "scale_cuda_kernel is not written yet");'),
    }
    rows = [
        f"[{name}]\nexpect = '{kind}'\nwhy = 'Wrong.'\ntext = '''{head} {{ {body} }}'''\n"
        for name, (kind, body) in found.items()
    ]
    tables("".join(rows), "00_start/scale_cuda")
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
def one_exercise(tables):
    """An audit of one plain exercise whose mutants the test writes."""

    def run(text):
        tables(text)
        parser = argparse.ArgumentParser()
        audit.add_arguments(parser)
        return audit.main(parser.parse_args(["00_start/number_of_programs", "--jobs", "1"]))

    return run


def test_disagreements_are_listed_and_fail(one_exercise, capsys):
    status = one_exercise(
        f"""
[passes]
expect = "wrong-formula"
why = "Right all the same."
{GOOD}

[refused]
expect = "accepted"
why = "Wrong."
{FLOOR}

[other_kind]
expect = "race"
why = "Wrong."
base = "refused"

[breaks]
expect = "error"
why = "Breaks on import."
text = "raise ValueError('on import')"
"""
    )
    message = capsys.readouterr().out
    assert status == 1
    assert "passes: expected wrong-formula, got accepted" in message
    assert "refused: expected accepted, got wrong-formula: number_of_programs(1, 4) is 0, expected 1" in message
    assert "other_kind: expected race, got wrong-formula" in message
    assert "breaks: expected error, got broken: ValueError: on import" in message
    assert "unfilled: expected" not in message
    assert (
        "mutants rejected 2/4 (50.0%), with the right diagnosis 1/4 (25.0%); correct variants accepted 1/2 (50.0%)"
        in message
    )


def test_agreement_passes(one_exercise, capsys):
    assert one_exercise(a_mutant('expect = "accepted"')) == 0
    assert "correct variants accepted 2/2 (100.0%)" in capsys.readouterr().out


def test_a_mutant_without_expectation_is_a_disagreement(one_exercise, capsys):
    assert one_exercise(a_mutant("")) == 1
    assert "mutant mine: expect = None is neither a kind of diagnosis nor" in capsys.readouterr().out


def is_slow(exercise_id):
    """Triton's later kernels take seconds each to compile: their mutants are tried when there is patience."""
    task = exercises.get(exercise_id)
    return isinstance(task, KernelExercise) and task.language == "triton" and task.unit[:2] > "10"


QUICK = [i for i in IDS if not is_slow(i)]


def is_kernel(exercise_id):
    return isinstance(exercises.get(exercise_id), KernelExercise)


@functools.cache
def every_sixth(exercise_id):
    """The names of every sixth wrong mutant and of every sixth correct variant."""
    found = mutants.mutants(exercise_id)
    wrong = [m.name for m in found if m.expect != audit.ACCEPTED]
    correct = [m.name for m in found if m.expect == audit.ACCEPTED]
    return {*wrong[::6], *correct[::6]}


def in_every_run(trial):
    """Of an exercise with kernels the solution and a sixth of the mutants; `pytest -m slow` tries all."""
    return trial.name == "solution" or not is_kernel(trial.exercise) or trial.name in every_sixth(trial.exercise)


@pytest.fixture(scope="module")
def worker():
    """One process for the trials of all exercises: starting it takes longer than most of them."""
    worker = audit.Worker()
    yield worker
    worker.stop()


@functools.cache
def solution(unit):
    return audit.solution_text(unit)


@pytest.mark.parametrize("exercise_id", QUICK)
def test_wrong_is_refused_with_its_diagnosis_and_honest_accepted(worker, exercise_id):
    """Quickly: the small cases first."""
    text = solution(exercise_id.split("/")[0])
    trials = [t for t in audit.trials(exercise_id, text) if in_every_run(t)]
    assert any(t.expect != audit.ACCEPTED for t in trials)
    trials.append(audit.solution_trial(exercise_id, text))
    results = [worker.attempt(trial, quick=True) for trial in trials]
    check(results, exercise_id)
    assert {r.kind for r in results} <= {audit.ACCEPTED, *KINDS}


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("exercise_id", [i for i in IDS if is_kernel(i)])
def test_every_mutant(exercise_id):
    check(list(audit.audit([exercise_id], quick=True)), exercise_id)


@pytest.mark.parametrize("exercise_id", [i for i in IDS if is_slow(i) and not is_hunt(i)])
def test_of_the_slow_ones_the_solution(exercise_id):
    """A hunt's is that of the exercise that its kernel comes from."""
    text = audit.solution_text(exercise_id.split("/")[0])
    result = audit.attempt(audit.solution_trial(exercise_id, text), quick=True)
    assert result.agrees, result.message


def check(results, exercise_id):
    mine = [r for r in results if r.trial.exercise == exercise_id]
    assert mine and not [f"{r.trial.name}: {r.trial.expect}, got {r.kind}: {r.message}" for r in mine if not r.agrees]
