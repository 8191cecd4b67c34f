# expect: accepted
# The usual way in integers.


def number_of_programs(n, block):
    return (n + block - 1) // block
