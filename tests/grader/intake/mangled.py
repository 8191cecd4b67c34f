"""What browsers, Colab, learning platforms and learners do to a notebook: each kind as a function on a solved one."""

import copy
import json

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell

from grader.course.sources import notebook_bytes

MANGLED = {}
"""By name: (function from notebook to bytes or notebook, exercises that must still be right, words of the report)."""

ALL = ("number_of_programs", "scale", "scale_cuda")


def mangled(*message, right=ALL, file="{unit}.ipynb"):
    def enter(function):
        MANGLED[function.__name__] = (function, right, message, file)
        return function

    return enter


def cell(notebook, name):
    return next(c for c in notebook.cells if c.id == name)


def at(notebook, name):
    return next(i for i, c in enumerate(notebook.cells) if c.id == name)


def split(notebook, name, line, keep="first", between=()):
    """Split a cell before its line with this text; the first, the last or both parts keep the metadata."""
    index, whole = at(notebook, name), cell(notebook, name)
    lines = whole.source.split("\n")
    number = next(i for i, text in enumerate(lines) if line in text)
    rest = copy.deepcopy(whole)
    whole.source, rest.source = "\n".join(lines[:number]), "\n".join(lines[number:])
    rest.id = f"{name}-rest-{len(notebook.cells)}"
    if keep == "first":
        rest.metadata = {}
    elif keep == "last":
        whole.metadata, whole.id, rest.id = {}, rest.id, whole.id
    notebook.cells[index + 1 : index + 1] = [*between, rest]


def lose(notebook, ids="random"):
    """As Colab saves: no nbgrader metadata, ids in the metadata or new, an older format."""
    data = json.loads(notebook_bytes(notebook))
    data["nbformat_minor"] = 0
    data["metadata"] = {"colab": {"provenance": []}, "kernelspec": {"name": "python3", "display_name": "Python 3"}}
    for number, c in enumerate(data["cells"]):
        old = c.pop("id")
        c["metadata"] = {"id": old if ids == "kept" else f"aB{number:02}cD"}
    return json.dumps(data).encode()


@mangled("was lost and is restored")
def colab_kept_ids(notebook):
    return lose(notebook, "kept")


@mangled("was lost and is restored")
def colab_new_ids(notebook):
    return lose(notebook)


@mangled("The file was called 'Copy of", file="Copy of {unit}.ipynb")
def copy_of(notebook):
    return notebook


@mangled("The file was called", file="{unit} (1).ipynb")
def second_download(notebook):
    return notebook


@mangled()
def cells_added(notebook):
    for index in range(len(notebook.cells), -1, -1):
        notebook.cells.insert(index, new_code_cell(f"scratch = {index}", id=f"mine-{index}"))
    return notebook


@mangled("had been moved and was put back")
def check_moved_above(notebook):
    check = notebook.cells.pop(at(notebook, "check-scale"))
    notebook.cells.insert(0, check)
    return notebook


@mangled("given cell 'setup' had been moved")
def setup_moved_to_the_end(notebook):
    notebook.cells.append(notebook.cells.pop(at(notebook, "setup")))
    return notebook


@mangled("'scale_kernel' was split into 2 and is joined again")
def split_in_the_body(notebook):
    split(notebook, "scale_kernel", "mask = offs < n")
    return notebook


@mangled("was split into 2")
def split_behind_the_decorator(notebook):
    split(notebook, "scale_kernel", "def scale_kernel", keep="last")
    return notebook


@mangled("'scale_cuda_kernel' was split into 2")
def split_in_cuda(notebook):
    split(notebook, "scale_cuda_kernel", "int i = ")
    return notebook


@mangled("was split into 2")
def split_with_a_try_between(notebook):
    split(notebook, "scale_kernel", "pid = ", between=[new_code_cell("print(1 + 1)", id="try")])
    return notebook


@mangled("was split into 2")
def split_as_jupyterlab_does_it(notebook):
    split(notebook, "number_of_programs", "return", keep="both")
    return notebook


@mangled("was split into 3", "was lost and is restored")
def split_twice_and_lost(notebook):
    split(notebook, "scale_kernel", "offs = ")
    split(notebook, "scale_kernel", "def scale_kernel")
    return lose(notebook)


@mangled("is gone, but another cell defines")
def two_answers_merged(notebook):
    answer = notebook.cells.pop(at(notebook, "scale_kernel"))
    first = cell(notebook, "number_of_programs")
    first.source = "import triton\nimport triton.language as tl\n" + first.source + "\n\n" + answer.source
    return notebook


@mangled("'check-scale' had been deleted and was put back")
def answer_merged_with_its_check(notebook):
    check = notebook.cells.pop(at(notebook, "check-scale"))
    cell(notebook, "scale_kernel").source += "\n\n" + check.source
    return notebook


@mangled("had been merged with an answer")
def answer_merged_into_a_locked_cell(notebook):
    answer = notebook.cells.pop(at(notebook, "number_of_programs"))
    cell(notebook, "setup").source += "\n\n" + answer.source
    return notebook


@mangled("'setup' had been deleted", "'check-scale' had been deleted")
def locked_cells_deleted(notebook):
    for name in ("setup", "check-scale"):
        notebook.cells.pop(at(notebook, name))
    return notebook


@mangled("put back without an answer", right=("number_of_programs", "scale_cuda"))
def answer_deleted(notebook):
    notebook.cells.pop(at(notebook, "scale_kernel"))
    return notebook


@mangled("'%%cuda', was lost and is restored")
def magic_lost(notebook):
    c = cell(notebook, "scale_cuda_kernel")
    c.source = c.source.partition("\n")[2]
    return notebook


@mangled("had become markdown")
def answer_became_text(notebook):
    index = at(notebook, "scale_kernel")
    old = notebook.cells[index]
    notebook.cells[index] = new_markdown_cell(old.source, id=old.id, metadata=old.metadata)
    return notebook


@mangled()
def all_ids_the_same(notebook):
    data = json.loads(notebook_bytes(notebook))
    for c in data["cells"]:
        c["id"] = "same"
    return json.dumps(data).encode()


@mangled("had been edited", "was changed and is restored")
def checks_edited(notebook):
    check = cell(notebook, "check-scale")
    check.source, check.metadata.nbgrader.points = "2.0", 50.0
    return notebook


@mangled()
def saved_as_utf16(notebook):
    return notebook_bytes(notebook).decode().encode("utf-16")


@mangled()
def in_the_format_of_2013(notebook):
    with __import__("warnings").catch_warnings():
        __import__("warnings").simplefilter("ignore")
        return nbformat.writes(nbformat.convert(notebook, 3), version=3).encode()


@mangled("A copy of the answer cell 'scale_kernel'")
def copied_to_try(notebook):
    twin = copy.deepcopy(cell(notebook, "scale_kernel"))
    twin.id = "twin"
    notebook.cells.insert(at(notebook, "scale_kernel"), twin)
    twin.source = twin.source.replace("factor *", "2 *")
    return notebook


@mangled(right=None)
def cut_off(notebook):
    return notebook_bytes(notebook)[:3000]


@mangled(right=None)
def a_web_page(notebook):
    return b"<!doctype html><title>Sign in</title>"


@mangled(right=None)
def of_another_subject(notebook):
    return nbformat.v4.new_notebook(cells=[new_markdown_cell("# Cooking"), new_code_cell("print('soup')")])
