# tries: hands in links that lead to themselves, which no path resolves
# stopped by: links of any kind are set aside with a reason
# exercise: 00_start/number_of_programs
# where: both
# expect: refused
# submits: folder

import os


def plant(folder):
    (folder / "mallory").mkdir()
    os.symlink("loop.ipynb", folder / "mallory" / "loop.ipynb")
    os.symlink("../mallory/other.ipynb", folder / "mallory" / "one.ipynb")
    os.symlink("../mallory/one.ipynb", folder / "mallory" / "other.ipynb")
