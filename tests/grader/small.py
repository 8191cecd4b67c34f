"""The smallest unit that can be graded: one exercise without a kernel, and one answer in words."""

from pathlib import Path

from grader.course.build import release_notebook
from grader.course.sources import notebook_bytes, source_notebook
from grader.demo.sample import solved

UNIT = "06_elementwise_triton"
EXERCISE = f"{UNIT}/add_bytes"
SOURCE = f'''\
# %% [markdown]
# # Count bytes

# %% cell="setup"

# %% cell="solution" id="add_bytes"
def add_bytes(n, itemsize):
    """Bytes that out = x + y must read and write."""
    ### BEGIN SOLUTION
    return 3 * n * itemsize
    ### END SOLUTION

# %% cell="check" exercise="{EXERCISE}"
lab.check("{EXERCISE}")

# %% [markdown] cell="manual" id="explain" points=2
# Why three?
# ### BEGIN SOLUTION
# Two reads, one write.
# ### END SOLUTION
'''


def write_unit(root: Path) -> Path:
    """Write the unit below `root`; returns its folder."""
    folder = root / UNIT
    folder.mkdir(parents=True)
    (folder / f"{UNIT}.py").write_text(SOURCE)
    return folder


def right(unit: Path) -> bytes:
    """A right submission. `3 * n` in it makes it right, anything else there wrong."""
    return notebook_bytes(solved(release_notebook(unit), source_notebook(unit)))
