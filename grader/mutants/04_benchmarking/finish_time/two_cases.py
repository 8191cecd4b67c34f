# expect: accepted
# Both cases written out.


def finish_time(count, launch, kernel):
    if kernel >= launch:
        return launch + count * kernel
    return count * launch + kernel
