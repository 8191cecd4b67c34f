# tries: adds a cell of five megabytes, whose tree has gigabytes
# stopped by: limits on cells, their size and their depth
# exercise: 00_start/number_of_programs
# where: both
# expect: harmless
# submits: notebook

from nbformat.v4 import new_code_cell


def damage(notebook):
    notebook.cells.append(new_code_cell("x = [" + "1," * 2_400_000 + "]"))
