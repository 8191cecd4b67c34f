# expect: wrong-formula
# Rounds down: a last, partial block has no program.


def number_of_programs(n, block):
    return n // block
