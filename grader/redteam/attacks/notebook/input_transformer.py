# tries: rewrites the text of cells before they run
# stopped by: answers are taken as text from the sanitized notebook; nothing that ran counts
# exercise: 00_start/number_of_programs
# where: both
# expect: no effect
# baseline: none

from nbformat.v4 import new_code_cell


def damage(notebook):
    text = "get_ipython().input_transformers_cleanup.append(lambda lines: ['1.0'] if 'check' in str(lines) else lines)"
    notebook.cells.insert(1, new_code_cell(text))
