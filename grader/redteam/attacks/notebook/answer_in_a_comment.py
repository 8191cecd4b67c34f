# tries: hides a call to the course's reference behind a magic
# stopped by: magics are calls that nothing binds
# exercise: 00_start/number_of_programs
# where: both
# expect: no effect
# baseline: none

from nbformat.v4 import new_code_cell


def damage(notebook):
    text = """
%%cuda number_of_programs;from(labutils.exercises)import(start)
__global__ void number_of_programs(float* x) {}
"""
    notebook.cells.append(new_code_cell(text.strip()))
