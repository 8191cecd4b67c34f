# tries: hands in a second name of a classmate's notebook
# stopped by: no name of a file shows which was the first: each is graded from its bytes, as a copy, and both are flagged
# exercise: 00_start/number_of_programs
# where: both
# expect: harmless
# submits: folder

import os


def plant(folder):
    (folder / "mallory").mkdir()
    os.link(folder / "alice.ipynb", folder / "mallory" / "00_start.ipynb")
