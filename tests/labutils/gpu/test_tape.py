"""Tapes: what a capture refuses, and replays that nothing but data decides."""

import pytest
import torch

from labutils.gpu import tape


def good(x, weight, running, out):
    h = torch.relu(x @ weight)
    running += 0.25 * (h.mean(0) - running)
    torch.sub(h, running, out=out)


def test_a_replay_does_what_the_step_does_on_other_values():
    recorded = tape.tape(good, tape.example(4, 6, 1, True))["operations"]
    one, two = tape.example(4, 6, 9, False), tape.example(4, 6, 9, False)
    good(*one.values())
    tape.replay(recorded, list(two.values()))
    torch.testing.assert_close(one, two)


@pytest.mark.parametrize(
    "step, reason",
    [
        (lambda x, weight, running, out: out.fill_(x.max().item()), "sync"),
        (lambda x, weight, running, out: out.zero_() if x.max() > 0 else out, "sync"),
        (lambda x, weight, running, out: out.mul_(torch.tensor(2.0)), "host"),
        (lambda x, weight, running, out: x[x > 0], "dynamic"),
        (lambda x, weight, running, out: torch.rand_like(out), "random"),
        (lambda x, weight, running, out: torch.linalg.inv(weight[:6]), "unknown"),
    ],
)
def test_what_cannot_be_captured_is_refused(step, reason):
    assert tape.tape(step, tape.example(4, 6, 1, True))["refused"] == reason


@pytest.mark.parametrize(
    "operations",
    [
        "no tape",
        [["aten.system.default", [], {}, [4]]],
        [["os.system.default", ["true"], {}, [4]]],
        [["aten.relu.default", [{"t": 99}], {}, [4]]],
        [["aten.full.default", [[1 << 40], 1.0], {}, [4]]],
        [["aten.zero_.default", [{"t": 0}], {}, [0]]] * 300,
    ],
)
def test_a_forged_tape_is_refused_and_costs_no_memory(operations):
    with pytest.raises(tape.BadTape):
        tape.replay(operations, list(tape.example(4, 6, 1, True).values()))
