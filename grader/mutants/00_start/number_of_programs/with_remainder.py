# expect: accepted
# One more where something is left over.


def number_of_programs(n, block):
    return n // block + (n % block > 0)
