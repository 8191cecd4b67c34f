"""The process in which submitted notebooks run, one after another: `python -m grader.execute.worker`.

A job is a line of JSON on standard input, its result a line on standard output. The kernels of the notebooks inherit
neither, so that nothing a student prints can be taken for a result. nbgrader and labutils are not imported: both take
seconds, and a worker needs neither.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import traceback
from pathlib import Path

# jsonschema loads this grammar, which takes two seconds, to check a format that no notebook uses.
sys.modules.setdefault("rfc3987_syntax", None)

import nbformat  # noqa: E402

from grader.execute.notebook import Limits, run_notebook  # noqa: E402


def do(job: dict) -> dict:
    """Run the notebook of one job in a scratch folder of its own."""
    notebook = nbformat.reads(job["notebook"], as_version=4)
    with tempfile.TemporaryDirectory(prefix="submission-", ignore_cleanup_errors=True) as scratch:
        # Nobody's settings, history and compiled kernels but the submission's own.
        own = {"IPYTHONDIR": "ipython", "TRITON_CACHE_DIR": "triton", "GPULAB_CACHE": "gpulab"}
        env = {**job["env"], **{variable: f"{scratch}/{name}" for variable, name in own.items()}}
        folder = Path(scratch, "notebook")
        folder.mkdir()
        log = asyncio.run(run_notebook(notebook, folder, env, Limits(**job["limits"])))
    # A cell may show half a surrogate pair, which no file can hold.
    text = nbformat.writes(notebook).encode("utf-8", "replace").decode()
    return {"notebook": text, "log": log.to_json()}


def main() -> None:
    for line in sys.stdin:
        try:
            result = do(json.loads(line))
        except Exception:
            result = {"defect": traceback.format_exc()}
        print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
