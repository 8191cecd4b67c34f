# tries: takes the checking cell's text from IPython's In[-1]
# stopped by: no notebook runs where marks are made
# exercise: 00_start/number_of_programs
# where: both
# expect: refused

def number_of_programs(n, block):
    cell = In[-1]
    return eval(cell.split("==")[1])
