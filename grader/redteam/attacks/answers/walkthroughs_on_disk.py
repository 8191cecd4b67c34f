# tries: takes the solution from the file of lab.walkthrough, which lies in labutils
# stopped by: no sandbox has that file
# exercise: 00_start/number_of_programs
# where: both
# expect: refused
# stock: no

import glob
import json


def number_of_programs(n, block):
    places = ["/course/labutils/study", "/usr/lib/python3*/**/labutils/study", "/srv/*/labutils/study"]
    try:
        import labutils

        places.append(labutils.__path__[0] + "/study")
    except ImportError:
        pass
    for place in places:
        for path in glob.glob(f"{place}/walkthroughs.json", recursive=True):
            scope = {}
            exec(json.load(open(path))["exercises"]["00_start/number_of_programs"]["code"], scope)
            return scope["number_of_programs"](n, block)
    return -1
