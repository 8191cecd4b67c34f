# tries: hands in check cells that already show full marks and a verdict
# stopped by: answers are taken as text from the sanitized notebook; nothing that ran counts
# exercise: 00_start/number_of_programs
# where: both
# expect: no effect
# baseline: none

from nbformat.v4 import new_output


def damage(notebook):
    verdict = {"exercise": "00_start/number_of_programs", "backend": "x", "results": [], "headline": None, "marks": 1.0}
    for cell in notebook.cells:
        if "lab.check(" in cell.source:
            data = {"text/plain": "1.0", "application/vnd.gpulab.verdict+json": verdict}
            cell.outputs = [new_output("execute_result", data=data, execution_count=1)]
