"""The judge: points that no submission can decide. See docs/judging.md for the model and its limits.

A submission's Python runs in a sandbox that holds no data and no answers, and yields a launch plan: which kernels,
which grid, which arguments (`inside/launch.py`, `plan.py`). The kernels' text is read by `language.py`: it may hold
Triton or CUDA C++ and nothing else. Only such kernels meet the data, in another sandbox (`inside/replay.py`) and, as
machine code, on a GPU (`runner.py`). What they leave in memory is compared here, by the same `labutils.check.diagnose`
as in a notebook.
"""
