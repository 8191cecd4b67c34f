# tries: writes marks into any grade book that it finds
# stopped by: answers are taken as text from the sanitized notebook; nothing that ran counts
# exercise: 00_start/number_of_programs
# where: both
# expect: no effect
# baseline: none

from nbformat.v4 import new_code_cell


def damage(notebook):
    text = """
import glob, sqlite3
for root in ("/work", "/home", "/root", "/tmp", "..", "/srv"):
    for path in glob.glob(root + "/**/gradebook.db", recursive=True):
        sqlite3.connect(path).execute("UPDATE grade SET auto_score = max_score")
"""
    notebook.cells.insert(1, new_code_cell(text))
