# expect: wrong-formula
# Knows two kinds of strides only.


def passes_for_stride(stride):
    return 1 if stride % 2 else 2
