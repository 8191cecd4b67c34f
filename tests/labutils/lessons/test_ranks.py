"""What the pictures of unit 23 say in words, and what is printed where there is no picture."""

import torch

from labutils.exercises.many_gpus import all_reduce_us
from labutils.gpu.pipeline import one_forward_one_backward
from labutils.lessons import pipelines, ranks


def whole_buffer(rank, world, x, comm):
    mine = x.clone()
    for _ in range(world - 1):
        buffer = torch.empty_like(x)
        comm.exchange(mine, (rank + 1) % world, buffer, (rank - 1) % world).wait()
        x += buffer
        mine = buffer


def test_a_picture_counts_messages():
    shown = ranks.picture(whole_buffer, 4, 16)
    assert shown.alt.startswith("12 messages, 192 elements. 3.")
    assert "rank 0 sends 100%" in shown.alt


def test_a_deadlock_is_printed_beside_its_picture(capsys):
    ranks.picture(lambda rank, world, x, comm: comm.recv(x, (rank - 1) % world), 2, 4)
    assert capsys.readouterr().out.startswith("deadlock: ranks 0 → 1 → 0 wait for each other\n")


def test_calls_that_do_not_fit_have_no_picture(capsys):
    assert ranks.picture(lambda rank, world, x, comm: comm.send(x, rank), 2, 4) is None
    assert capsys.readouterr().out == "No picture: rank 0 calls send with itself\n"


def test_curves_say_where_the_ring_becomes_faster():
    assert "tree up to 2.09715e+06 bytes, then ring" in ranks.times(all_reduce_us, 8).alt


def test_a_schedule_is_a_picture_with_what_stages_hold(capsys):
    shown = pipelines.picture(one_forward_one_backward(4, 8))
    assert shown.alt.startswith("33 ms, 27% idle") and "stage 0, holds 4 73%" in shown.alt
    assert pipelines.picture([["F"]]) is None
    assert capsys.readouterr().out.startswith("No picture: stage 0 has F")
    pipelines.picture([[("B", 0), ("F", 0)]])
    assert "deadlock: stage 0 waits for stage 0" in capsys.readouterr().out


def test_placements_are_a_table(capsys):
    pipelines.placements(lambda model, machine, dp, tp, pp: (1.0, 2000.0), lambda model, machine: None)
    assert capsys.readouterr().out.count("does not fit") == 6
