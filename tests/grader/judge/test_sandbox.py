"""What a submission's Python can reach and leave behind, with namespaces and without."""

import contextlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from grader.course.solutions import ROOT
from grader.judge import compilers, isolation, sandbox
from grader.judge.sandbox import Died, Sandbox, SandboxLimits
from labutils.backends.simt import build
from labutils.check import diagnose
from labutils.cuda import nvrtc

isolated = pytest.mark.skipif(not sandbox.bubblewrap(), reason="bubblewrap does not work here")


@pytest.fixture(params=["bubblewrap", "plain child"])
def place(request, monkeypatch):
    if request.param == "bubblewrap":
        if not sandbox.bubblewrap():
            pytest.skip("bubblewrap does not work here")
    else:
        monkeypatch.setenv("GPULAB_NO_BWRAP", "1")
        sandbox.bubblewrap.cache_clear()
    yield request.param
    monkeypatch.undo()
    sandbox.bubblewrap.cache_clear()


LIMITS = SandboxLimits(60, 30)


def answers(body, limits=LIMITS, time_limit=5.0, cases=1):
    """What the launch program tells of a plain function with this body."""
    text = "import os, sys, time, socket\n\ndef f(n):\n" + "".join(f"    {line}\n" for line in body.split("\n"))
    task = {"id": "u/f", "entry": "f", "parameters": ["n"], "kind": "plain", "cases": [[k] for k in range(cases)]}
    box = Sandbox("launch", limits)
    try:
        job = json.dumps({"cells": [["a", text]], "tasks": [task], "time_limit": time_limit}).encode()
        return [json.loads(line) for line in box.answers(job)]
    finally:
        box.close()


def returned(body, **options):
    (answer,) = answers(body, **options)
    assert not answer.get("problem"), answer["problem"]
    return answer["answer"].get("value", answer["answer"])


def test_an_answer_comes_back(place):
    assert returned("return n + 41.5") == 41.5


@isolated
def test_there_is_no_network():
    body = "try:\n    socket.create_connection(('1.1.1.1', 53), 2)\nexcept OSError as e:\n    return type(e).__name__"
    assert returned(body) != 0
    assert returned("return ' '.join(os.listdir('/sys/class/net')) if os.path.exists('/sys') else 'none'") == "none"


def test_the_user_has_a_name(place):
    assert returned("import getpass\nreturn getpass.getuser()") == "submission"
    assert returned("return os.environ['TORCHINDUCTOR_CACHE_DIR'].startswith(os.environ['HOME'])") is True


@isolated
def test_the_emulator_is_built_before_a_submission_needs_it_whatever_compiler_this_user_prefers(tmp_path, monkeypatch):
    monkeypatch.setenv("CXX", "/usr/bin/g++")
    monkeypatch.setenv("GPULAB_CACHE", str(tmp_path))
    folder = isolation.warm_cache.__wrapped__()
    monkeypatch.delenv("CXX")
    monkeypatch.setenv("GPULAB_CACHE", str(folder))
    monkeypatch.setenv("PATH", isolation.PATH)
    before = {p.name for p in (folder / "simt").glob("*.so")}
    build.runtime(build.compiler())
    assert before and {p.name for p in (folder / "simt").glob("*.so")} == before


def test_the_courses_answers_are_not_in_sight(place):
    body = """try:
    import labutils.exercises
except ImportError as e:
    return type(e).__name__
return 'there'"""
    assert returned(body) == "ModuleNotFoundError"
    assert returned("return os.environ.get('GPULAB_SEED', 'none')") == "none"


@isolated
def test_no_file_of_the_repository_or_of_a_user_is_in_sight():
    places = [str(ROOT / "solutions"), str(ROOT / "grader"), "/root/.bashrc", "/etc/passwd", "/var"]
    places += [
        str(path) for path in Path.home().iterdir() if not any(f.startswith(str(path)) for f in isolation.folders())
    ]
    assert returned(f"return str([p for p in {places} if os.path.exists(p)])") == "[]"


