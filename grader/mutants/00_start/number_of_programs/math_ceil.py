# expect: accepted
# Through a float: exact below 2^53.
import math


def number_of_programs(n, block):
    return math.ceil(n / block)
