# expect: wrong-formula
# Counts lanes for each bank, so that a broadcast looks like a conflict.


def passes_for_stride(stride):
    banks = [k * stride % 32 for k in range(32)]
    return max(banks.count(b) for b in banks)
