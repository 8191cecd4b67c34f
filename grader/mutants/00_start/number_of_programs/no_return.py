# expect: wrong-values
# Computes the answer and does not return it.


def number_of_programs(n, block):
    programs = -(-n // block)  # noqa: F841
