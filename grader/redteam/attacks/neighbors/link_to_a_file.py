# tries: hands in a link to a classmate's notebook
# stopped by: links of any kind are set aside with a reason
# exercise: 00_start/number_of_programs
# where: both
# expect: refused
# submits: folder

import os


def plant(folder):
    """As in a zip that was unpacked by somebody else: the classmate's file by its name."""
    (folder / "mallory").mkdir()
    os.symlink("../alice.ipynb", folder / "mallory" / "00_start.ipynb")
