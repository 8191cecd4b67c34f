"""Notebooks run in real kernels: whatever a cell does, the others keep what they earned."""

import asyncio
import os
from dataclasses import replace

import pytest
from nbformat.v4 import new_code_cell, new_notebook

from grader.execute import notebook as notebook_module
from grader.execute import warm
from grader.execute.notebook import NotebookLimits, run_notebook
from grader.judge import isolation
from grader.judge.isolation import bubblewrap
from labutils.check.check import VERDICT_MIME

SHORT = NotebookLimits(cell=3, notebook=40, restarts=2, output=5000)


def notebook(*sources):
    """Cells from texts; a text in a tuple becomes a check."""
    cells = []
    for number, source in enumerate(sources):
        grading = {"grade": True, "solution": False, "grade_id": f"c{number}", "points": 1.0}
        check = isinstance(source, tuple)
        cells.append(new_code_cell(*source if check else [source], metadata={"nbgrader": grading} if check else {}))
        cells[-1].id = f"c{number}"
    return new_notebook(cells=cells)


class Done:
    """A notebook that was run, and its log."""

    def __init__(self, notebook, limits):
        self.notebook = notebook
        self.log = asyncio.run(run_notebook(notebook, {"GPULAB_SEED": "7"}, limits))


def run(*sources, limits=SHORT):
    return Done(notebook(*sources), limits)


def shown(cell):
    """What a cell shows: results as they are, an error as its name."""
    return [o.ename if o.output_type == "error" else o.get("text") or o.data.get("text/plain") for o in cell.outputs]


def test_a_dead_kernel_costs_only_the_cell_that_killed_it():
    done = run(
        "x = 1", ("float(x)",), "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)", "x += 1", ("float(x)",)
    )
    assert [shown(c) for c in done.notebook.cells] == [[], ["1.0"], ["KernelDied"], [], ["2.0"]]
    assert done.log.events == [
        "Cell 3 (`import os, signal`) killed the kernel (signal SIGKILL); a new kernel continued without it."
    ]


def test_a_check_that_kills_is_not_run_again():
    done = run("import os\nn = 0", ("n += 1\nos._exit(3)",), ("float(n)",))
    assert [shown(c) for c in done.notebook.cells] == [[], ["KernelDied"], ["0.0"]]
    assert "exit code 3" in done.log.events[0]


def test_there_is_an_end_to_fresh_kernels():
    done = run(*["import os; os._exit(1)"] * 4, ("1.0",))
    assert [shown(c) for c in done.notebook.cells] == [["KernelDied"]] * 5
    assert done.log.events[-1].startswith("The kernel died too often") and "2 cells were not run" in done.log.events[-1]


def test_an_endless_cell_is_interrupted():
    done = run("x = 5", "while True: pass", ("float(x)",))
    assert shown(done.notebook.cells[1]) == ["KeyboardInterrupt", "CellTimeout"]
    assert shown(done.notebook.cells[2]) == ["5.0"]
    assert "ran longer than 3 s and was stopped" in done.log.events[0]


@pytest.mark.timeout(120)
def test_a_cell_of_shell_commands_is_not_run():
    done = run("x = 1", "!true\n" * 5000, ("float(x)",))
    assert [shown(c) for c in done.notebook.cells] == [[], ["ValueError"], ["1.0"]]
    assert done.notebook.cells[1].outputs[0].evalue.startswith("5000 lines look like IPython commands")
    assert done.log.cells["c1"] < 1


@pytest.mark.parametrize(
    "deep", ["if 0: pass\n" + "elif 0: pass\n" * 4500, "+".join("1" * 25_000), "x" + ".a" * 30_000]
)
def test_a_cell_that_nests_too_deep_fails_at_once(deep):
    done = run("x = 1", deep, ("float(x)",))
    assert [shown(c) for c in done.notebook.cells] == [[], ["RecursionError"], ["1.0"]]
    assert done.log.events == []


