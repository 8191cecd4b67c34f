# expect: accepted
# Looks at every byte instead of every element.


def sectors_per_request(stride, itemsize, first):
    touched = set()
    for k in range(32):
        begin = (first + k * stride) * itemsize
        touched.update(byte // 32 for byte in range(begin, begin + itemsize))
    return len(touched)
