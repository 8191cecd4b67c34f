# tries: adds two thousand lines for the shell to an answer
# stopped by: the main process parses nothing of a submission
# exercise: 00_start/number_of_programs
# where: both
# expect: harmless
# submits: notebook

def damage(notebook):
    for cell in notebook.cells:
        if cell.metadata.get("nbgrader", {}).get("solution") and not cell.source.startswith("%%"):
            cell.source += "\n" + "!ls\n" * 2_000
            return
