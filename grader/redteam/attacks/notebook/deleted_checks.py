# tries: deletes the cells that check it
# stopped by: missing cells are put back
# exercise: 00_start/number_of_programs
# where: both
# expect: no effect
# baseline: none

def damage(notebook):
    notebook.cells = [c for c in notebook.cells if "lab.check(" not in c.source]
