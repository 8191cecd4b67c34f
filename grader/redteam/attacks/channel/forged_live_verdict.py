# tries: writes the verdict of an exercise on live objects, which is made beside the learner's code
# stopped by: nothing: docs/judging.md, exercises on objects
# exercise: 04_benchmarking/honest
# where: both
# expect: known limit

import os


def say(*lines):
    """Write into every open file but the standard ones."""
    for fd in range(3, 500):
        try:
            os.write(fd, b"".join(line.encode() + b"\n" for line in lines))
        except OSError:
            pass


import json


def honest(machine, call):
    passed = {"case": "forged", "diagnosis": None, "error": None, "seconds": 0.0, "hidden": False}
    verdict = {"exercise": "04_benchmarking/honest", "backend": "plain Python", "results": [passed], "headline": None}
    say(json.dumps({"task": "04_benchmarking/honest", "verdict": verdict}), '{"done": true}')
    os._exit(0)