def test_a_text_that_kills_nvidias_compiler_leaves_the_kernel_alive():
    deadly = "lab.cuda.compile('''template <int N>\n__global__ void k(unknown_t* x) { x[0] = N; }''', 'k<4>')"
    right = "%%cuda\n__global__ void scale(float* x) { x[0] *= 2; }"
    setup = "import os, labutils as lab\nlab.setup()\nbegan = os.getpid()"
    done = run(setup, deadly, right, "(os.getpid() == began, scale.name)", limits=replace(SHORT, cell=30))
    assert 'line 2: identifier "unknown_t" is undefined' in str(done.notebook.cells[1].outputs)
    assert shown(done.notebook.cells[3]) == ["(True, 'scale')"] and not done.log.events


def test_a_cell_that_ignores_the_interrupt_is_left_behind():
    deaf = "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass"
    done = run("x = 5", deaf, ("float(x)",))
    assert "KernelDied" in shown(done.notebook.cells[1]) and shown(done.notebook.cells[2]) == ["5.0"]
    assert "did not end" in done.log.events[0]


def test_a_notebook_has_a_time_limit():
    done = run("import time\ntime.sleep(1.5)", "time.sleep(1.5)", ("1.0",), limits=NotebookLimits(cell=3, notebook=2.5))
    assert shown(done.notebook.cells[2]) == ["CellTimeout"]
    assert "the notebook ran longer than 2.5 s" in done.log.events[-1].lower()


def test_a_flood_of_output_is_cut_and_the_marks_behind_it_stay():
    done = run(("for i in range(10_000): print('x' * 50)\n1.0",), ("'y' * 10_000",))
    first, second = done.notebook.cells
    assert len(first.outputs[0].text) < 6000 and "dropped" in first.outputs[0].text
    assert shown(first)[-1] == "1.0" and "execute_result" not in [o.output_type for o in second.outputs]


def test_a_later_cell_cannot_change_what_an_earlier_check_shows():
    forge = "from IPython.display import update_display\nupdate_display('9.0', display_id='marks')"
    done = run(("from IPython.display import display\nd = display('0.0', display_id='marks')",), forge)
    assert shown(done.notebook.cells[0]) == ["'0.0'"]


def test_what_a_cell_cannot_send_costs_that_cell_only():
    done = run("print('\\ud800')", ("1.0",))
    assert shown(done.notebook.cells[1]) == ["1.0"]


def lost(symptom):
    """A check whose verdict says so."""
    verdict = {"results": [{"diagnosis": {"symptom": f"{symptom}: restart the notebook's kernel (Kernel → Restart)"}}]}
    return f"from IPython.display import display\ndisplay({{{VERDICT_MIME!r}: {verdict!r}}}, raw=True)"


def test_a_check_that_lost_the_gpu_gets_a_fresh_kernel_behind_it():
    done = run("x = 1", (lost("it never ended") + "\nlost = True\n0.0",), ("float(x)",), ("'lost' in globals()",))
    assert [shown(c)[-1:] for c in done.notebook.cells] == [[], ["0.0"], ["1.0"], ["False"]]
    assert "left its process without the GPU" in done.log.events[0]


def test_a_check_that_found_the_gpu_lost_has_another_try(tmp_path, monkeypatch):
    """As on a GPU that an earlier cell lost without a word."""
    monkeypatch.setattr(warm, "zygote", lambda gpu=False: None)  # in a sandbox no file would tell it is the second try
    here = f"import pathlib\nfirst = not pathlib.Path({str(tmp_path / 'seen')!r}).exists()"
    later = f"pathlib.Path({str(tmp_path / 'seen')!r}).touch()\nif first:\n    "
    later += lost("an earlier kernel crashed the GPU context").replace("\n", "\n    ") + "\nfloat(not first)"
    done = run(here, (later,), ("3.0",))
    assert [shown(c) for c in done.notebook.cells] == [[], ["1.0"], ["3.0"]] and done.log.events == []


def test_the_kernel_gets_the_seed_and_a_folder_of_its_own():
    done = run("import os, pathlib\npathlib.Path('left').write_text('x')", ("float(os.environ['GPULAB_SEED'])",))
    assert shown(done.notebook.cells[1]) == ["7.0"]
    assert not os.path.exists("left")


needs_namespaces = pytest.mark.skipif(not bubblewrap(), reason="bubblewrap does not work here")


