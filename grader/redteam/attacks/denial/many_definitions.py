# tries: adds cells of a hundred thousand small functions, each of which is kept
# stopped by: limits on cells, their size and their depth
# exercise: 00_start/number_of_programs
# where: both
# expect: harmless
# submits: notebook

from nbformat.v4 import new_code_cell


def damage(notebook):
    text = "".join(f"def f{k}(a, b=(1, 2)): return a + b\n" for k in range(5_000))
    notebook.cells.extend(new_code_cell(text) for _ in range(26))
