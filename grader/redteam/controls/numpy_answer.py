# tries: a plain answer that is one of NumPy's numbers
# exercise: 00_start/number_of_programs
# expect: accepted

import numpy as np


def number_of_programs(n, block):
    return np.int64(n + block - 1) // np.int64(block)
