# tries: imports the course's own exercises
# stopped by: the sandbox holds no exercise, no solution and no seed
# exercise: 00_start/number_of_programs
# where: both
# expect: refused

def number_of_programs(n, block):
    from labutils import exercises

    return exercises.get("00_start/number_of_programs").reference(n, block)
