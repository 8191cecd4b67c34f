# expect: wrong-values
# Answers in words.


def passes_for_stride(stride):
    return "conflict-free"
