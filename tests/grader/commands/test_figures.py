"""The stored figures of the solutions are those of the solutions in the repository, and show nothing of them."""

import json

from grader.commands import figures
from labutils.study import reference


def test_no_stored_figures_are_stale():
    stale = figures.stale(reference.stored())
    assert stale == [], f"run `python -m grader figures`: the solutions of {', '.join(stale)} have changed"


def test_every_kernel_exercise_has_figures_and_no_other():
    wanted = {exercise.id for unit in figures.kernels().values() for exercise in unit}
    assert set(reference.stored()["figures"]) == wanted


def test_no_line_of_a_solution_is_stored():
    for name, found in reference.stored()["figures"].items():
        assert set(found) == {"case", "counts", "code", "work"}, name
        assert all(isinstance(value, int) for value in found["counts"].values())


def test_only_units_that_changed_are_measured_again(tmp_path, monkeypatch, capsys):
    known = reference.stored()
    target = tmp_path / "figures.json"
    target.write_text(json.dumps(known | {"units": known["units"] | {"00_start": "before"}}))
    monkeypatch.setattr(reference, "PATH", target)
    monkeypatch.setattr(figures, "measure", lambda unit: ({f"{unit}/scale": {"case": "new"}}, []))
    parser = figures.argparse.ArgumentParser()
    figures.add_arguments(parser)
    assert figures.main(parser.parse_args([])) == 0
    written = json.loads(target.read_text())
    assert capsys.readouterr().out == "00_start: 1 exercises\n"
    assert written["units"] == known["units"]
    assert written["figures"]["00_start/scale"] == {"case": "new"}
    assert "00_start/scale_cuda" not in written["figures"]
    assert written["figures"].keys() | {"00_start/scale_cuda"} == known["figures"].keys()
