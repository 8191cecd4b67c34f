# expect: wrong-formula
# Forgets that a program takes a whole block.


def number_of_programs(n, block):
    return n