@needs_namespaces
def test_a_kernel_sees_no_course_no_network_and_nobody_else(tmp_path):
    (tmp_path / "gradebook.db").touch()
    repository = os.path.dirname(os.path.dirname(notebook_module.__file__))
    looks = [
        f"import os, socket\n[os.path.exists(p) for p in ({str(tmp_path)!r}, {repository!r})]",
        "socket.create_connection(('1.1.1.1', 53), timeout=2)",
        "os.listdir('/kernels'), sorted(os.listdir('/connection'))[:1], os.listdir('.')",
        "open('/course/labutils/here', 'w')",
        "open('/scratch/here', 'w').close(); import labutils.exercises",
        "[n for n in os.environ if 'SEED' in n and n != 'PYTHONHASHSEED' or 'KEY' in n or 'TOKEN' in n]",
    ]
    cells = run(*looks).notebook.cells
    payload = [shown(c)[-1] if c.outputs else None for c in cells]
    assert payload[0] == "[False, False]" and payload[1] == "OSError" and payload[3] == "OSError"
    assert payload[2] == "([], ['k.json'], [])"
    assert payload[4] is None and payload[5] == "['GPULAB_SEED']"


@needs_namespaces
def test_what_one_kernel_leaves_no_other_finds():
    leave = "import os\nfor f in ('/tmp/x', '/dev/shm/x', '/scratch/x'): open(f, 'w').close()"
    run(leave)
    assert shown(
        run("import os\n[p for p in ('/tmp', '/dev/shm', '/scratch') if 'x' in os.listdir(p)]").notebook.cells[0]
    ) == ["[]"]


@needs_namespaces
def test_tools_below_tmp_stay_in_sight(tmp_path, monkeypatch):
    """A course that was cloned there, with its environment."""
    (tmp_path / "tool").write_text("here")
    known = isolation.folders()
    monkeypatch.setattr(isolation, "folders", lambda: [*known, str(tmp_path)])
    monkeypatch.setattr(warm, "_zygotes", {})
    looks = [
        f"open({str(tmp_path / 'tool')!r}).read()",
        "import tempfile\nopen(tempfile.mkstemp()[1], 'w').close(); tempfile.gettempdir()",
        "import matplotlib.pyplot as plt\nopen('/tmp/x', 'w')",
    ]
    cells = run(*looks).notebook.cells
    warm.zygote().close()
    assert [shown(c) for c in cells] == [["'here'"], ["'/scratch'"], ["OSError"]]


@needs_namespaces
def test_what_a_kernel_started_ends_with_it():
    run("import os, time\nif os.fork() == 0:\n    os.setsid()\n    time.sleep(1000)")
    zygote, seen = warm.zygote(), run("import os\n[p for p in os.listdir('/proc') if p.isdigit()]")
    below = eval(shown(seen.notebook.cells[0])[0])
    assert zygote.alive() and len(below) <= 8  # bubblewrap, the zygote, and this kernel with its two guardians


@needs_namespaces
def test_a_kernel_that_holds_too_much_memory_is_ended_and_told_why(monkeypatch):
    monkeypatch.setattr(warm, "MOST_MEMORY", 1 << 30)
    monkeypatch.setattr(warm, "_zygotes", {})
    hog = "import time\nx = bytearray(b'x') * (900 << 20)\ntime.sleep(20)"
    done = run("y = 1", hog, ("float(y)",), limits=NotebookLimits(cell=25, notebook=60))
    warm.zygote().close()
    assert [shown(c)[-1:] for c in done.notebook.cells] == [[], ["KernelDied"], ["1.0"]]
    assert "used more than 1 GB of memory" in done.log.events[0]


def test_without_bubblewrap_a_notebook_runs_in_a_plain_child(monkeypatch):
    monkeypatch.setattr(warm, "zygote", lambda gpu=False: None)
    done = run("import os; left = open('left', 'w')", ("float(os.environ['GPULAB_SEED'])",))
    assert shown(done.notebook.cells[1]) == ["7.0"] and not os.path.exists("left")


def test_workers_know_the_mime_type_without_importing_labutils():
    assert notebook_module.VERDICT_MIME == VERDICT_MIME
