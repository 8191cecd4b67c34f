# expect: wrong-formula
# Forgets what does not overlap at the ends.


def finish_time(count, launch, kernel):
    return count * max(launch, kernel)
