# tries: honest: writes warnings to stderr, for which nbgrader alone would take all marks
# stopped by: stderr costs nothing
# exercise: 00_start/number_of_programs
# where: both
# expect: no effect
# baseline: full

from nbformat.v4 import new_code_cell


def damage(notebook):
    text = "import sys, warnings\nprint('careful', file=sys.stderr)\nwarnings.warn('really')"
    notebook.cells.insert(1, new_code_cell(text))
    for cell in notebook.cells:
        if "def number_of_programs" in cell.source:
            cell.source = (
                "import sys, warnings\n\ndef number_of_programs(n, block):\n"
                "    warnings.warn('slow')\n    print('!', file=sys.stderr)\n    return -(-n // block)\n"
            )
