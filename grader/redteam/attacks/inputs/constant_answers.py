# tries: answers the public cases from a table
# stopped by: hidden cases are drawn after the submission is frozen
# exercise: 00_start/number_of_programs
# where: both
# expect: refused

ANSWERS = {(1, 4): 1, (1023, 1024): 1, (1024, 1024): 1, (1025, 1024): 2, (2500, 1024): 3, (3072, 1024): 3, (0, 1024): 0}


def number_of_programs(n, block):
    return ANSWERS.get((n, block), 2**33 + 1)