@isolated
def test_only_its_own_folders_can_be_written():
    body = """found = []
for folder in ('/', '/dev', '/etc', '/usr', '/course', '/warm', '/proc', sys.prefix, '/scratch', '/tmp', '/dev/shm'):
    try:
        open(folder + '/written', 'w').close()
        found.append(folder)
    except OSError:
        pass
return ' '.join(found)"""
    # where Python itself or its packages lie below /tmp, that folder stays as it is, read-only
    below_tmp = any(path.startswith("/tmp/") for path in isolation.folders())
    own = "/scratch /dev/shm" if below_tmp else "/scratch /tmp /dev/shm"
    assert returned(body) == own
    assert returned("return str([p for p in ('/scratch', '/tmp', '/dev/shm') if 'written' in os.listdir(p)])") == "[]"


@isolated
def test_a_job_sees_no_other_job():
    assert int(returned("return len([name for name in os.listdir('/proc') if name.isdigit()])")) <= 2  # its own


@isolated
def test_no_process_of_others_can_be_ended():
    body = """import signal
for pid in [-1, *(int(p) for p in os.listdir('/proc') if p.isdigit())]:
    if pid != os.getpid():
        try:
            os.kill(pid, signal.SIGKILL)
        except OSError:
            pass
return 1"""
    answers(body)
    assert returned("return 2") == 2


def test_files_and_memory_have_limits(place):
    assert "File too large" in str(answers("open('big', 'wb').truncate(2 << 30)")) or place == "bubblewrap"
    (answer,) = answers("return len(bytearray(8 << 30))")
    assert "more memory than there is" in answer["problem"]["message"]


def test_time_has_limits(place):
    (answer,) = answers("while True: pass", time_limit=1.0)
    assert "ended" not in answer and answer["problem"]["kind"] == "timeout"


def test_nothing_is_left_running(place):
    marker = f"left-{time.time_ns() % 10**9}"  # a process's name has 15 characters
    body = f"""import ctypes
for _ in range(3):
    if os.fork() == 0:
        if os.fork() == 0:
            ctypes.CDLL(None).prctl(15, b'{marker}', 0, 0, 0)
            time.sleep(300)
        os._exit(0)
time.sleep(1)
return 1"""
    assert returned(body) == 1
    deadline = time.monotonic() + 10
    while marker in _processes() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert marker not in _processes()


@isolated
def test_what_is_ended_while_it_starts_leaves_no_process():
    marker = f"left-{os.getpid()}-{time.time_ns()}"
    line = [*isolation.command(isolation.course()), "sh", "-c", "sleep 300", marker]
    for k in range(40):
        process = subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(k % 20 * 0.0005)
        sandbox.end(process)
    time.sleep(0.2)
    assert marker not in _processes()


def _processes() -> str:
    """The names and command lines of all processes that run; `ps` is not everywhere. One that has ended keeps its entry
    until its parent asks for it, and the first process of many a container never does."""
    lines = []
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (path / "stat").read_text(errors="replace").rpartition(") ")[2].startswith("Z"):
                continue
            line = (path / "comm").read_bytes() + (path / "cmdline").read_bytes()
            lines.append(line.replace(b"\0", b" ").decode(errors="replace"))
    return "\n".join(lines)


def test_what_sleeps_is_ended(place):
    begin = time.monotonic()
    with pytest.raises(Died, match="slept for more than 10 s"):  # a plain child's own imports are CPU time
        answers("time.sleep(1000)", limits=SandboxLimits(10, 30), time_limit=1000)
    assert time.monotonic() - begin < 100


SLEEPS = {"wait": "os.waitpid(os.fork() or time.sleep(1000), 0)", "stop": "signal.raise_signal(signal.SIGSTOP)"}


