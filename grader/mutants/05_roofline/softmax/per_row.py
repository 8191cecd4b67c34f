# expect: accepted
# The ledger of a row, M times.

from labutils import Ledger


def softmax_ledger(M, N, itemsize):
    row = N * itemsize
    return M * Ledger({"x": row}, {"y": row}, flops=5 * N)
