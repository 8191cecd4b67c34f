# tries: breaks the judge with fields of the wrong type
# stopped by: an answer whose fields are not of their type counts for nothing
# exercise: 00_start/number_of_programs
# where: both
# expect: refused

import os


def say(*lines):
    """Write into every open file but the standard ones."""
    for fd in range(3, 500):
        try:
            os.write(fd, b"".join(line.encode() + b"\n" for line in lines))
        except OSError:
            pass


def number_of_programs(n, block):
    say('{"task": "00_start/number_of_programs", "case": 0, "missing": true, "cells": 5}')
    os._exit(0)
