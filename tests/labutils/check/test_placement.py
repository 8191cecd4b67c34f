"""Where programs store, and what threads wait for: the lines that explain it."""

import pytest

from labutils.check import placement

RING = """\
__global__ void ring(float* out) {
    mbarrier_init(&full, 1);
    mbarrier_init(&empty[0], 128);
    mbarrier_expect(&full, 4096);
    mbarrier_wait(&full, 0);
    mbarrier_wait(&empty[0], 1);
    mbarrier_arrive(&empty[0]);
}
"""


def waiting(threads, parity, lacks, bytes_=0):
    """A part of what the emulator says of a deadlock at mbarriers."""
    return (
        f"{threads} threads wait at mbarrier_wait for the end of a phase of parity {parity}, while its barrier is in "
        f"one of parity {parity} that lacks {lacks} arrival{'s' * (lacks > 1)} and {bytes_} bytes"
    )


@pytest.mark.parametrize(
    "message, line, cause, advice",
    [
        (waiting(32, 0, 0, 1024), 5, "a phase still expects 1024 bytes", "line 4"),
        (waiting(32, 1, 32), 6, "96 of the 128 arrivals at empty have come", "line 3"),
        (f"{waiting(32, 0, 1)}; {waiting(1, 1, 128)}", 5, "each side waits for the other", "parity"),
        (waiting(32, 0, 1), 5, "the other threads have gone on or returned", "line 7"),
    ],
)
def test_a_deadlock_at_mbarriers_says_what_is_missing(message, line, cause, advice):
    found = placement.stuck(message, line, [RING])
    assert cause in found.cause and advice in found.cause + found.advice


def test_other_deadlocks_say_nothing_about_mbarriers():
    assert placement.stuck("64 threads wait at __syncthreads", 3, [RING]) is None
    assert placement.stuck(waiting(32, 0, 1), 5, ["__global__ void k() {}"]) is None
