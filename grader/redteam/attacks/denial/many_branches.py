# tries: adds a function with four thousand elif
# stopped by: the main process parses nothing of a submission
# exercise: 00_start/number_of_programs
# where: both
# expect: harmless
# submits: notebook

from nbformat.v4 import new_code_cell


def damage(notebook):
    notebook.cells.append(new_code_cell("def f(x):\n    if x == 0:\n        pass\n" + "    elif x == 1:\n        pass\n" * 4_000))
