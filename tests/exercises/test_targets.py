"""Every solution, and every starter but for what is to be filled in, compiles for all GPUs of the course."""

import re

import pytest

from grader.course.build import release_notebook
from grader.course.cells import is_cuda
from grader.course.solutions import ROOT, load, solution_text
from grader.course.sources import source_notebook
from labutils.cuda import nvrtc
from labutils.cuda.signature import signatures
from labutils.exercises import all_exercises
from labutils.spec.exercise import KernelExercise

TARGETS = (75, 80, 86, 89, 90, 100, 120)
UNITS = sorted(p.name for p in (ROOT / "solutions").iterdir() if (p / f"{p.name}.py").exists())


def cuda_cells(notebook):
    return [c.source for c in notebook.cells if c.cell_type == "code" and is_cuda(c.source)]


def compile_everywhere(cell: str) -> None:
    magic, _, source = cell.partition("\n")
    names = tuple(magic.split()[1:]) or tuple(n for n, s in signatures(source).items() if not s.template)
    only = nvrtc.only_for(source)
    for target in (only,) if only else TARGETS:
        nvrtc.compile_source(source, names, target)


@pytest.mark.skipif(not nvrtc.available(), reason="needs NVRTC (pip install nvidia-cuda-nvrtc)")
@pytest.mark.parametrize("unit", UNITS)
def test_cuda_solutions_and_starters(unit):
    for cell in cuda_cells(source_notebook(ROOT / "solutions" / unit)):
        compile_everywhere(cell)
    for cell in cuda_cells(release_notebook(ROOT / "solutions" / unit)):
        if "is not written yet" not in cell:
            compile_everywhere(cell)
            continue
        with pytest.raises(nvrtc.CompileError, match="is not written yet") as refusal:
            compile_everywhere(cell)
        # given lines after the stub may use what the learner is to define; nothing else may be wrong
        for message in re.findall(r"^line \d+: (.*)", refusal.value.text, flags=re.M):
            assert "is not written yet" in message or re.fullmatch(r'identifier "\w+" is undefined', message), message


@pytest.mark.parametrize("unit", UNITS)
def test_triton_solutions(unit, tmp_path):
    pytest.importorskip("triton")
    from labutils.backends.interpreter import Interpreter
    from labutils.spec.inputs import make_run

    tasks = [t for t in all_exercises().values() if isinstance(t, KernelExercise) and t.unit == unit]
    tasks = [t for t in tasks if t.language == "triton"]
    if not tasks:
        pytest.skip("this unit has no Triton exercise")
    path = tmp_path / "solution.py"
    path.write_text(solution_text(unit), encoding="utf-8")
    module = load(str(path))
    for task in tasks:
        machine = Interpreter(targets=TARGETS)
        outcomes = list(machine.run(getattr(module, task.entry), [make_run(task, task.tiny, 1)]))
        assert outcomes[0].problem is None
        assert machine.compile_problem(None) is None, task.id
