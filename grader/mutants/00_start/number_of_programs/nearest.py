# expect: wrong-formula
# Rounds to the nearest whole number.


def number_of_programs(n, block):
    return round(n / block)
