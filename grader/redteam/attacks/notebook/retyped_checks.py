# tries: turns the checks into text
# stopped by: cell types are restored
# exercise: 00_start/number_of_programs
# where: both
# expect: no effect
# baseline: none

def damage(notebook):
    for cell in notebook.cells:
        if "lab.check(" in cell.source:
            cell.cell_type, cell.source = "markdown", "# 1.0 points"
            cell.pop("outputs", None)
            cell.pop("execution_count", None)
