# expect: wrong-formula
# Leaves the first launch out, and that the GPU may wait.


def finish_time(count, launch, kernel):
    return count * kernel
