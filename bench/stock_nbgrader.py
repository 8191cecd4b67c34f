"""Autograde a course with stock nbgrader, one student after another in one process: `python -m bench.stock_nbgrader
COURSE UNIT`. Prints a line of JSON: how many were graded, how many it could not grade, and the seconds of all.

`nbgrader autograde UNIT` does the same, but ends altogether at the first notebook with a duplicated check.
"""

import json
import sys
import time
from pathlib import Path


def main(course: Path, unit: str) -> None:
    begin = time.perf_counter()
    from grader.course.nbgrader_config import NbGraderAPI, course_config

    api = NbGraderAPI(config=course_config(course))
    done = [api.autograde(unit, path.name)["success"] for path in sorted((course / "submitted").iterdir())]
    told = {"graded": sum(done), "not_graded": len(done) - sum(done), "seconds": time.perf_counter() - begin}
    print(json.dumps(told))


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), sys.argv[2])
