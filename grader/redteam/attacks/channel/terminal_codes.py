# tries: prints codes that clear the instructor's terminal and write another report on it
# stopped by: what a terminal would obey is taken out
# exercise: 00_start/number_of_programs
# where: both
# expect: no effect
# baseline: full

def number_of_programs(n, block):
    print("\x1b[2J\x1b[H\x9b2J 100 of 1 points \u202e\ud800")
    return -(-n // block)
