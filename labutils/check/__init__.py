"""From a run to a verdict: cases are run and compared, what went wrong is diagnosed, and the learner gets a message.

`labutils.check` is also the function that notebooks call, which hides this package as an attribute of `labutils`:
import from it with `from labutils.check import …`.
"""
