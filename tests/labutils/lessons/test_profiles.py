"""Unit 25's tables and pictures."""

import pytest

from labutils.exercises import _reports, profile_gaps
from labutils.lessons import profiles

pytestmark = pytest.mark.skipif(not profile_gaps.stored(), reason="not stored yet: python -m bench.profile_reports")


def test_every_report_is_tried(capsys):
    profiles.try_all(lambda report: "tail wave")
    lines = capsys.readouterr().out.splitlines()
    counted = {line[:15].strip(): line[15:].split() for line in lines if not line.startswith(" ")}
    assert set(counted) == set(_reports.EVIDENCE)
    assert all(right == (of if name == "tail wave" else "0") for name, (right, _, of, _) in counted.items())
    assert len(lines) - len(counted) == sum(r["bottleneck"] != "tail wave" for r in _reports.reports())


def test_the_pictures_say_what_the_gpu_waits_for(capsys):
    pytest.importorskip("matplotlib")
    fig = profiles.compare(profile_gaps.account)
    assert len(fig.axes) == 2 and "the GPU waits for copy" in fig.alt
    assert len(capsys.readouterr().out.splitlines()) == len(profile_gaps.stored()) + 1
