# tries: binds a lab of its own whose check gives full marks
# stopped by: answers are taken as text from the sanitized notebook; nothing that ran counts
# exercise: 00_start/number_of_programs
# where: both
# expect: no effect
# baseline: none

from nbformat.v4 import new_code_cell


def damage(notebook):
    text = """
import types, sys
lab = types.SimpleNamespace(check=lambda *_: 1.0, __getattr__=None)
sys.modules["labutils"] = lab
"""
    for place in (1, 3, len(notebook.cells)):
        notebook.cells.insert(place, new_code_cell(text))
