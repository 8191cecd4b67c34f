# expect: accepted
# The same product in another order.


def add_bytes(n, itemsize):
    return itemsize * (n + n + n)
