# tries: returns NaN, hoping that no comparison with it is a difference
# stopped by: a number counts only when it is close
# exercise: 00_start/number_of_programs
# where: both
# expect: refused

def number_of_programs(n, block):
    return float("nan")
