# expect: wrong-formula
# Takes the stride for the number of passes.


def passes_for_stride(stride):
    return stride
