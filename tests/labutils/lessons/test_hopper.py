"""What unit 16 prints without a GPU."""

from labutils.lessons import hopper


def test_the_gluon_ring_is_shown_by_its_two_sides(capsys):
    hopper.show_gluon()
    shown = capsys.readouterr().out
    assert "def produce(" in shown and "def consume(" in shown
    assert "def gluon_kernel(" not in shown
