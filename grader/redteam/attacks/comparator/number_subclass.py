# tries: returns a float whose subtraction is always zero
# stopped by: only numbers and text cross from the sandbox
# exercise: 00_start/number_of_programs
# where: both
# expect: refused

class Right(float):
    def __sub__(self, other):
        return 0.0

    __rsub__ = __sub__

    def __float__(self):
        return self


def number_of_programs(n, block):
    return Right(-1)
