# expect: wrong-values
# Answers in words.


def sectors_per_request(stride, itemsize, first):
    return "four sectors"