@isolated
@pytest.mark.parametrize("sleep", SLEEPS.values(), ids=SLEEPS)
def test_it_is_sleep_however_it_is_done(sleep):
    with pytest.raises(Died, match="slept for more than 1 s"):
        answers(f"import signal\n{sleep}", limits=SandboxLimits(1, 30), time_limit=1000)


IN_CHILDREN = """import signal
{before}
for _ in range(3):
    if os.fork() == 0:
        while True:
            {work}
time.sleep(1000)"""

BURNS = {
    "all the time": ("", "pass"),
    "in children that nobody waits for": (
        "signal.signal(signal.SIGCHLD, signal.SIG_IGN)",
        "os.fork() or (sum(range(10**6)), os._exit(0))",
    ),
    "in children that end": ("", "os.waitpid(os.fork() or (sum(range(10**6)), os._exit(0)), 0)"),
}


@isolated
@pytest.mark.parametrize("before, work", BURNS.values(), ids=BURNS)
def test_the_cpu_time_of_all_processes_together_has_a_limit(before, work):
    """Each of them stays far below the limit of one process."""
    with pytest.raises(Died, match="used more than 3 s of CPU time"):
        answers(IN_CHILDREN.format(before=before, work=work), limits=SandboxLimits(3, 1000), time_limit=1000)


@isolated
def test_a_busy_machine_ends_no_job():
    """On one core with six others a second of work takes seven by the clock. Each other has a session of its own, since
    Linux may share a core between sessions first."""
    answers("return 1")  # it has imported all
    ours, cores = sandbox._descendants(sandbox._zygote("launch")._process.pid), os.sched_getaffinity(0)
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"], start_new_session=True) for _ in range(6)]
    try:
        _pin([*ours, *(p.pid for p in others)], {min(cores)})
        body = "begin = time.monotonic()\nwhile time.process_time() < 1: pass\nreturn time.monotonic() - begin"
        seconds = returned(body, limits=SandboxLimits(2, 30), time_limit=20.0)
    finally:
        for one in others:
            one.kill()
            one.wait()
        _pin(ours, cores)
    assert seconds > 3


def _pin(processes: list[int], cores: set[int]) -> None:
    for pid in processes:
        with contextlib.suppress(ProcessLookupError):  # the last job's may be ending
            os.sched_setaffinity(pid, cores)


@isolated
def test_a_job_that_nobody_told_anything_does_not_sleep():
    """The sandbox for kernels is there while plans are made."""
    box = Sandbox("launch", SandboxLimits(1, 30))
    try:
        time.sleep(3)
        assert list(box.answers(json.dumps({"cells": [], "tasks": [], "time_limit": 1.0}).encode())) == []
    finally:
        box.close()


def test_a_flood_is_cut_off():
    body = """line = b'x' * (1 << 20) + b'\\n'
for fd in range(3, 20):
    try:
        for _ in range(100):
            os.write(fd, line)
    except OSError:
        pass"""
    with pytest.raises(Died, match="more than any answer"):
        box = Sandbox("launch", SandboxLimits(120, 30))
        try:
            text = "import os\ndef f(n):\n" + "".join(f"    {line}\n" for line in body.split("\n"))
            task = {"id": "f", "entry": "f", "parameters": ["n"], "kind": "plain", "cases": [[1]]}
            list(box.answers(json.dumps({"cells": [["a", text]], "tasks": [task], "time_limit": 60}).encode()))
        finally:
            box.close()


def test_a_job_that_is_no_job_dies_with_a_reason(place):
    box = Sandbox("launch", SandboxLimits(120, 30))
    try:
        with pytest.raises(Died, match="ended before its answer was complete"):
            list(box.answers(b"no json"))
    finally:
        box.close()


