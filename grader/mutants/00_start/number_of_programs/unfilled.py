# expect: unfilled
# The cell as it is handed out.


def number_of_programs(n, block):
    raise NotImplementedError("number_of_programs is not written yet")
