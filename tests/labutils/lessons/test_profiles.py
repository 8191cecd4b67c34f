"""Unit 25's tables and pictures."""

import pytest

from labutils.exercises import profile_gaps
from labutils.lessons import profiles

pytestmark = pytest.mark.skipif(not profile_gaps.stored(), reason="not stored yet: python -m bench.profile_reports")


def test_reports_in_columns(capsys):
    profiles.show(0, 1)
    head, *rows = capsys.readouterr().out.splitlines()
    assert head.split() == ["report", "0", "1"] and all(len(row.split()) == 3 for row in rows)


def test_every_report_is_tried(capsys):
    profiles.try_all(lambda report: "tail wave")
    lines = capsys.readouterr().out.splitlines()
    assert all(line.startswith("✓" if "tail wave" in line else "✗") for line in lines)


def test_the_pictures_say_what_the_gpu_waits_for(capsys):
    pytest.importorskip("matplotlib")
    fig = profiles.compare(profile_gaps.account)
    assert len(fig.axes) == 2 and "the GPU waits for copy" in fig.alt
    assert len(capsys.readouterr().out.splitlines()) == len(profile_gaps.stored()) + 1
