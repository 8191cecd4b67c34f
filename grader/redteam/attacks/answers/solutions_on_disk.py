# tries: searches the disk for the solutions and runs what it finds
# stopped by: the sandbox holds no exercise, no solution and no seed
# exercise: 00_start/number_of_programs
# where: both
# expect: refused
# stock: no

import glob
import re


def number_of_programs(n, block):
    roots = ("/course", "/home/*/*", "/root/*", "/usr/src/*", "/opt/*", "/srv/*", "/builds/*/*", "..", "../..")
    for root in roots:
        for path in glob.glob(f"{root}/solutions/00_start/*.py"):
            text = open(path).read()
            body = re.search(r"def number_of_programs.*?### END SOLUTION", text, re.S)[0]
            scope = {}
            exec(body, scope)
            return scope["number_of_programs"](n, block)
    return -1
