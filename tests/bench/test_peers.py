"""One row of the comparison with other packages, without a GPU: who takes part, and which two are compared."""

import torch

from bench import peers
from bench.rivals import Missing
from labutils.timing.stopwatch import Sample

SECONDS = {"slow": 3e-3, "fast": 2e-3, "other": 1e-3, "slower": 5e-3}


class Watch:
    def take_turns(self, rings):
        return {name: Sample(name, (SECONDS[name],) * 3) for name in rings}


def absent(x, out):
    raise Missing("it is not installed")


def row():
    double = peers.writing(lambda x, out: torch.mul(x, 2, out=out))
    return peers.Row(
        "twice",
        lambda: [(torch.ones(4), torch.empty(4)) for _ in range(2)],
        {"slow": double, "fast": double},
        {
            "other": peers.returning(lambda x: 2 * x),
            "slower": double,
            "absent": absent,
            "broken": peers.returning(lambda x: 3 * x),
            "silent": peers.writing(lambda x, out: None),
        },
        lambda result, x, out: None if torch.equal(result, 2 * x) else "not twice",
        flops=1e9,
    )


def test_the_fastest_of_ours_is_compared_with_the_fastest_other_that_is_right(monkeypatch):
    monkeypatch.setattr(peers, "DEVICE", "cpu")
    result = peers.measure(row(), Watch(), lambda who: None, without=("slower",))
    assert (result["ours"], result["other"], result["ratio"]) == ("fast", "other", 0.5)
    assert result["left_out"] == {
        "slower": "its process stopped here",
        "absent": "it is not installed",
        "broken": "wrong: not twice",
        "silent": "wrong: not twice",
    }
    assert not peers.reached(result)
    said = peers.summary([result, peers.unmeasured("thrice", "no answer")])
    assert "| twice | fast: 0 TFLOP/s | other: 1 TFLOP/s | 0.500 | MISSED 1.00 |" in said
    assert "| thrice | no figure | | | MISSED |" in said
    assert "left out in 1 rows: absent: it is not installed" in said


def test_an_untuned_shape_may_be_slower():
    tuned, untuned = (peers.Row("r", list, {}, {}, lambda *a: None, tuned=t, goal=0.98) for t in (True, False))
    assert (tuned.least, untuned.least) == (0.98, 0.98 * peers.UNTUNED)
