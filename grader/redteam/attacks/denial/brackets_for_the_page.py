# tries: fills seventy cells with brackets, which a filter of the feedback page's template reads in quadratic time
# stopped by: every filter of a page is bounded, also what reads another filter's result
# exercise: 00_start/number_of_programs
# where: both
# expect: harmless
# submits: notebook

from nbformat.v4 import new_markdown_cell


def damage(notebook):
    notebook.cells += [new_markdown_cell("[" * (62_000 if k % 2 else 7_900)) for k in range(72)]
