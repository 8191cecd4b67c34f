"""Programs that run inside the sandbox. They import labutils without its exercises, and nothing else of the grader."""

import sys

# An installed labutils would lend its exercises to the one here, which has none.
sys.meta_path[:] = [f for f in sys.meta_path if not str(getattr(f, "__module__", "")).startswith("__editable__")]
