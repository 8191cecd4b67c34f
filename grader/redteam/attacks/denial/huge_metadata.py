# tries: hands in a notebook with tens of megabytes of metadata
# stopped by: limits on cells, their size and their depth
# exercise: 00_start/number_of_programs
# where: both
# expect: harmless
# submits: folder

import json


def plant(folder):
    names = {f"name{k}": {"a": [1] * 5} for k in range(120_000)}
    cell = {"cell_type": "code", "metadata": {}, "source": "def number_of_programs(n, block): return 1", "outputs": [],
            "execution_count": None, "id": "a"}
    notebook = {"nbformat": 4, "nbformat_minor": 5, "metadata": names, "cells": [cell]}
    (folder / "mallory.ipynb").write_text(json.dumps(notebook))
