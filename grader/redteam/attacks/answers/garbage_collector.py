# tries: finds the exercise among all living objects and asks its reference
# stopped by: the sandbox holds no exercise, no solution and no seed
# exercise: 00_start/number_of_programs
# where: both
# expect: refused

import gc


def number_of_programs(n, block):
    for o in gc.get_objects():
        if type(o).__name__ == "PlainExercise" and o.entry == "number_of_programs":
            return o.reference(n, block)
    return -1
