# tries: replaces the checks by their marks
# stopped by: locked cells are restored
# exercise: 00_start/number_of_programs
# where: both
# expect: no effect
# baseline: none

def damage(notebook):
    for cell in notebook.cells:
        if "lab.check(" in cell.source:
            cell.source = "1.0"
