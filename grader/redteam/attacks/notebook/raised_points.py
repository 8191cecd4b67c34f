# tries: raises the points of its checks and marks its own answers as graded
# stopped by: nbgrader's metadata are restored
# exercise: 00_start/number_of_programs
# where: both
# expect: no effect
# baseline: none

def damage(notebook):
    for cell in notebook.cells:
        grading = cell.metadata.get("nbgrader")
        if grading and "points" in grading:
            grading["points"], grading["locked"] = 1000, False
        if grading and grading.get("solution"):
            grading["grade"], grading["points"] = True, 1000
