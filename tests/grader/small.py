"""The smallest unit that can be graded: one exercise without a kernel, and one answer in words."""

from pathlib import Path

from grader.course.build import release_notebook
from grader.course.sources import notebook_bytes, source_notebook
from grader.demo.sample import solved

UNIT = "06_elementwise_triton"
EXERCISE = f"{UNIT}/add_bytes"
SOURCE = '''\
# %% [markdown]
# # Count bytes

# %% cell="setup"

# %% cell="solution" id="NAME"
def NAME(n, itemsize):
    """Bytes that out = x + y must read and write."""
    ### BEGIN SOLUTION
    return 3 * n * itemsize
    ### END SOLUTION

# %% cell="check" exercise="EXERCISE"
lab.check("EXERCISE")

# %% [markdown] cell="manual" id="explain" points=2
# Why three?
# ### BEGIN SOLUTION
# Two reads, one write.
# ### END SOLUTION
'''


def write_unit(root: Path, exercise: str = EXERCISE) -> Path:
    """Write the unit of an exercise below `root`; returns its folder. The course must know the exercise."""
    unit, name = exercise.split("/")
    folder = root / unit
    folder.mkdir(parents=True)
    (folder / f"{unit}.py").write_text(SOURCE.replace("EXERCISE", exercise).replace("NAME", name))
    return folder


def right(unit: Path) -> bytes:
    """A right submission. `3 * n` in it makes it right, anything else there wrong."""
    return notebook_bytes(solved(release_notebook(unit), source_notebook(unit)))
