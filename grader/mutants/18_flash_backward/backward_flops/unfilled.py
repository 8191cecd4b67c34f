# expect: unfilled
# The stub.
def backward_flops(heads, N, D):
    raise NotImplementedError("backward_flops is not written yet")
