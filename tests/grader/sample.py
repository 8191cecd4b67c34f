"""A small unit with one cell of each kind, for the tests of the build."""

from grader.course.build import build

UNIT = "06_unit"
POINTS = {"06_unit/saxpy": 3.0}.__getitem__
SAMPLE = '''\
# %% [markdown]
# # Scale and add two vectors
#
# One program computes `BLOCK` elements.

# %%
import types

lab = types.SimpleNamespace(check=lambda name, function: 3.0 if function(2, 3, 4) == 10 else 0.0)

# %% cell="solution" id="bytes_moved"
n = 1024
### BEGIN SOLUTION
bytes_moved = 3 * n * 4
### END SOLUTION

# %% cell="solution" id="saxpy"
def saxpy(a, x, y):
    """a·x + y."""
    ### BEGIN SOLUTION
    product = a * x  # why
    total = product + y
    return float(total)
    ### END SOLUTION

# %% [markdown] cell="given"
# The launcher is given.

# %% cell="given" id="launcher"
def launch():
    return saxpy(1, 2, 3)

# %% cell="check" exercise="06_unit/saxpy"
### BEGIN HIDDEN TESTS
assert saxpy(7, 11, 13) == 90
### END HIDDEN TESTS
lab.check("06_unit/saxpy", saxpy)

# %% cell="solution" id="scale_kernel"
# %%cuda
# __global__ void scale(float* x, float a) {
#     // ### BEGIN SOLUTION
#     x[threadIdx.x] *= a;
#     // ### END SOLUTION
# }

# %% [markdown] cell="manual" id="explain" points=1
# Why is it slow?
# ### BEGIN SOLUTION
# Because memory is the bottleneck.
# ### END SOLUTION

# %% [markdown] cell="task" id="plot" points=2
# Draw the roofline.
# ### BEGIN MARK SCHEME
# One point for each of the roofs.
# ### END MARK SCHEME
'''


def write_unit(root, text=SAMPLE, unit=UNIT):
    """Write a unit, by default the sample, into the course folder `root`; returns that folder."""
    folder = root / "solutions" / unit
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{unit}.py").write_text(text)
    return root


def run(root, **options):
    """Build quietly; returns the problems."""
    return build(root, points_of=POINTS, say=lambda line: None, **options)


def released(root, unit=UNIT):
    """Path of the unit's released notebook."""
    return root / "notebooks" / unit / f"{unit}.ipynb"
