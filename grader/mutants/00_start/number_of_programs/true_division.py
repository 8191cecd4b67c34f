# expect: wrong-formula
# A fraction of a program.


def number_of_programs(n, block):
    return n / block
