# tries: adds a CUDA cell in which each kernel is looked for behind each template
# stopped by: texts are read in time proportional to their length
# exercise: 00_start/number_of_programs
# where: both
# expect: harmless
# submits: notebook

from nbformat.v4 import new_code_cell


def damage(notebook):
    notebook.cells.append(new_code_cell("%%cuda\n" + "template <__global__ k(" * 500))
