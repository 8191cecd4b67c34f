# expect: wrong-formula
# Counts a step after the last kernel.


def finish_time(count, launch, kernel):
    return launch + kernel + count * max(launch, kernel)
