# expect: wrong-formula
# Holds only while launches take longer than kernels.


def finish_time(count, launch, kernel):
    return count * launch + kernel
