# expect: accepted
# The later of two ends.


def finish_time(count, launch, kernel):
    return max(launch + count * kernel, count * launch + kernel)
