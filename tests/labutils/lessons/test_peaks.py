"""Unit 01's tables and picture, with the right formulas."""

import pytest

from labutils import exercises
from labutils.lessons import peaks


def reference(name):
    return exercises.get(f"01_hardware/{name}").reference


def test_headlines_stand_beside_dense_peaks(capsys):
    peaks.headlines(reference("peak"))
    rows = {line[:14].strip(): line.split()[-2:] for line in capsys.readouterr().out.splitlines()[1:]}
    assert rows["H100 SXM fp16"] == ["989", "989"]
    assert rows["B200 fp8"][1] == "4500"


def test_ridges_are_those_of_the_data_sheets(capsys):
    peaks.ridges(reference("ridge"))
    table = capsys.readouterr().out
    (h200,) = (line for line in table.splitlines() if line.startswith("H200"))
    assert h200.split()[-3:] == ["14", "206", "412"]


def test_floats_need_more_warps_than_an_sm_holds():
    pytest.importorskip("matplotlib")
    fig = peaks.warps_by_width(reference("warps_needed"), 600)
    h200 = next(line for line in fig.axes[0].lines if line.get_label() == "H200")
    assert h200.get_ydata()[0] > 64 > h200.get_ydata()[-1]
