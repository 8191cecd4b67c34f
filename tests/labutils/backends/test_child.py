"""The child process: results arrive one by one, and whatever happens to it the parent goes on."""

import os
import signal
import sys
import threading
import time
from pathlib import Path

import pytest

from labutils.backends import child

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="forks on Linux only")


def ok(value=1):
    return lambda: {"value": value}


def hang():
    while True:
        pass


def test_results_in_order():
    assert list(child.fork([ok(1), ok("x" * 10**6), ok(None)], 5)) == [
        {"value": 1},
        {"value": "x" * 10**6},
        {"value": None},
    ]


@pytest.mark.parametrize(
    "job, said",
    [
        (lambda: os._exit(7), "died: it ended itself with exit code 7, as os._exit does"),
        (lambda: os.kill(os.getpid(), signal.SIGSEGV), "died: a wild memory access (SIGSEGV)"),
        (lambda: os.kill(os.getpid(), signal.SIGKILL), "died: it was killed, perhaps for memory (SIGKILL)"),
        (hang, "timeout"),
    ],
)
def test_what_was_found_before_the_end_is_kept(job, said):
    assert list(child.fork([ok(), job, ok()], 0.3)) == [{"value": 1}, said]


def test_code_that_cannot_be_interrupted_is_killed(monkeypatch):
    monkeypatch.setattr(child, "GRACE", 0.2)

    def deaf():
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])
        time.sleep(60)

    begin = time.monotonic()
    assert list(child.fork([deaf], 0.2)) == ["timeout"]
    assert time.monotonic() - begin < 5


def test_waiting_ends_too():
    begin = time.monotonic()
    assert list(child.fork([lambda: time.sleep(60)], 0.2)) == ["timeout"]
    assert time.monotonic() - begin < 5


def test_the_limit_is_of_cpu_time():
    def slow():
        time.sleep(0.5)
        return {}

    assert list(child.fork([slow], 0.3)) == [{}]


def test_a_defect_of_ours_is_loud():
    def defect():
        raise KeyError("ours")

    with pytest.raises(RuntimeError, match="KeyError: 'ours'"):
        list(child.fork([defect], 5))


def test_no_child_is_left_behind():
    def children():
        return set(Path(f"/proc/self/task/{os.getpid()}/children").read_text().split())

    before = children()  # another test's servers
    jobs = child.fork([ok(), hang], 60)
    next(jobs)
    assert children() - before
    jobs.close()
    assert children() <= before


def test_streams_and_input_are_cut_off(capfd):
    def noisy():
        os.write(1, b"to stdout")
        os.write(2, b"to stderr")
        with pytest.raises(EOFError, match="somebody to type"):
            input("? ")
        return {}

    assert list(child.fork([noisy], 5)) == [{}]
    assert capfd.readouterr() == ("", "")


def test_memory_is_bounded(monkeypatch):
    monkeypatch.setattr(child, "MEMORY_LIMIT", 2**27)

    def bomb():
        try:
            return {"bytes": len(bytearray(2**28))}
        except MemoryError:
            return {"bytes": None}

    assert list(child.fork([bomb], 5)) == [{"bytes": None}]
    assert len(bytearray(2**28)) == 2**28


def test_printed_keeps_the_beginning():
    printed = child.Printed()
    for _ in range(child.PRINT_LIMIT):
        printed.write("abc")
    assert printed.getvalue() == ("abc" * child.PRINT_LIMIT)[: child.PRINT_LIMIT] + "\n… (more was printed)"


def test_the_alarm_rings_only_while_it_is_set():
    with pytest.raises(child.TimeLimit), child.alarm(0.05):
        hang()
    with child.alarm(0.05):
        pass
    time.sleep(0.1)


def test_the_alarm_rings_once():
    """Whatever is done about the first ring is not disturbed by a second."""
    with child.alarm(0.1, 0.08):
        with pytest.raises(child.TimeLimit):
            hang()
        end = time.monotonic() + 0.3
        while time.monotonic() < end:
            pass


def test_the_alarm_outside_the_main_thread_is_no_error():
    done = []

    def work():
        with child.alarm(1):
            done.append(True)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert done == [True]
