# expect: wrong-formula
# Adds one always, also when the blocks fit exactly.


def number_of_programs(n, block):
    return n // block + 1
