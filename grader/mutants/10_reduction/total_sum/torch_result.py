# expect: no-kernel
# Lets PyTorch do it.
def total_sum(x, out):
    out[0] = x.sum()
