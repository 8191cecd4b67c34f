# expect: no-kernel
# Lets PyTorch do it.
def sum_v6(x, out):
    out[0] = x.sum()
