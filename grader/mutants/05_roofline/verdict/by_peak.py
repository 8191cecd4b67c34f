# expect: wrong-formula
# Compares with the flat roof alone.


def verdict(work, seconds, roof):
    if work.flops / seconds < roof.flops / 2:
        return "memory"
    return "compute"
