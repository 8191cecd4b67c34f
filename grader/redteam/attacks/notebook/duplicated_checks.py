# tries: puts copies of the checks behind the real ones, each worth full marks
# stopped by: a copy is an ordinary cell
# exercise: 00_start/number_of_programs
# where: both
# expect: no effect
# baseline: none

import copy


def damage(notebook):
    for cell in [c for c in notebook.cells if "lab.check(" in c.source]:
        twin = copy.deepcopy(cell)
        twin.source = "1.0"
        notebook.cells.append(twin)
