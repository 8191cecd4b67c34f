# tries: adds a CUDA cell of comments that are never closed, each read to the end
# stopped by: texts are read in time proportional to their length
# exercise: 00_start/number_of_programs
# where: both
# expect: harmless
# submits: notebook

from nbformat.v4 import new_code_cell


def damage(notebook):
    notebook.cells.append(new_code_cell("%%cuda\n" + "/* " * 100_000))
