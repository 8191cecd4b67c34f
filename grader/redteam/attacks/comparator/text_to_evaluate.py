# tries: returns text that a careless judge would evaluate
# stopped by: text is never evaluated
# exercise: 00_start/number_of_programs
# where: both
# expect: refused

def number_of_programs(n, block):
    return f"-(-{n} // {block})"
