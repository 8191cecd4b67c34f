# tries: hands in a notebook with hundreds of thousands of empty cells
# stopped by: limits on cells, their size and their depth
# exercise: 00_start/number_of_programs
# where: both
# expect: harmless
# submits: folder

import json


def plant(folder):
    cell = {"cell_type": "code", "metadata": {}, "source": "", "outputs": [], "execution_count": None}
    notebook = {"nbformat": 4, "nbformat_minor": 4, "metadata": {}, "cells": [cell] * 150_000}
    (folder / "mallory.ipynb").write_text(json.dumps(notebook))
