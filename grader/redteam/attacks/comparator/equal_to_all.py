# tries: returns an object that claims to be equal and close to everything
# stopped by: only numbers and text cross from the sandbox
# exercise: 00_start/number_of_programs
# where: both
# expect: refused

class Right:
    def __eq__(self, other):
        return True

    __hash__ = None
    __sub__ = __rsub__ = lambda self, other: 0
    __le__ = __ge__ = __lt__ = __gt__ = __bool__ = lambda self, *other: True
    __abs__ = lambda self: 0


def number_of_programs(n, block):
    return Right()
