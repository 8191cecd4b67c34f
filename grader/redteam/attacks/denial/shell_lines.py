# tries: adds a cell with three thousand lines for the shell, which IPython transforms one by one
# stopped by: the main process parses nothing of a submission
# exercise: 00_start/number_of_programs
# where: both
# expect: harmless
# submits: notebook

from nbformat.v4 import new_code_cell


def damage(notebook):
    notebook.cells.append(new_code_cell("!ls\n" * 3_000))
