# tries: adds a cell with thirty thousand attributes of attributes
# stopped by: the main process parses nothing of a submission
# exercise: 00_start/number_of_programs
# where: both
# expect: harmless
# submits: notebook

from nbformat.v4 import new_code_cell


def damage(notebook):
    notebook.cells.append(new_code_cell("deep = a" + ".a" * 30_000))
