"""The child process: results arrive one by one, and whatever happens to it the parent goes on."""

import os
import signal
import subprocess
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


def starve():
    """Three seconds by the clock, of which a tenth is CPU time."""
    end = time.monotonic() + 3
    while time.monotonic() < end:
        until = time.process_time() + 0.01
        while time.process_time() < until:
            pass
        time.sleep(0.09)
    return {}


def test_who_gets_few_cycles_is_not_stopped_by_the_clock():
    """A window has 2 s here, and 0.5 s of CPU time are not reached."""
    assert list(child.fork([starve, starve], 0.5)) == [{}, {}]


def test_a_window_begins_anew_for_a_starved_process_only():
    def asked(*used, limit=10.0):
        clock = iter(used)
        window = child.Window(4.0, lambda: next(clock), limit)
        return [window.begins_anew() for _ in used[1:]]

    assert asked(1.0, 1.2, 1.4) == [True, True]
    assert asked(1.0, 1.01) == [False]
    assert asked(1.0, 1.2, 12.0) == [True, False]
    assert asked(None, None) == asked(1.0, None) == [False]
    many = [float(k) for k in range(child.WINDOWS + 1)]
    assert asked(*many, limit=99.0) == [True] * (child.WINDOWS - 1) + [False]


def test_the_cpu_time_of_another_process_can_be_read():
    worker = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        end = time.monotonic() + 60
        while child._used_by(worker.pid) < 0.2 and time.monotonic() < end:
            time.sleep(0.05)
        assert child._used_by(worker.pid) >= 0.2
    finally:
        worker.kill()
        worker.wait()
    assert child._used_by(worker.pid) is None


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
