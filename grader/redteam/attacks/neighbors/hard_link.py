# tries: hands in a second name of a classmate's notebook
# stopped by: links of any kind are set aside with a reason
# exercise: 00_start/number_of_programs
# where: both
# expect: refused
# submits: folder

import os


def plant(folder):
    (folder / "mallory").mkdir()
    os.link(folder / "alice.ipynb", folder / "mallory" / "00_start.ipynb")