@pytest.mark.parametrize("installed, advice", [(False, "apt-get install bubblewrap"), (True, "user namespaces")])
def test_the_warning_says_what_a_plain_child_can_do(monkeypatch, tmp_path, installed, advice):
    if installed:  # and may not make namespaces
        (tmp_path / "bwrap").write_text("#!/bin/sh\nexit 1\n")
        (tmp_path / "bwrap").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("GPULAB_NO_BWRAP", raising=False)
    sandbox.bubblewrap.cache_clear()
    message = sandbox.warning()
    monkeypatch.undo()
    sandbox.bubblewrap.cache_clear()
    assert "plain child processes" in message and advice in message


def test_a_sandbox_removes_what_it_made(monkeypatch):
    monkeypatch.setenv("GPULAB_NO_BWRAP", "1")
    sandbox.bubblewrap.cache_clear()
    box = Sandbox("launch", SandboxLimits(30, 30))
    scratch = Path(box._scratch)
    assert scratch.is_dir()
    box.close()
    box.close()
    assert not scratch.exists()
    monkeypatch.undo()
    sandbox.bubblewrap.cache_clear()


@pytest.mark.compiler
@pytest.mark.skipif(not nvrtc.available(), reason="needs NVRTC")
def test_cuda_for_a_gpu_is_compiled_with_its_macros_and_without_what_the_emulator_lacks(place):
    macros = "#define TWICE(x) (2 * (x))\n__global__ void k(float* x) { x[0] = TWICE(x[0]); }"
    others = '#include <cuda/std/limits>\n__global__ void k(float* x) { asm volatile("trap;"); }'
    for source in (macros, others):
        box = Sandbox("nvrtc", LIMITS)
        try:
            (made,) = compilers.cuda(box, [{"source": source, "name": "k", "options": [], "abi": []}], 90)
        finally:
            box.close()
        assert isinstance(made, dict) and made["cubin"], made


def test_a_message_of_many_megabytes_is_cut_before_anything_reads_it():
    """A type's name doubles with each template around it, and NVRTC's messages have it in full."""

    class Box:
        def answers(self, job):
            yield json.dumps({"error": "line 4: class " + "P<int, " * 7_000_000}).encode()

    begin = time.process_time()
    (problem,) = compilers.cuda(Box(), [{"source": "", "name": "k", "options": [], "abi": []}], 90)
    diagnosis = diagnose.from_problem(problem)
    assert "class P<int, P<int" in diagnosis.symptom and len(diagnosis.symptom) < 5000
    assert time.process_time() - begin < 2


@pytest.mark.compiler
@pytest.mark.skipif(not nvrtc.available(), reason="needs NVRTC")
def test_the_compiler_itself_tells_little_of_a_name_that_doubles(place):
    source = """template<class A, class B> struct P {};
template<int N> struct D { using type = P<typename D<N - 1>::type, typename D<N - 1>::type>; };
template<> struct D<0> { using type = int; };
__global__ void k(float* x) { typename D<18>::type t; t.missing(); }"""
    box = Sandbox("nvrtc", LIMITS)
    try:
        job = {"specs": [{"source": source, "name": "k", "options": []}], "capability": 90}
        (line,) = box.answers(json.dumps(job).encode())
    finally:
        box.close()
    assert "P<P<P<" in json.loads(line)["error"] and len(line) < 50_000


def test_a_kernels_text_is_run_once_and_found_again_by_those_who_read_it():
    """Two kernels of one cell: each has the cell's other lines empty."""
    pytest.importorskip("triton")
    program = """
import inspect
from grader.judge.inside import replay
first = (("N = 3\\ndef helper(x):\\n    return N * x\\n", "<cell>", 1),)
second = (("def other(x):\\n    return x\\n", "<cell>", 7),)
module = replay._module(first, "kernel_0")
assert replay._module(second, "kernel_1") is not module
assert replay._module(first, "kernel_0") is module
print(inspect.getsource(module["helper"]), end="")
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)
    assert done.stdout == "def helper(x):\n    return N * x\n", done.stderr
