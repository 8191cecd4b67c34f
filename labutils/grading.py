"""Is a class being graded? Then nobody looks at pictures, tables and times, and the notebook does without them."""

import os


def in_progress() -> bool:
    """nbgrader, and our own grader, say so in the environment of the notebooks that they run."""
    return os.environ.get("NBGRADER_EXECUTION") == "autograde"
