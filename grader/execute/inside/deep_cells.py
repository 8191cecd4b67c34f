"""A Jupyter kernel that also answers a cell that nests deeper than Python's compiler can read.

    python -m grader.execute.inside.deep_cells -f CONNECTION_FILE

IPython asks whether a cell is asynchronous before it is ready for errors, so such a cell gets no answer at all, and the
grader would wait for the cell's time limit.
"""

from __future__ import annotations


def answer() -> None:
    """Let such a cell run: it then fails where errors are shown."""
    from IPython.core.interactiveshell import InteractiveShell

    asks = InteractiveShell.should_run_async

    def answers(self, *arguments, **options):
        try:
            return asks(self, *arguments, **options)
        except (RecursionError, MemoryError):
            return False

    InteractiveShell.should_run_async = answers


def run() -> None:
    """Be the kernel that `sys.argv` describes."""
    from ipykernel import kernelapp

    answer()
    kernelapp.launch_new_instance()


if __name__ == "__main__":
    run()
